"""Stress test of a judge: how far its points move when the answers of a run are changed.

There are changes that a fair judge must not score higher, and harmless ones that it should not care
about: see `mmie_tasks.quality.judge_exam.changes`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

from mmie_tasks.answers.images import check_image
from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.core.tables import counted, listed, percent_cell, table, wrapped
from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.judges.base import RequestBroken, content_key
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.judging.session import SharedJudge
from mmie_tasks.quality.judge_exam.asking import ask, cost_text, fixed_choice
from mmie_tasks.quality.judge_exam.changes import Change, Exchange, changes, donors, images_of
from mmie_tasks.quality.judge_exam.grade import exact_interval
from mmie_tasks.quality.plan import JudgedSample, judged_samples
from mmie_tasks.record.intervals import Interval, bootstrap_interval
from mmie_tasks.record.sample import BadRecord, Line
from mmie_tasks.record.segment import Segments
from mmie_tasks.results.commands import open_run
from mmie_tasks.results.labels import answer_digest
from mmie_tasks.results.render import json_text
from mmie_tasks.runs.run import TaskRun, sample_lines

# Name of the changes in an exam's signature; another number for other changes.
_CHANGES_NAME = "changes-1"

_DEFAULT_LIMIT = 100  # samples of a run whose answers are changed

MIN_SAMPLES = 20
"""With fewer samples there is no interval: with 10, 81 % of intervals hold the mean where one
answer in five drops.
"""

TOLERANCE = 0.05
"""Of full marks. A harmless change moves a judge if the interval of the mean size of its changes is
above it.
"""

# Of full marks. It also moves a judge if the mean change is larger than this and its interval
# excludes 0.
_DRIFT = 0.01

StressFinding: TypeAlias = Literal[
    "notices", "does not notice", "rewards it", "unmoved", "moved", "too few"
]

_UNCHANGED = ""  # in the place of a change's name
_NOT_APPLICABLE = "does not apply"
_BAD_IMAGE = "bad_image"
_SAME = 1e-9  # points closer than this are equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How far a change moves a judge's points.

    Attributes:
        name, title, is_harmless: As of `Change`.
        n: Samples with points for the unchanged and the changed answer.
        mean_change: Points after less points before; None without samples.
        interval: 95 % bootstrap interval of the mean change; None below `MIN_SAMPLES` samples.
        mean_size: Mean of the changes without their signs.
        at_zero: Samples that had no points to lose. They are in the means, not in the two following
            attributes.
        could_drop: Samples that had points to lose.
        not_dropped: Percent of these that have as many points as before, or more; None without any.
        not_dropped_interval: 95 %, exact (Clopper and Pearson); None below `MIN_SAMPLES` samples.
        finding: What this says about the judge.
        not_applicable: Samples to which the change does not apply, or whose request it does not
            change.
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
    finding: StressFinding
    not_applicable: int
    without_points: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _StressTest:
    """The result of a stress test, as it is printed.

    `exam` has the changes, the task, and a digest of the samples and their answers.
    `unchanged_points` is the mean of the unchanged answers, `unchanged_without_points` the reasons
    for answers without points. The costs are as of `RequestResults`.
    """

    judge: str
    exam: str
    run: str
    task: str
    unit: str
    samples: int
    unchanged_points: float | None
    unchanged_without_points: Mapping[str, int]
    effects: tuple[Effect, ...]
    requests: int
    usd_per_1000: float | None
    seconds_per_1000: float | None


def run_stress(
    shared: SharedJudge, source: str, task: str, limit: int | None, *, as_json: bool
) -> str:
    """Change answers of a run, ask a judge about them, and print how far its points move.

    Args:
        shared: The judge.
        source: The run, as a results command takes it.
        task: The task; may be empty if the run has a single judged one.
        limit: How many samples; None for 100.
        as_json: Whether to return JSON.

    Raises:
        MmieTasksError: The run cannot be read or has no such task, or the judge cannot be used.
    """
    tasks = open_run(source, [task] if task else []).tasks
    judged = {
        name: opened for name, opened in tasks.items() if opened.benchmark.judge_request is not None
    }
    if len(judged) > 1:
        names = ", ".join(f"`{name}`" for name in judged)
        raise SettingWrong(
            f"`{source}` has several judged tasks: {names}.", hint="name one of them with `--task`"
        )
    task_run = next(iter((judged or tasks).values()))
    with TemporaryDirectory(prefix="mmie-tasks-stress-") as folder:
        result = stress_test(shared, task_run, limit or _DEFAULT_LIMIT, Path(folder))
    return json_text(result) if as_json else _as_text(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The requests of a stress test. A key is the name of a change, or `_UNCHANGED`, and the id of
    a sample.

    `without` has the reasons for keys without a request: `_NOT_APPLICABLE` where the change does
    not apply. A sample without a request for the unchanged answer has no other key.
    """

    samples: Sequence[str]
    changes: Sequence[Change]
    requests: Mapping[tuple[str, str], GradedRequest]
    without: Mapping[tuple[str, str], str]


