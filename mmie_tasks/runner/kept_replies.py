"""Puts the logged replies of a run into its judges' caches, for `rejudge --failed`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping

from mmie_tasks.core.choice import Choice
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.wording import counted
from mmie_tasks.judges import registry
from mmie_tasks.judges.cache_store import CachedReply, CacheFile, named_errors
from mmie_tasks.judges.choice import JudgeChoices, cache_path, choose_judges, open_judge
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.run import TaskRun


def keep_replies(task_run: TaskRun, choices: JudgeChoices, environment: Mapping[str, str]) -> None:
    """Put the logged replies of a task into the caches of the judges that gave them.

    The benchmark of the task must have a judge.

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
        replies = list(_replies(task_run, choice, environment))
        path = cache_path(choice, environment)
        if path is None:
            raise SettingWrong(
                "`--failed` keeps the replies in the judge's cache, and `cache=off` is chosen.",
                hint="leave `cache=off` out, or name a file: `cache=FILE`",
            )
        with CacheFile(path).open() as table, named_errors(path):
            for reply in replies:
                table.put(reply)
        name = ", ".join(log.name for log in task_run.logs)
        sys.stderr.write(
            f"mmie-tasks: {len(replies):,} replies of {choice.name} in `{name}` are kept, of "
            f"{counted(len(task_run.records), 'sample')}.\n"
        )


def _replies(
    task_run: TaskRun, choice: Choice, environment: Mapping[str, str]
) -> Iterator[CachedReply]:
    """The logged replies of a judge, with its signature."""
    judge = open_judge(choice, environment)
    signature = "" if judge.in_process else judge.signature
    own = Signature.of_judges([signature]) if signature else None
    for sample in task_run.records:
        given = {
            judged.judge: judged.result.replies
            for judged in sample.judgements
            if judged.judge == own
            or (own is None and judged.judge.fields.get("judge") == choice.name)
        }
        if sample.replies and not given:
            raise SettingWrong(
                f"`{task_run.task}` was judged by {sample.signature.name or 'nobody'}, "
                f"not by {signature or choice.name}, and `--failed` keeps replies of the same "
                "judge only: a score has one judge.",
                hint="leave `--judge` out, or `--failed`",
            )
        for logged, replies in given.items():
            for reply in replies:
                if not reply.request_key:
                    raise SettingWrong(
                        f"`{task_run.logs[0]}` does not have the keys of its requests: its judge "
                        "had no cache.",
                        hint="`rejudge` without `--failed`, and with `--judge`",
                    )
                stored = judge.storage_signature if signature else str(logged)
                yield CachedReply(stored, reply.request_key, reply, int(time.time()))
