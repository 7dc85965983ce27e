"""Chooses the labels that correct a score: a random sample of its answers.

These are the first labels of each stratum in the plan's order, by raters who scored all labelled
samples. Everything else is a named problem.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from mmie_tasks.core.command import as_called
from mmie_tasks.core.tables import short_name
from mmie_tasks.quality.calibrate.judged_samples import JudgedSamples, stratum_weights
from mmie_tasks.quality.calibrate.labelled_scores import (
    LabelledScores,
    Problem,
    Ratings,
    problem_with_ids,
)
from mmie_tasks.quality.calibrate.plan import strata_in_order
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.runs.values import metrics_of

Plan: TypeAlias = Mapping[str, Sequence[str]]
"""Stratum to its sample ids, in the order in which people should score them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelChoice:
    """Labels, and whether a score can be corrected with them.

    Attributes:
        ratings: The chosen labels.
        people: The raters' mean by sample id, without answers that a rater could not rate.
        blocking: Why no score can be corrected with these labels; empty if one can.
        gaps: Why later labels of the plan are not chosen.
    """

    ratings: Ratings
    people: Mapping[str, float]
    blocking: tuple[Problem, ...]
    gaps: tuple[Problem, ...] = ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Blocking problems, then gaps."""
        return (*self.blocking, *self.gaps)

    @property
    def is_random_sample(self) -> bool:
        """Whether the labels are the first ones of a plan."""
        return not self.blocking or self.blocking[0].name == "no_score"

    @property
    def unratable(self) -> int:
        """How many answers a rater could not rate."""
        return len(set().union(*self.ratings.values()) - self.people.keys())


def plan_seeds(scores: LabelledScores) -> list[int]:
    """The distinct seeds of the labels' plans, sorted."""
    return sorted({label.seed for label in scores.labels if label.seed is not None})


def first_of_plan(
    scores: LabelledScores, judged: Sequence[JudgedSamples], runs: Sequence[TaskRun]
) -> LabelChoice:
    """The first labels of each stratum in the plan's order, up to each rater's first gap. Returns
    all labels if no score can be corrected, or if they have no plan.
    """
    blocking = tuple(_blocking_problems(judged, runs, scores))
    seeds = plan_seeds(scores)
    if blocking or not seeds:
        return all_labels(scores, blocking)
    plan = strata_in_order(scores.strata, seeds[0])
    gaps = [gap for rater in scores.ratings for gap in _gaps(rater, scores.ratings, plan)]
    first = {rater: _up_to_gap(by_id, plan) for rater, by_id in scores.ratings.items()}
    ratings = _of_all_samples(first)
    return LabelChoice(ratings=ratings, people=_means(ratings), blocking=(), gaps=tuple(gaps))


def all_labels(scores: LabelledScores, blocking: Sequence[Problem]) -> LabelChoice:
    """All labels, with the reasons why they correct no score."""
    people = _means(scores.ratings)
    return LabelChoice(ratings=scores.ratings, people=people, blocking=tuple(blocking))


def _blocking_problems(
    judged: Sequence[JudgedSamples], runs: Sequence[TaskRun], scores: LabelledScores
) -> Iterator[Problem]:
    labels = scores.labels
    hand_picked = [label.id for label in labels if label.seed is None or not label.answer]
    if hand_picked:
        plan_command = as_called("mmie-tasks calibrate RUN --plan 100 -o people.csv")
        hint = f"`{plan_command}` draws a random sample"
        why = "they have no seed or do not say of which answer they are"
        if len(hand_picked) == 1:
            why = "it has no seed or does not say of which answer it is"
        what = f"not of a plan, as {why}"
        yield problem_with_ids("hand_picked", "label", "are", what, hand_picked, hint)
    seeds = plan_seeds(scores)
    if len(seeds) > 1:
        text = f"the labels are of plans with different seeds: {', '.join(map(str, seeds))}"
        hint = "use the labels of one plan"
        yield Problem(name="several_seeds", text=text, count=len(seeds), hint=hint)
    strata = set(scores.strata.values())
    absent = sorted(stratum_weights(metrics_of(runs)[0], strata).keys() - strata)
    why_no_score = [run.why_not for run in judged if run.why_not]
    why_no_score += [f"no sample of {name} has a score in both runs" for name in absent]
    if why_no_score:
        text = f"there is no score to correct: {why_no_score[0]}"
        yield Problem(name="no_score", text=text, count=0)


def _gaps(rater: str, ratings: Ratings, plan: Plan) -> Iterator[Problem]:
    """Samples that a rater skipped before the last one that the rater scored in the plan."""
    by_id, gaps, plan_size = ratings[rater], list[str](), 0
    total = sum(map(len, plan.values()))
    for ids in plan.values():
        scored = [rank for rank, id_ in enumerate(ids, 1) if id_ in by_id]
        if scored and scored[-1] > len(scored):
            gaps += [id_ for id_ in ids[: scored[-1]] if id_ not in by_id]
            plan_size = max(plan_size, math.ceil(scored[-1] * total / len(ids)))
    if gaps:
        options = f"RUN --people FILE --plan {plan_size} -o more.csv"
        by = f" by {short_name(rater)}" if len(ratings) > 1 else ""
        what = f"no label{by}, unlike later ones of the plan"
        hint = f"`{as_called('mmie-tasks calibrate')} {options}` writes a page of the missing ones"
        yield problem_with_ids("gaps", "sample", "have", what, gaps, hint)


def _up_to_gap(by_id: Mapping[str, float], plan: Plan) -> dict[str, float]:
    firsts = (takewhile(by_id.__contains__, ids) for ids in plan.values())
    return {id_: by_id[id_] for ids in firsts for id_ in ids}


def _of_all_samples(ratings: Ratings) -> Ratings:
    """Only raters who scored every labelled sample: else each mean would be of other people."""
    labelled = max(ratings.values(), key=len).keys()
    return {rater: by_id for rater, by_id in ratings.items() if by_id.keys() == labelled}


def _means(ratings: Ratings) -> dict[str, float]:
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for by_id in ratings.values():
        for id_, score in by_id.items():
            scores[id_].append(score)
    means = {id_: sum(scores[id_]) / len(scores[id_]) for id_ in sorted(scores)}
    return {id_: mean for id_, mean in means.items() if not math.isnan(mean)}