def stress_test(shared: SharedJudge, task_run: TaskRun, limit: int, folder: Path) -> _StressTest:
    """Ask a judge about unchanged and changed answers, all together.

    Args:
        shared: The judge.
        task_run: Of a judged benchmark.
        limit: How many samples at most; a larger number asks only what is missing.
        folder: For copies of images; they are needed until this returns.

    Raises:
        SettingWrong: The benchmark is scored by rule, or no sample has an official score.
        MmieTasksError: The judge cannot be used, or the benchmark's judge prompt is not available.
    """
    shared.check()  # before any work
    judged = judged_samples(task_run, "official").by_id
    plan = _plan(task_run, judged, limit, folder)
    requests = len({request.request for request in plan.requests.values()})
    sys.stderr.write(
        f"{counted(len(plan.samples), 'sample')} of {len(judged):,} of {task_run.task}, "
        f"{len(plan.changes)} changes: "
        f"{counted(requests, 'request')} at most; what is in the cache is not asked again.\n"
    )
    outcome = ask(shared, list(plan.requests.values()), f"changed answers of {task_run.task}")
    verdicts: dict[tuple[str, str], Verdict | str] = {**plan.without}
    for (key, request), result in zip(plan.requests.items(), outcome.results, strict=True):
        verdicts[key] = request.grade(result).official
    unchanged = {id_: verdicts[_UNCHANGED, id_] for id_ in plan.samples}
    points = {
        id_: verdict.points for id_, verdict in unchanged.items() if isinstance(verdict, Scored)
    }
    scale = task_run.benchmark.scale
    answers = json.dumps([(id_, answer_digest(judged[id_].sample)) for id_ in plan.samples])
    digest = hashlib.sha256(answers.encode()).hexdigest()[:12]
    return _StressTest(
        judge=shared.judge.signature,
        exam=f"stress:{_CHANGES_NAME}|task:{task_run.task}|samples:{len(plan.samples)},{digest}",
        run=str(task_run.log),
        task=task_run.task,
        unit=scale.unit,
        samples=len(plan.samples),
        unchanged_points=fmean(points.values()) if points else None,
        unchanged_without_points=_reasons(unchanged.values()),
        effects=tuple(
            effect(
                change,
                [(before, verdicts[change.name, id_]) for id_, before in points.items()],
                scale.full_marks,
            )
            for change in plan.changes
        ),
        requests=requests,
        usd_per_1000=outcome.usd_per_1000,
        seconds_per_1000=outcome.seconds_per_1000,
    )


