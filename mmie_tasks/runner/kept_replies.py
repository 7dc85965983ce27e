"""Puts the logged replies of a run into its judges' caches, for `rejudge --failed`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping

from mmie_tasks.core.choice import Choice
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.verdict import SCORE_KINDS, Unscored
from mmie_tasks.core.wording import counted
from mmie_tasks.judges import registry
from mmie_tasks.judges.cache_file import CachedReply, named_errors
from mmie_tasks.judges.choice import JudgeChoices, choose_judges, open_judge
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.record import Record
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.run import TaskRun

_NOT_BY_THE_JUDGE = {
    *("no_answer", "not_text", "not_drawn", "bad_gold", "not_scorable", "left_out")
}


def keep_replies(task_run: TaskRun, choices: JudgeChoices, environment: Mapping[str, str]) -> None:
    """Put the logged replies of a task into the caches of the judges that gave them.

    A reply that gave its sample no points is removed from the cache, so that the judge is asked
    again. The benchmark of the task must have a judge.

    Raises:
        SettingWrong: A sample has only replies of other judges, or replies without request keys, or
            a judge has no cache.
    """
    benchmark = task_run.benchmark
    assert benchmark.judge is not None  # noqa: S101 - see above
    chosen = choose_judges(benchmark.name, benchmark.judge.default, environment, choices)
    for choice in chosen.judges:
        if not registry.judge_class(choice.name).is_cached:
            continue  # such a judge makes no requests
        kept: list[CachedReply] = []
        unreadable: list[CachedReply] = []
        cache = open_judge(choice, environment).cache
        for judgement, reply in _replies(task_run, choice, environment):
            (unreadable if _is_unscored(judgement) else kept).append(reply)
        if cache is None:
            raise SettingWrong(
                "`--failed` keeps the replies in the judge's cache, and `cache=off` is chosen.",
                hint="leave `cache=off` out; if the run was judged with it, name its judge without "
                "it: `--failed --judge NAME:MODEL`, with `base_url=` if it had one",
            )
        with cache.open() as table, named_errors(cache.path):
            for reply in kept:
                table.put(reply)
            for reply in unreadable:
                table.remove(reply.signature, reply.request_key)
        name = ", ".join(log.name for log in task_run.logs)
        sys.stderr.write(
            f"mmie-tasks: {counted(len(kept), 'reply')} of {choice.name} in `{name}` kept; "
            f"{sum(map(has_failed, task_run.records)):,} of "
            f"{counted(len(task_run.records), 'sample')} lack the points of a judge.\n"
        )


def has_failed(record: Record) -> bool:
    """Whether a sample has no points, or lacks a judge's, for a reason that a judge can change."""
    verdicts = [record.verdict(kind) for kind in SCORE_KINDS]
    verdicts += [one.verdicts.verdict(kind) for one in record.judgements for kind in SCORE_KINDS]
    return any(isinstance(v, Unscored) and v.reason not in _NOT_BY_THE_JUDGE for v in verdicts)


def _is_unscored(judgement: Judgement) -> bool:
    verdicts = (judgement.verdicts.verdict(kind) for kind in SCORE_KINDS)
    return any(isinstance(verdict, Unscored) for verdict in verdicts)


def _replies(
    task_run: TaskRun, choice: Choice, environment: Mapping[str, str]
) -> Iterator[tuple[Judgement, CachedReply]]:
    """The logged replies of a judge, with its signature."""
    judge = open_judge(choice, environment)
    own = None if judge.in_process else Signature.of_judges([judge.signature])
    for sample in task_run.records:
        given = [
            judgement
            for judgement in sample.judgements
            if judgement.judge == own
            or (own is None and judgement.judge.fields.get("judge") == choice.name)
        ]
        if sample.replies and not given:
            raise SettingWrong(
                f"`{task_run.task}` was judged by {sample.signature.name or 'nobody'}, "
                f"not by {own or choice.name}, and `--failed` keeps replies of the same "
                "judge only: a score has one judge.",
                hint="leave `--judge` out, or `--failed`",
            )
        for judgement in given:
            for reply in judgement.result.replies:
                if not reply.request_key:
                    raise SettingWrong(
                        f"`{task_run.logs[0]}` does not have the keys of its requests: its judge "
                        "had no cache.",
                        hint="`rejudge` without `--failed`, and with `--judge`",
                    )
                signature = judge.storage_signature if own else str(judgement.judge)
                cached = CachedReply(signature, reply.request_key, reply, int(time.time()))
                yield judgement, cached
