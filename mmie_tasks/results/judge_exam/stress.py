"""Stress test of a judge: how far its points move when the answers of a run are changed."""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

from scipy.special import betaincinv

from mmie_tasks.answers.images import check_image
from mmie_tasks.core.bootstrap import LEVEL, Interval, bootstrap_interval
from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.core.tables import counted, listed, percent_cell, table, wrapped
from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.judges.base import RequestBroken, content_key
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.judging.session import SharedJudge, judge_together
from mmie_tasks.results.calibrate.plan import judged_samples
from mmie_tasks.results.commands import open_run
from mmie_tasks.results.judge_exam.asking import fixed_choice, total_usd
from mmie_tasks.results.judge_exam.changes import CHANGES_NAME, Change, Exchange, changes, donors, images_of
from mmie_tasks.results.judge_exam.grade import MIN_SAMPLES
from mmie_tasks.results.people import answer_digest
from mmie_tasks.runs.benchmark import BadRecord, Line, LoggedSample, Segments
from mmie_tasks.runs.log_files import TaskRun, sample_lines

DEFAULT_LIMIT = 100
"""Samples of a run whose answers are changed."""

TOLERANCE = 0.05
"""Of full marks. A harmless change moves a judge if the interval of the mean size of its changes is above it."""

DRIFT = 0.01
"""Of full marks. It also moves a judge if the mean change is larger than this and its interval excludes 0."""

Finding: TypeAlias = Literal["notices", "does not notice", "rewards it", "unmoved", "moved", "too few"]