def _plan(task_run: TaskRun, judged: Mapping[str, JudgedSample], limit: int, folder: Path) -> _Plan:
    """Choose the samples, and make the requests for their unchanged and changed answers."""
    make_request = task_run.benchmark.judge_request
    if make_request is None:
        hint = "`--stress` takes a run of a judged benchmark, such as `mmie` or `mia_bench`"
        raise SettingWrong(
            f"`{task_run.task}` is scored by rule: there is no judge to test.", hint=hint
        )
    if not judged:
        raise SettingWrong(
            f"No sample of `{task_run.task}` has an official score.", hint="use a run with scores"
        )
    order = fixed_choice({id_: sample.stratum for id_, sample in judged.items()}, len(judged))
    samples = [judged[id_] for id_ in order]
    exchanges = [
        (s.stratum, Exchange(question=_usable(s.sample.question), answer=_usable(s.sample.answer)))
        for s in samples
    ]
    positions = {id_: position for position, id_ in enumerate(order[:limit])}
    all_changes = changes(
        has_answer_images=any(images_of(exchange.answer) for _, exchange in exchanges)
    )
    entries: dict[tuple[str, str], GradedRequest | str] = {}
    for sample, line in sample_lines(task_run):
        if (position := positions.get(sample.id)) is None:
            continue
        exchange = exchanges[position][1]
        unchanged = entries[_UNCHANGED, sample.id] = _request_or_reason(
            make_request, exchange, line
        )
        for change in all_changes if isinstance(unchanged, GradedRequest) else ():
            try:
                changed = change.apply(exchange, donors(exchanges, position), folder)
            except (DataMissing, DataBroken):
                entries[change.name, sample.id] = _BAD_IMAGE
                continue
            entry = _request_or_reason(make_request, changed, line) if changed else _NOT_APPLICABLE
            is_same = _is_same(entry, unchanged)
            entries[change.name, sample.id] = _NOT_APPLICABLE if is_same else entry
    return _Plan(
        samples=sorted(positions),
        changes=all_changes,
        requests={key: entry for key, entry in entries.items() if isinstance(entry, GradedRequest)},
        without={key: entry for key, entry in entries.items() if isinstance(entry, str)},
    )


def _usable(segments: Segments) -> Segments:
    """Without images that neither model nor judge could see."""
    return tuple(
        replace(s, image=None, problem="") if s.image and s.problem else s for s in segments
    )


def _request_or_reason(
    make_request: Callable[[Segments, Segments, Line], GradedRequest],
    exchange: Exchange,
    line: Line,
) -> GradedRequest | str:
    """The request in the benchmark's judge prompt, or the reason why there is none."""
    if any(
        check_image(Path(image)).problem for image in images_of(exchange.question + exchange.answer)
    ):
        return _BAD_IMAGE
    try:
        return make_request(exchange.question, exchange.answer, line)
    except BadRecord as error:
        return str(error).partition(":")[0]


def _is_same(one: GradedRequest | str, other: GradedRequest | str) -> bool:
    """Whether the judge would see the same; not for an image that is too large to be sent."""
    if isinstance(one, str) or isinstance(other, str):
        return False
    try:
        return content_key(one.request) == content_key(other.request)
    except RequestBroken:
        return False


def effect(
    change: Change, pairs: Sequence[tuple[float, Verdict | str]], full_marks: float
) -> Effect:
    """The effect of a change on a judge's points.

    Args:
        change: The change.
        pairs: Of each sample with points for its unchanged answer: these points; and the verdict on
            the changed answer, or why there is none.
        full_marks: Of the benchmark's scale.
    """
    scored = [(before, after.points) for before, after in pairs if isinstance(after, Scored)]
    differences = [after - before for before, after in scored]
    sizes = list(map(abs, differences))
    drops = [
        difference < -_SAME
        for (before, _), difference in zip(scored, differences, strict=True)
        if before > 0
    ]
    interval = bootstrap_interval(differences) if len(scored) >= MIN_SAMPLES else None
    not_dropped = drops.count(False)
    return Effect(
        name=change.name,
        title=change.title,
        is_harmless=change.is_harmless,
        n=len(scored),
        mean_change=fmean(differences) if differences else None,
        interval=interval,
        mean_size=fmean(sizes) if sizes else None,
        at_zero=len(scored) - len(drops),
        could_drop=len(drops),
        not_dropped=100 * not_dropped / len(drops) if drops else None,
        not_dropped_interval=exact_interval(not_dropped, len(drops))
        if len(drops) >= MIN_SAMPLES
        else None,
        finding=_finding(
            change, interval, bootstrap_interval(sizes), full_marks, could_drop=len(drops)
        ),
        not_applicable=sum(after == _NOT_APPLICABLE for _, after in pairs),
        without_points=_reasons(after for _, after in pairs),
    )


