"""Stress test of a judge: how far its points move when the answers of a run are changed.

There are changes that a fair judge must not score higher, and harmless ones that it should not care
about: see `mmie_tasks.quality.judge_exam.stress_changes`. A judge may give the same request other
points each time; so it is asked about the unchanged answers once more, and a harmless change moves
it only if it moves it more than that.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean

from mmie_tasks.answers.images import check_image
from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.core.verdict import Scored, Verdict
from mmie_tasks.core.wording import counted
from mmie_tasks.judges.base import RequestBroken
from mmie_tasks.judges.content import content_key
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.judging.shared_judge import SharedJudge
from mmie_tasks.quality.judge_exam.costed_requests import judge_with_cost
from mmie_tasks.quality.judge_exam.fixed_choice import fixed_choice
from mmie_tasks.quality.judge_exam.stress_changes import (
    AGAIN,
    Change,
    Exchange,
    changes,
    donors,
    images_of,
)
from mmie_tasks.quality.judge_exam.stress_effects import (
    NOT_APPLICABLE,
    Effect,
    effects,
    reasons_without_points,
)
from mmie_tasks.quality.judged_samples import JudgedSample, judged_samples
from mmie_tasks.record.fields import BadRecord, Line, NoJudgeRequest
from mmie_tasks.record.segment import Segments
from mmie_tasks.record.signature import signature_text
from mmie_tasks.results.labels import answer_digest
from mmie_tasks.runs.run import TaskRun, sample_lines

# Name of the changes in an exam's signature; another number for other changes.
_CHANGES_NAME = "changes-2"

_UNCHANGED = ""  # in the place of a change's name
_AGAIN_ATTEMPT = 2  # after `JudgeRequest.attempt` 0 and 1
_BAD_IMAGE = "bad_image"


@dataclass(frozen=True, slots=True, kw_only=True)
class StressTest:
    """The result of a stress test.

    `exam` has the changes, the task, and a digest of the samples and their answers.
    `unchanged_points` is the mean of the unchanged answers, `unchanged_without_points` the reasons
    for answers without points. The costs are as of `CostedResults`.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _StressPlan:
    """The requests of a stress test. A key is the name of a change, or `_UNCHANGED`, and the id of
    a sample.

    `without` has the reasons for keys without a request: `NOT_APPLICABLE` where the change does
    not apply. A sample without a request for the unchanged answer has no other key.
    """

    samples: Sequence[str]
    changes: Sequence[Change]
    requests: Mapping[tuple[str, str], GradedRequest]
    without: Mapping[tuple[str, str], str]


def stress_test(shared: SharedJudge, task_run: TaskRun, limit: int, folder: Path) -> StressTest:
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
    outcome = judge_with_cost(
        shared, list(plan.requests.values()), f"changed answers of {task_run.task}"
    )
    verdicts: dict[tuple[str, str], Verdict | str] = {**plan.without}
    for (key, request), result in zip(plan.requests.items(), outcome.results, strict=True):
        verdicts[key] = request.grade(result).official
    unchanged = {id_: verdicts[_UNCHANGED, id_] for id_ in plan.samples}
    points = {id_: after.points for id_, after in unchanged.items() if isinstance(after, Scored)}
    outcomes_by_change = {
        change: [(before, verdicts[change.name, id_]) for id_, before in points.items()]
        for change in (*plan.changes, AGAIN)
    }
    scale = task_run.benchmark.scale
    answers = json.dumps([(id_, answer_digest(judged[id_].sample)) for id_ in plan.samples])
    digest = hashlib.sha256(answers.encode()).hexdigest()[:12]
    return StressTest(
        judge=shared.judge.signature,
        exam=signature_text(
            stress=_CHANGES_NAME, task=task_run.task, samples=f"{len(plan.samples)},{digest}"
        ),
        run=str(task_run.log),
        task=task_run.task,
        unit=scale.unit,
        samples=len(plan.samples),
        unchanged_points=fmean(points.values()) if points else None,
        unchanged_without_points=reasons_without_points(unchanged.values()),
        effects=effects(outcomes_by_change, scale.full_marks),
        requests=requests,
        usd_per_1000=outcome.usd_per_1000,
        seconds_per_1000=outcome.seconds_per_1000,
    )


def _plan(
    task_run: TaskRun, judged: Mapping[str, JudgedSample], limit: int, folder: Path
) -> _StressPlan:
    """Choose the samples, and make the requests for their unchanged and changed answers."""
    make_request = task_run.benchmark.judge_request
    if make_request is None:
        message = f"`{task_run.task}` is scored by rule: there is no judge to test."
        hint = "`--stress` takes a run of a judged benchmark, such as `mmie` or `mia_bench`"
        raise SettingWrong(message, hint=hint)
    if not judged:
        message = f"No sample of `{task_run.task}` has an official score."
        raise SettingWrong(message, hint="use a run with scores")
    order = fixed_choice({id_: sample.stratum for id_, sample in judged.items()}, len(judged))
    exchanges = [
        (own.stratum, Exchange(question=_usable(s.question), answer=_usable(s.answer)))
        for own in map(judged.__getitem__, order)
        for s in [own.sample]
    ]
    positions = {id_: position for position, id_ in enumerate(order[:limit])}
    has_images = any(images_of(exchange.answer) for _, exchange in exchanges)
    all_changes = changes(has_answer_images=has_images)
    entries: dict[tuple[str, str], GradedRequest | str] = {}
    for sample, line in sample_lines(task_run):
        if (position := positions.get(sample.id)) is not None:
            own_donors = partial(donors, exchanges, position)
            request = partial(_request_or_reason, make_request, line=line)
            own = _entries(exchanges[position][1], request, own_donors, all_changes, folder)
            entries.update({(name, sample.id): entry for name, entry in own})
    return _StressPlan(
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
        entry = request(changed) if changed else NOT_APPLICABLE
        yield change.name, NOT_APPLICABLE if _is_same(entry, unchanged) else entry


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
    return tuple(replace(s, text="") if index in cut else s for index, s in enumerate(answer))


def _request_or_reason(
    make_request: Callable[[Segments, Segments, Line], GradedRequest],
    exchange: Exchange,
    line: Line,
) -> GradedRequest | str:
    """The request in the benchmark's judge prompt, or why there is none: a reason for no points, or
    what the log lacks.
    """
    images = images_of(exchange.question + exchange.answer)
    if any(check_image(Path(image)).problem for image in images):
        return _BAD_IMAGE
    try:
        return make_request(exchange.question, exchange.answer, line)
    except NoJudgeRequest as error:
        return error.unscored.reason
    except BadRecord as error:
        return str(error)


def _is_same(one: GradedRequest | str, other: GradedRequest | str) -> bool:
    """Whether the judge would see the same; not for an image that is too large to be sent."""
    if isinstance(one, str) or isinstance(other, str):
        return False
    try:
        return content_key(one.request) == content_key(other.request)
    except RequestBroken:
        return False