_UNCHANGED = ""  # in the place of a change's name
_BAD_IMAGE = "bad_image"
_SAME = 1e-9  # points closer than this are equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How far a change moves a judge's points.

    Attributes:
        name: The change, as `changes.ChangeName`.
        title: For display.
        is_harmless: Whether a fair judge should not care about it.
        n: Samples with points for the unchanged and the changed answer.
        mean_change: Points after less points before; None without samples.
        interval: 95 % bootstrap interval of the mean change; None below `MIN_SAMPLES` samples.
        mean_size: Mean of the changes without their signs.
        at_zero: Samples that had no points to lose. They are in the means, not in the two following attributes.
        could_drop: Samples that had points to lose.
        not_dropped: Percent of these that have as many points as before, or more; None without any.
        not_dropped_interval: 95 %, exact (Clopper and Pearson); None below `MIN_SAMPLES` samples.
        finding: What this says about the judge.
        not_applicable: Samples to which the change does not apply, or whose request it does not change.
        without_points: Reason to the number of samples that are in none of these numbers for it.
    """

    name: str
    title: str
    is_harmless: bool
    n: int
    mean_change: float | None
    interval: Interval | None
    mean_size: float | None
    at_zero: int
    could_drop: int
    not_dropped: float | None
    not_dropped_interval: Interval | None
    finding: Finding
    not_applicable: int
    without_points: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StressTest:
    """The result of a stress test, as it is printed.

    Attributes:
        judge: The judge's signature.
        exam: The changes, the task, and a digest of the samples and their answers.
        run: Path of the log.
        task: The task's name in lmms-eval.
        unit: Of the points.
        samples: Whose answers were changed.
        samples_of_run: That have an official score.
        unchanged_points: Mean points of the unchanged answers; None without any.
        unchanged_without_points: Reason to the number of samples without points for the unchanged answer.
        effects: One per change.
        requests: Different ones.
        sent: Replies that did not come from the cache.
        usd: US dollars for all replies, those from the cache at their original cost; None if unknown.
        seconds: Of judging.
    """

    judge: str
    exam: str
    run: str
    task: str
    unit: str
    samples: int
    samples_of_run: int
    unchanged_points: float | None
    unchanged_without_points: Mapping[str, int]
    effects: tuple[Effect, ...]
    requests: int
    sent: int
    usd: float | None
    seconds: float


def run_stress(shared: SharedJudge, source: str, task: str, limit: int | None, *, as_json: bool) -> str:
    """Change answers of a run, ask a judge about them, and print how far its points move.

    Args:
        shared: The judge.
        source: The run, as a results command takes it.
        task: The task; may be empty if the run has a single judged one.
        limit: How many samples; None for `DEFAULT_LIMIT`.
        as_json: Whether to return JSON.

    Raises:
        MmieTasksError: The run cannot be read or has no such task, or the judge cannot be used.
    """
    task_run = _judged_task(source, task)
    with TemporaryDirectory(prefix="mmie-tasks-stress-") as folder:
        result = stress_test(shared, task_run, limit or DEFAULT_LIMIT, Path(folder))
    return json.dumps(asdict(result), indent=1, ensure_ascii=False, allow_nan=False) if as_json else as_text(result)


def _judged_task(source: str, task: str) -> TaskRun:
    """The named task of a run, or the single one that is judged."""
    tasks = open_run(source, [task] if task else []).tasks
    judged = {name: opened for name, opened in tasks.items() if opened.benchmark.judge_request is not None}
    if len(judged) > 1:
        names = ", ".join(f"`{name}`" for name in judged)
        raise SettingWrong(f"`{source}` has several judged tasks: {names}.", hint="name one of them with `--task`")
    return next(iter((judged or tasks).values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """A request, and the digest of its content."""

    request: GradedRequest
    key: str


_Entry: TypeAlias = _Planned | str | None
"""A request, the reason why there is none, or None where a change does not apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The requests of a stress test.

    Attributes:
        samples: Ids of the samples that are tested, in the order of the log.
        samples_of_run: How many have an official score.
        digest: Of the samples' ids and answers.
        changes: In the order of the table.
        entries: Name of a change, or `_UNCHANGED`, and sample id to what is asked. A sample without a request for the
            unchanged answer has no other entry.
    """

    samples: tuple[str, ...]
    samples_of_run: int
    digest: str
    changes: tuple[Change, ...]
    entries: Mapping[tuple[str, str], _Entry]

    @property
    def requests(self) -> int:
        """How many different requests there are."""
        return len({entry.key for entry in self.entries.values() if isinstance(entry, _Planned)})


def stress_test(
    shared: SharedJudge, task_run: TaskRun, limit: int, folder: Path, clock: Callable[[], float] = time.monotonic
) -> StressTest:
    """Ask a judge about unchanged and changed answers, all together.

    Args:
        shared: The judge.
        task_run: Of a judged benchmark.
        limit: How many samples at most; a larger number asks only what is missing.
        folder: For copies of images; they are needed until this returns.
        clock: Seconds, from any origin.

    Raises:
        SettingWrong: No sample has an official score.
        MmieTasksError: The judge cannot be used, or the benchmark's judge prompt is not available.
    """
    shared.check()  # before any work
    plan = _plan(task_run, limit, folder)
    sys.stderr.write(
        f"{counted(len(plan.samples), 'sample')} of {plan.samples_of_run:,} of {task_run.task}, "
        f"{len(plan.changes)} changes: {counted(plan.requests, 'request')} at most; what is in the cache is not asked "
        "again.\n"
    )
    planned = {key: entry.request for key, entry in plan.entries.items() if isinstance(entry, _Planned)}
    began_s = clock()
    results = judge_together(shared, list(planned.values()), f"changed answers of {task_run.task}")
    seconds = clock() - began_s
    verdicts: dict[tuple[str, str], Verdict | str | None] = {
        key: None if isinstance(entry, _Planned) else entry for key, entry in plan.entries.items()
    }
    for (key, request), result in zip(planned.items(), results, strict=True):
        verdicts[key] = request.grade(result).official
    unchanged = {id_: verdicts[_UNCHANGED, id_] for id_ in plan.samples}
    points = {id_: verdict.points for id_, verdict in unchanged.items() if isinstance(verdict, Scored)}
    replies = [reply for result in results for reply in result.replies]
    scale = task_run.benchmark.scale
    return StressTest(
        judge=shared.judge.signature,
        exam=f"stress:{CHANGES_NAME}|task:{task_run.task}|samples:{len(plan.samples)},{plan.digest}",
        run=str(task_run.log),
        task=task_run.task,
        unit=scale.unit,
        samples=len(plan.samples),
        samples_of_run=plan.samples_of_run,
        unchanged_points=math.fsum(points.values()) / len(points) if points else None,
        unchanged_without_points=_reasons(unchanged.values()),
        effects=tuple(
            effect(change, [(before, verdicts[change.name, id_]) for id_, before in points.items()], scale.full_marks)
            for change in plan.changes
        ),
        requests=plan.requests,
        sent=sum(not reply.cached for reply in replies),
        usd=total_usd(replies),
        seconds=seconds,
    )


def _plan(task_run: TaskRun, limit: int, folder: Path) -> _Plan:
    """Choose the samples, and make the requests for their unchanged and changed answers."""
    make_request = task_run.benchmark.judge_request
    if make_request is None:
        raise SettingWrong(
            f"`{task_run.task}` is scored by rule: there is no judge to test.",
            hint="`--stress` takes a run of a judged benchmark, such as `mmie` or `mia_bench`",
        )
    judged = judged_samples(task_run, "official").by_id
    if not judged:
        raise SettingWrong(f"No sample of `{task_run.task}` has an official score.", hint="use a run with scores")
    order = fixed_choice({id_: sample.stratum for id_, sample in judged.items()}, len(judged))
    exchanges = [(judged[id_].stratum, _exchange(judged[id_].sample)) for id_ in order]
    positions = {id_: position for position, id_ in enumerate(order[:limit])}
    all_changes = changes(has_answer_images=any(images_of(exchange.answer) for _, exchange in exchanges))
    entries: dict[tuple[str, str], _Entry] = {}
    for sample, line in sample_lines(task_run):
        if (position := positions.get(sample.id)) is None:
            continue
        exchange = exchanges[position][1]
        unchanged = entries[_UNCHANGED, sample.id] = _entry(make_request, exchange, line)
        for change in all_changes if isinstance(unchanged, _Planned) else ():
            try:
                changed = change.apply(exchange, donors(exchanges, position), folder)
                entry = None if changed is None else _entry(make_request, changed, line)
            except (DataMissing, DataBroken):  # an image, since the unchanged answer has a request
                entry = _BAD_IMAGE
            is_same = isinstance(entry, _Planned) and isinstance(unchanged, _Planned) and entry.key == unchanged.key
            entries[change.name, sample.id] = None if is_same else entry
    digest = hashlib.sha256(
        json.dumps([(id_, answer_digest(judged[id_].sample)) for id_ in sorted(positions)]).encode()
    )
    return _Plan(
        samples=tuple(positions),
        samples_of_run=len(judged),
        digest=digest.hexdigest()[:12],
        changes=all_changes,
        entries=entries,
    )


def _exchange(sample: LoggedSample) -> Exchange:
    """The question and the answer of a sample, without images that neither model nor judge could see."""
    return Exchange(question=_usable(sample.question), answer=_usable(sample.answer))


def _usable(segments: Segments) -> Segments:
    return tuple(
        replace(segment, image=None, problem="") if segment.image and segment.problem else segment
        for segment in segments
    )


def _entry(
    make_request: Callable[[Segments, Segments, Line | None], GradedRequest], exchange: Exchange, line: Line
) -> _Planned | str:
    """The request in the benchmark's judge prompt, or the reason why there is none."""
    images = images_of(exchange.question + exchange.answer)
    if any(check_image(Path(image)).problem for image in images):
        return _BAD_IMAGE
    try:
        request = make_request(exchange.question, exchange.answer, line)
        return _Planned(request=request, key=content_key(request.request))
    except BadRecord as error:
        return str(error).partition(":")[0]
    except RequestBroken:
        return _BAD_IMAGE


