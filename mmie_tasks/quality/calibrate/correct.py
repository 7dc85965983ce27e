"""Corrects a run's score with people's scores of a random sample of its answers."""

from __future__ import annotations

from collections.abc import Sequence

from mmie_tasks.quality.calibrate.corrected_scores import corrected_scores
from mmie_tasks.quality.calibrate.correction import CorrectedScore, Correction
from mmie_tasks.quality.calibrate.correlations import agreement_of_raters, correlation, other_scores
from mmie_tasks.quality.calibrate.estimate import Population
from mmie_tasks.quality.calibrate.judged_samples import counts_without_points, judged_samples
from mmie_tasks.quality.calibrate.label_choice import all_labels, first_of_plan, plan_seeds
from mmie_tasks.quality.calibrate.matching import match_labels
from mmie_tasks.quality.calibrate.problems import Problem
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.labels import Label
from mmie_tasks.runs.run import TaskRun


def default_population(task_run: TaskRun) -> Population:
    """What intervals for a run are for: a run of a part is a sample of the benchmark."""
    whole = task_run.benchmark.published.get(task_run.task, 0)
    is_part = task_run.limit is not None or len(task_run.samples) < whole
    return "larger" if is_part else "run"


def correct(
    task_run: TaskRun,
    labels: Sequence[Label],
    kind: ScoreKind = "official",
    population: Population | None = None,
    *,
    baseline: TaskRun | None = None,
) -> Correction:
    """Correct a task's headline, and each stratum of it, or its difference to that of a baseline.

    A difference is over the samples that both runs have points for. Labelled are those whose
    answers of both runs have labels; an answer that both gave counts for both.

    Args:
        task_run: One task of a run that a judge scored.
        labels: People's scores, of any runs.
        kind: The score to correct.
        population: What the intervals are for; None for `default_population`. A difference is
            always for the larger one, whose strata are weighed by `Benchmark.stratum_sizes`.
        baseline: The same task of another run, whose points are subtracted; None for the score
            itself.
    """
    runs = [task_run, baseline] if baseline else [task_run]
    if baseline:
        population = "larger"
    elif population is None:
        population = default_population(task_run)
    is_difference = baseline is not None
    judged = [judged_samples(run, kind) for run in runs]
    scores = match_labels(runs, judged, labels)
    choice = first_of_plan(scores, judged, runs)
    rows = corrected_scores(task_run, scores, choice, population, is_difference=is_difference)
    if choice.gaps and rows[0].why_not:  # too few up to the gaps: what all labels say is shown
        choice = all_labels(scores, choice.gaps)
        rows = corrected_scores(task_run, scores, choice, population, is_difference=is_difference)
    problems = [*scores.problems, *choice.problems]
    if scores.labels and not choice.blocking and rows[0].why_not:
        problems.append(_too_few(rows[0]))
    seeds = plan_seeds(scores)
    people = choice.people
    return Correction(
        task=task_run.task,
        title=task_run.benchmark.title,
        kind=kind,
        population=population,
        seed=seeds[0] if len(seeds) == 1 else None,
        headline=rows[0],
        strata=tuple(rows[1:]),
        correlation=correlation([scores.judge[id_] for id_ in people], list(people.values())),
        rater_names=tuple(choice.ratings),
        other_raters={
            rater: len(by_id)
            for rater, by_id in scores.ratings.items()
            if rater not in choice.ratings
        },
        unratable=choice.unratable,
        raters=agreement_of_raters(scores.ratings) if len(scores.ratings) > 1 else None,
        other_scores=() if is_difference else other_scores(task_run, people),
        without=counts_without_points(judged),
        problems=tuple(problems),
        is_random_sample=choice.is_random_sample,
    )


def _too_few(headline: CorrectedScore) -> Problem:
    """The labels are a random sample, and too few for a corrected score."""
    hint = "`mmie-tasks calibrate RUN --people FILE --plan N -o more.csv` extends the plan"
    return Problem(name="too_few", text=headline.why_not, count=headline.labels, hint=hint)
