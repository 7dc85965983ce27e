"""Stress test of a judge: how far its points move when the answers of a run are changed.

There are changes that a fair judge must not score higher, and harmless ones that it should not care
about: see `mmie_tasks.quality.judge_exam.changes`. A judge may give the same request other points
each time; so it is asked about the unchanged answers once more, and a harmless change moves it only
if it moves it more than that.

Intervals and p-values are those of `mmie_tasks.record.intervals`. Each finding rests on
a p-value that is corrected for the number of changes (Holm): a fair judge that errs at random has a
false finding in 5 % of tests at most.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from mmie_tasks.quality.plan import JudgedSample, judged_samples
from mmie_tasks.record.intervals import LEVEL, MIN_SAMPLES, Interval, stratified_mean
from mmie_tasks.record.sample import BadRecord, Line
from mmie_tasks.record.segment import Segments
from mmie_tasks.results.commands import open_run
from mmie_tasks.results.compare import corrected
from mmie_tasks.results.labels import answer_digest
from mmie_tasks.results.render import json_text
from mmie_tasks.runs.run import TaskRun, sample_lines

# Name of the changes in an exam's signature; another number for other changes.
_CHANGES_NAME = "changes-2"

_DEFAULT_LIMIT = 100  # samples of a run whose answers are changed

# Of full marks: what a harmless change must move a judge by, on average, to be told.
_DRIFT = 0.01

StressFinding: TypeAlias = Literal[
    "notices", "does not notice", "rewards it", "unmoved", "moved", "too few", "for comparison"
]

_UNCHANGED = ""  # in the place of a change's name
AGAIN = Change(
    name="again", title="asked again, unchanged", is_harmless=True, new_segments=lambda s, *_: s
)
"""What the noise of the judge alone does; every request has another attempt, so no cached reply."""

_AGAIN_ATTEMPT = 2  # after `JudgeRequest.attempt` 0 and 1
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
        interval: 95 % interval of the mean change; None below `MIN_SAMPLES` samples.
        mean_size: Mean of the changes without their signs.
        at_zero: Samples that had no points to lose. They are in the means, not in the two following
            attributes.
        could_drop: Samples that had points to lose.
        not_dropped: Percent of these that have as many points as before, or more; None without any.
        not_dropped_interval: 95 %, exact (Clopper and Pearson); None below `MIN_SAMPLES` samples.
        p: Of the finding, corrected for the number of changes; None where there is no test.
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
    p: float | None
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
        f"{len(plan.changes)} changes, and once more without: "
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
        effects=effects(
            {
                change: [(before, verdicts[change.name, id_]) for id_, before in points.items()]
                for change in (*plan.changes, AGAIN)
            },
            scale.full_marks,
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
        if (position := positions.get(sample.id)) is not None:
            own_donors = partial(donors, exchanges, position)
            request = partial(_request_or_reason, make_request, line=line)
            for name, entry in _entries(
                exchanges[position][1], request, own_donors, all_changes, folder
            ):
                entries[name, sample.id] = entry
    return _Plan(
        samples=sorted(positions),
        changes=all_changes,
        requests={key: entry for key, entry in entries.items() if isinstance(entry, GradedRequest)},
        without={key: entry for key, entry in entries.items() if isinstance(entry, str)},
    )


def _entries(
    exchange: Exchange,
    request: Callable[[Exchange], GradedRequest | str],
    own_donors: Callable[[], Iterator[Exchange]],
    all_changes: Sequence[Change],
    folder: Path,
) -> Iterator[tuple[str, GradedRequest | str]]:
    """The requests for one answer, unchanged and changed, or why there is none, by name."""
    unchanged = request(exchange)
    yield _UNCHANGED, unchanged
    if isinstance(unchanged, str):
        return
    again = replace(unchanged.request, attempt=_AGAIN_ATTEMPT)
    yield AGAIN.name, replace(unchanged, request=again)
    shown = _without_last_texts(exchange.answer, unchanged.cut_texts)
    for change in all_changes:
        original = replace(exchange, answer=shown) if change.name == "images_removed" else exchange
        try:
            changed = change.apply(original, own_donors(), folder)
        except (DataMissing, DataBroken):
            yield change.name, _BAD_IMAGE
            continue
        entry = request(changed) if changed else _NOT_APPLICABLE
        yield change.name, _NOT_APPLICABLE if _is_same(entry, unchanged) else entry


def _usable(segments: Segments) -> Segments:
    """Without images that neither model nor judge could see."""
    return tuple(
        replace(s, image=None, problem="") if s.image and s.problem else s for s in segments
    )


def _without_last_texts(answer: Segments, count: int) -> Segments:
    """An answer without the texts at its end that the benchmark's prompt cuts.

    Without its images less would be cut, and the judge would see more text than before.
    """
    with_text = [index for index, segment in enumerate(answer) if (segment.text or "").strip()]
    cut = with_text[len(with_text) - count :]
    return tuple(
        replace(segment, text="") if index in cut else segment
        for index, segment in enumerate(answer)
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


Pairs: TypeAlias = Sequence[tuple[float, Verdict | str]]
"""Of each sample with points for its unchanged answer: these points; and the verdict on the changed
answer, or why there is none.
"""


def effects(pairs_by_change: Mapping[Change, Pairs], full_marks: float) -> tuple[Effect, ...]:
    """The effects of changes on a judge's points.

    Args:
        pairs_by_change: The changes, `AGAIN` among them, each with the same samples.
        full_marks: Of the benchmark's scale.
    """
    noise = [
        abs(after.points - before) if isinstance(after, Scored) else None
        for before, after in pairs_by_change[AGAIN]
    ]
    rows = {change: _effect(change, pairs, full_marks) for change, pairs in pairs_by_change.items()}
    p_values = {
        change: _p_value(change, pairs_by_change[change], noise, full_marks)
        for change, row in rows.items()
        if row.interval and change is not AGAIN
    }
    for change, p in zip(p_values, corrected(list(p_values.values())), strict=True):
        rows[change] = replace(rows[change], p=p, finding=_finding(rows[change], p))
    return tuple(rows.values())


def _effect(change: Change, pairs: Pairs, full_marks: float) -> Effect:
    """The effect of a change, without a test."""
    scored = [(before, after.points) for before, after in pairs if isinstance(after, Scored)]
    differences = [after - before for before, after in scored]
    drops = [
        difference < -_SAME
        for (before, _), difference in zip(scored, differences, strict=True)
        if before > 0
    ]
    not_dropped = drops.count(False)
    estimate = stratified_mean([differences], [1], full_marks)
    return Effect(
        name=change.name,
        title=change.title,
        is_harmless=change.is_harmless,
        n=len(scored),
        mean_change=fmean(differences) if differences else None,
        interval=estimate.interval(-full_marks, full_marks) if estimate else None,
        mean_size=fmean(map(abs, differences)) if differences else None,
        at_zero=len(scored) - len(drops),
        could_drop=len(drops),
        not_dropped=100 * not_dropped / len(drops) if drops else None,
        not_dropped_interval=_exact_interval(not_dropped, len(drops))
        if len(drops) >= MIN_SAMPLES
        else None,
        p=None,
        finding="for comparison" if change.name == AGAIN.name else "too few",
        not_applicable=sum(after == _NOT_APPLICABLE for _, after in pairs),
        without_points=_reasons(after for _, after in pairs),
    )


def _exact_interval(count: int, total: int) -> Interval:
    """The exact 95 % interval of a share, in percent (Clopper and Pearson)."""
    from scipy.stats import binomtest

    interval = binomtest(count, total).proportion_ci(LEVEL, method="exact")
    return Interval(100 * float(interval.low), 100 * float(interval.high))


def _p_value(
    change: Change, pairs: Pairs, noise: Sequence[float | None], full_marks: float
) -> float:
    """Two-sided p of a mean change of 0.

    Of a harmless change, also of changes as large as the `noise` of the same samples: twice the
    smaller p of the two, where 1 stands for a mean of up to `_DRIFT`.
    """
    scored = [
        (after.points - before, size)
        for (before, after), size in zip(pairs, noise, strict=True)
        if isinstance(after, Scored)
    ]
    shift = stratified_mean([[difference for difference, _ in scored]], [1], full_marks)
    if not change.is_harmless:
        return shift.p_value if shift else 1.0
    larger = [abs(difference) - size for difference, size in scored if size is not None]
    excess = stratified_mean([larger], [1], full_marks)
    p_values = [
        estimate.p_value
        for estimate, lowest in ((shift, -math.inf), (excess, 0))
        if estimate and estimate.value > lowest and abs(estimate.value) > _DRIFT * full_marks
    ]
    return min(1.0, 2 * min(p_values, default=1.0))


def _finding(row: Effect, p: float) -> StressFinding:
    """What a corrected p-value says about a judge."""
    is_found = p <= 1 - LEVEL
    if row.is_harmless:
        return "moved" if is_found else "unmoved"
    if is_found and row.mean_change:
        return "rewards it" if row.mean_change > 0 else "notices"
    return "does not notice" if row.could_drop >= MIN_SAMPLES else "too few"


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
        p = "" if effect.p is None else f"{effect.p:.3f}" if effect.p >= 0.001 else "< 0.001"
        rows.append([effect.title, f"{effect.n:,}", *means, *drops, p, effect.finding])
    means = ["mean change", "mean size", "did not drop, %"]
    header = ["change", "samples", *means, "had 0", "p (Holm)", "the judge"]
    blocks = [
        f"# Stress test of a judge on {counted(result.samples, 'answer')} of {result.task}",
        wrapped(
            f"Change of its {result.unit}, with 95 % intervals. A fair judge notices every change "
            "down to the empty answer, and is not moved by the harmless ones below. The last row "
            "is its own noise."
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