def effect(change: Change, pairs: Sequence[tuple[float, Verdict | str | None]], full_marks: float) -> Effect:
    """The effect of a change on a judge's points.

    Args:
        change: The change.
        pairs: Of each sample with points for its unchanged answer: these points; and the verdict on the changed answer,
            the reason why it was not asked for, or None where the change does not apply.
        full_marks: Of the benchmark's scale.
    """
    scored = [(before, after.points) for before, after in pairs if isinstance(after, Scored)]
    differences = [after - before for before, after in scored]
    sizes = list(map(abs, differences))
    drops = [difference < -_SAME for (before, _), difference in zip(scored, differences, strict=True) if before > 0]
    interval = bootstrap_interval(differences) if len(scored) >= MIN_SAMPLES else None
    kept = drops.count(False)
    return Effect(
        name=change.name,
        title=change.title,
        is_harmless=change.is_harmless,
        n=len(scored),
        mean_change=_mean(differences),
        interval=interval,
        mean_size=_mean(sizes),
        at_zero=len(scored) - len(drops),
        could_drop=len(drops),
        not_dropped=100 * kept / len(drops) if drops else None,
        not_dropped_interval=_exact_interval(kept, len(drops)),
        finding=_finding(change, interval, bootstrap_interval(sizes), full_marks, could_drop=len(drops)),
        not_applicable=sum(after is None for _, after in pairs),
        without_points=_reasons(after for _, after in pairs),
    )