def _finding(
    change: Change,
    interval: Interval | None,
    sizes: Interval | None,
    full_marks: float,
    *,
    could_drop: int,
) -> StressFinding:
    """What the intervals of the mean change and of its size say about a judge."""
    if interval is None or sizes is None:
        return "too few"
    if change.is_harmless:
        is_change = interval.low > 0 or interval.high < 0
        drifts = is_change and abs(sum(interval)) / 2 > _DRIFT * full_marks
        return "moved" if drifts or sizes.low > TOLERANCE * full_marks else "unmoved"
    if interval.low > 0:
        return "rewards it"
    if interval.high < 0:
        return "notices"
    return "does not notice" if could_drop >= MIN_SAMPLES else "too few"


def _reasons(outcomes: Iterable[Verdict | str]) -> Mapping[str, int]:
    """Why samples have no points, to their number; without those to which a change does not
    apply.
    """
    reasons = (outcome.reason if isinstance(outcome, Unscored) else outcome for outcome in outcomes)
    counts = Counter(reason for reason in reasons if isinstance(reason, str))
    counts.pop(_NOT_APPLICABLE, None)
    return dict(counts)


def _as_text(result: _StressTest) -> str:
    rows = []
    for effect in result.effects:
        mean_change = percent_cell(effect.mean_change, effect.interval)
        drops = ["", ""]
        if not effect.is_harmless:
            not_dropped = percent_cell(effect.not_dropped, effect.not_dropped_interval)
            drops = [not_dropped, f"{effect.at_zero:,}"]
        means = [mean_change, percent_cell(effect.mean_size)]
        rows.append([effect.title, f"{effect.n:,}", *means, *drops, effect.finding])
    means = ["mean change", "mean size", "did not drop, %"]
    header = ["change", "samples", *means, "had 0", "the judge"]
    blocks = [
        f"# Stress test of a judge on {counted(result.samples, 'answer')} of {result.task}",
        wrapped(
            f"Change of its {result.unit}, with 95 % intervals. A fair judge notices every change, "
            "and is unmoved by the last three."
        ),
        table(header, rows),
        "\n".join(wrapped(f"- {sentence}") for sentence in _sentences(result)),
        f"judge: {result.judge}\nexam: {result.exam}\nrun: {result.run}",
    ]
    return "\n\n".join(blocks)


def _sentences(result: _StressTest) -> Iterator[str]:
    without = sum(result.unchanged_without_points.values())
    scored = result.samples - without
    mean = "" if result.unchanged_points is None else f", {result.unchanged_points:.2f} on average"
    why = f". Left out: {listed(result.unchanged_without_points)}" if without else ""
    yield f"Unchanged answers: {scored:,} of {result.samples:,} have points{mean}{why}."
    without_points = {row.title: listed(row.without_points) for row in result.effects}
    reasons = [f"{title}: {counts}" for title, counts in without_points.items() if counts]
    if reasons:
        yield f"Without points: {'; '.join(reasons)}."
    not_applicable = {e.title: e.not_applicable for e in result.effects if e.not_applicable}
    if not_applicable:
        yield f"Does not apply, or changes nothing that the judge sees: {listed(not_applicable)}."
    if any(row.finding == "too few" for row in result.effects):
        yield f"Too few: fewer than {MIN_SAMPLES} samples with points, or with points to lose."
    cost = cost_text("replies", result.usd_per_1000, result.seconds_per_1000)
    yield f"{counted(result.requests, 'request')}. {cost}"