def _finding(
    change: Change, interval: Interval | None, sizes: Interval | None, full_marks: float, *, could_drop: int
) -> Finding:
    """What the interval of the mean change, and that of its size, say about a judge."""
    if interval is None or sizes is None:
        return "too few"
    if change.is_harmless:
        drifts = (interval.low > 0 or interval.high < 0) and abs(sum(interval)) / 2 > DRIFT * full_marks
        return "moved" if drifts or sizes.low > TOLERANCE * full_marks else "unmoved"
    if interval.low > 0:
        return "rewards it"
    if interval.high < 0:
        return "notices"
    return "does not notice" if could_drop >= MIN_SAMPLES else "too few"


def _exact_interval(count: int, total: int) -> Interval | None:
    """The interval of a share in percent (Clopper and Pearson); None below `MIN_SAMPLES`."""
    if total < MIN_SAMPLES:
        return None
    tail = (1 - LEVEL) / 2
    low = betaincinv(count, total - count + 1, tail) if count else 0.0
    high = betaincinv(count + 1, total - count, 1 - tail) if count < total else 1.0
    return Interval(100 * float(low), 100 * float(high))


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _reasons(verdicts: Iterable[Verdict | str | None]) -> Mapping[str, int]:
    """Why samples have no points, to their number."""
    counts: Counter[str] = Counter()
    for verdict in verdicts:
        if isinstance(verdict, (Unscored, str)):
            counts[verdict if isinstance(verdict, str) else verdict.reason] += 1
    return dict(counts)


def as_text(result: StressTest) -> str:
    """A table with a line for each change, and what it was computed from."""
    rows = [
        [
            effect.title,
            f"{effect.n:,}",
            percent_cell(effect.mean_change, effect.interval),
            percent_cell(effect.mean_size),
            "" if effect.is_harmless else percent_cell(effect.not_dropped, effect.not_dropped_interval),
            "" if effect.is_harmless else f"{effect.at_zero:,}",
            effect.finding,
        ]
        for effect in result.effects
    ]
    header = ["change", "samples", "mean change", "mean size", "did not drop, %", "had 0", "the judge"]
    blocks = [
        f"# Stress test of a judge on {counted(result.samples, 'answer')} of {result.task}",
        wrapped(
            f"Change of its {result.unit}, with 95 % intervals. A fair judge notices every change, and is unmoved by "
            "the last three."
        ),
        table(header, rows),
        "\n".join(wrapped(f"- {sentence}") for sentence in _sentences(result)),
        f"judge: {result.judge}\nexam: {result.exam}\nrun: {result.run}",
    ]
    return "\n\n".join(blocks)


def _sentences(result: StressTest) -> Iterator[str]:
    without = sum(result.unchanged_without_points.values())
    scored = result.samples - without
    mean = "" if result.unchanged_points is None else f", {result.unchanged_points:.2f} on average"
    why = f". Left out: {listed(result.unchanged_without_points)}" if without else ""
    yield f"Unchanged answers: {scored:,} of {result.samples:,} have points{mean}{why}."
    if reasons := [f"{one.title}: {listed(one.without_points)}" for one in result.effects if one.without_points]:
        yield f"Without points: {'; '.join(reasons)}."
    if not_applicable := {one.title: one.not_applicable for one in result.effects if one.not_applicable}:
        yield f"Does not apply, or changes nothing that the judge sees: {listed(not_applicable)}."
    if any(one.finding == "too few" for one in result.effects):
        yield f"Too few: fewer than {MIN_SAMPLES} samples with points, or with points to lose."
    usd = "unknown" if result.usd is None else f"{result.usd:.2f}"
    sent = f"{counted(result.requests, 'request')}, {result.sent:,} sent"
    yield f"{sent}; US dollars {usd}, seconds {result.seconds:,.1f}."
