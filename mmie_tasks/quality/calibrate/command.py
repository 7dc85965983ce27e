"""The command ``mmie-tasks calibrate``: how wrong a judge is, and a run's score corrected by
people.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.tables import (
    NO_VALUE,
    counted,
    listed,
    numbered_names,
    percent_cell,
    signed_cell,
    table,
    wrapped,
)
from mmie_tasks.quality.calibrate.correction import CorrectedScore, Correction, OtherScore, correct
from mmie_tasks.quality.calibrate.estimate import Population
from mmie_tasks.quality.calibrate.page import labelling_page
from mmie_tasks.quality.plan import judged_samples, planned_answers
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.commands import (
    common_tasks,
    listed_names,
    open_run,
    require_kind,
    require_range,
    result_parser,
    write_text,
)
from mmie_tasks.results.labels import Label, csv_text, id_in_csv, read_label_files
from mmie_tasks.results.render import json_text
from mmie_tasks.results.signatures import scored_signatures, signature_differences
from mmie_tasks.runs.run import TaskRun

_NO_LABELS_HINT = (
    "name a file that `calibrate --plan` wrote for this run, or its page exported, with scores"
)


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - all commands take it
    """Draw the answers that people should score, or correct scores with people's; returns text, or
    JSON.

    Raises:
        AnswersUnusable: A run or CSV cannot be read.
        SettingWrong: An option is invalid, no judge scored the task, or a file is in the way.
    """
    options = _parser().parse_args(arguments)
    if len(options.runs) > 2:
        raise SettingWrong(
            f"`calibrate` takes one run or two, and got {len(options.runs)}.",
            hint="name one or two",
        )
    if options.plan is None and not options.people:
        hint = (
            "`--plan 100 -o people.csv` draws answers to score, `--people people.csv` reads their "
            "scores"
        )
        raise SettingWrong("`calibrate` needs `--plan` or `--people`.", hint=hint)
    runs = _runs(options.runs, listed_names(options.tasks))
    task_runs = [run_.task_run for run_ in runs]
    for run_ in runs:
        require_kind(run_.task_run, run_.name, options.score_kind)
    labels = read_label_files(options.people, task_runs[0].benchmark.scale)
    if options.plan is not None:
        require_range(
            "--plan", options.plan, 1, None, hint="the number of samples to score: 100, for example"
        )
        path, seed = Path(options.output).expanduser(), _seed(options.seed, labels)
        return _write_plan(runs, labels, options.score_kind, options.plan, seed, path)
    baseline = task_runs[0] if len(task_runs) > 1 else None
    correction = correct(
        task_runs[-1], labels, options.score_kind, options.population, baseline=baseline
    )
    if not correction.rater_names:
        reasons = (
            "; ".join(problem.text for problem in correction.problems) or "no score is filled in"
        )
        raise AnswersUnusable(f"No label can be used: {reasons}.", hint=_NO_LABELS_HINT)
    if options.json:
        names = [run_.name for run_ in runs]
        return json_text({"runs": names, "notes": _notes(runs), **asdict(correction)})
    return _as_text(runs, correction)


def _parser() -> argparse.ArgumentParser:
    parser = result_parser(
        "calibrate",
        "How wrong the judge of a run is, and the run's score corrected with people's scores of a "
        "random sample of its answers. `--plan` draws the sample and writes a CSV and an offline "
        "HTML page to score it in; `--people` "
        "reads the scores. For two runs: is the second better than the first for people?",
    )
    parser.add_argument(
        "--people", nargs="+", default=[], metavar="FILE", help="CSV files of scores; default: none"
    )
    parser.add_argument(
        "--plan", type=int, metavar="N", help="draw N samples for people to score; default: none"
    )
    parser.add_argument(
        "--seed", type=int, help="of the plan; default: 0, or that of the scores in `--people`"
    )
    help_text = "the plan's CSV; default: %(default)s"
    parser.add_argument("-o", "--output", default="people.csv", metavar="FILE", help=help_text)
    help_text = (
        "what the intervals are for: the run's samples, or a larger population that they are a "
        "sample of, as with `--limit`; default: %(default)s"
    )
    parser.add_argument("--population", choices=get_args(Population), default="run", help=help_text)
    return parser


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamedRun:
    """The judged task of a run."""

    name: str
    task_run: TaskRun
    notes: tuple[str, ...]


def _runs(sources: Sequence[str], tasks: Sequence[str]) -> list[_NamedRun]:
    """The one judged task that the runs have in common."""
    opened = [open_run(source, tasks) for source in sources]
    names = numbered_names([run_.name for run_ in opened])
    common = common_tasks(dict(zip(names, opened, strict=True)))
    judged = [task for task in common if opened[0].tasks[task].benchmark.judge is not None]
    if not judged:
        message = (
            f"No judge scored {', '.join(f'`{task}`' for task in common)}: it is scored by rule."
        )
        raise SettingWrong(
            message, hint="`calibrate` corrects the scores of judges: MMIE's and MIA-Bench's"
        )
    if len(judged) > 1:
        message = (
            f"`calibrate` corrects one task, and there are {len(judged)}: {', '.join(judged)}."
        )
        raise SettingWrong(message, hint=f"choose one with `--task {judged[0]}`")
    task_runs = [run_.tasks[judged[0]] for run_ in opened]
    return [
        _NamedRun(name=name, task_run=task_run, notes=(*run_.notes, *task_run.notes))
        for name, run_, task_run in zip(names, opened, task_runs, strict=True)
    ]


def _seed(requested: int | None, labels: Sequence[Label]) -> int:
    """The seed of the plan: that of the labels, which it extends."""
    seeds = {label.seed for label in labels}
    if not seeds:
        require_range("--seed", requested or 0, 0, 10**18 - 1, hint="a number from 0 on")
        return requested or 0
    [seed, *others] = seeds
    if others or seed is None:
        problem = "have several seeds" if others else "have no seed, so they are of no plan"
        raise SettingWrong(
            f"The scores in `--people` {problem}.",
            hint="extend one plan; or draw another one without",
        )
    if requested not in (None, seed):
        raise SettingWrong(
            f"`--seed` is {requested}, and the plan of `--people` has {seed}.", hint="omit `--seed`"
        )
    return seed


def _page_path(path: Path) -> Path:
    """The page beside a CSV; both must be new."""
    page_path = path.with_suffix(".html")
    if path == page_path:
        raise SettingWrong(
            f"`{path}` is the name of the page.", hint="name the CSV with `-o`: `-o people.csv`"
        )
    for file in (path, page_path):
        if file.exists():
            message = f"`{file}` exists, and may hold scores."
            raise SettingWrong(message, hint="name another file with `-o`, or move it away")
    return page_path


def _write_plan(
    runs: Sequence[_NamedRun],
    labels: Sequence[Label],
    kind: ScoreKind,
    samples: int,
    seed: int,
    path: Path,
) -> str:
    """Write the CSV and the page of the answers that have no score yet; returns what was
    written.
    """
    page_path = _page_path(path)
    judged = [judged_samples(run_.task_run, kind) for run_ in runs]
    scored = {(id_in_csv(label.id), label.answer) for label in labels if label.points is not None}
    planned = planned_answers(judged, samples, seed)
    to_score = [answer for answer in planned if (id_in_csv(answer.id), answer.answer) not in scored]
    if not planned:
        raise SettingWrong(
            "No sample has points to correct.", hint="`mmie-tasks report RUN` shows why"
        )
    if not to_score:
        message = f"People have scored all {counted(len(planned), 'answer')} of this plan."
        raise SettingWrong(message, hint="a larger `--plan` extends it")
    benchmark = runs[0].task_run.benchmark
    page = labelling_page(to_score, title=benchmark.title, scale=benchmark.scale, seed=seed)
    write_text(path, csv_text(((answer.id, answer.answer) for answer in to_score), seed))
    write_text(page_path, page.html)
    strata = Counter(sorted(answer.stratum for answer in to_score))
    listed_strata = ", ".join(f"{name} {count:,}" for name, count in strata.items())
    by_stratum = f" ({listed_strata})" if len(strata) > 1 else ""
    lines = [
        f"{path}: {counted(len(to_score), 'answer')} to score, seed {seed}{by_stratum}",
        f"{page_path}: a page to score them in; it exports a CSV like {path.name}",
    ]
    if page.missing_images:
        lines.append(f"{counted(page.missing_images, 'image')} could not be shown")
    lines += _without(
        Counter(reason for run_ in judged for reason, ids in run_.without.items() for _ in ids)
    )
    return "\n".join([*lines, *_notes(runs)])


def _without(counts: Mapping[str, int]) -> Iterator[str]:
    if counts:
        number = counted(sum(counts.values()), "sample")
        yield f"{number} without points, in neither a plan nor a corrected score: {listed(counts)}."


def _notes(runs: Sequence[_NamedRun]) -> list[str]:
    return [f"{run_.name}: {note}." for run_ in runs for note in run_.notes]


def _as_text(runs: Sequence[_NamedRun], correction: Correction) -> str:
    """One table, what it means in sentences, and what could not be used."""
    names = [run_.name for run_ in runs]
    what = f"{names[1]} - {names[0]}" if len(names) > 1 else names[0]
    sentences = [
        *_verdict(names, correction.headline),
        *_sentences(correction),
        *_differences(runs),
    ]
    sentences += [*_without(correction.without), *_notes(runs)]
    problems = [f"{p.text}. {f'Hint: {p.hint}.' if p.hint else ''}" for p in correction.problems]
    blocks = [
        f"# {correction.title} (`{correction.task}`), corrected by people: {what}",
        f"The {correction.kind} score in percent, with 95 % intervals.",
        _table(correction, is_difference=len(names) > 1),
        "\n".join(wrapped(f"- {sentence}") for sentence in sentences),
        "\n".join(["## Problems\n", *(wrapped(f"- {problem}") for problem in problems)])
        if problems
        else "",
    ]
    return "\n\n".join(block for block in blocks if block)


def _table(correction: Correction, *, is_difference: bool) -> str:
    header = ["", "samples", "labels", "judge", "people alone", "corrected", "bias"]
    cell = signed_cell if is_difference else percent_cell
    rows = []
    for score in (correction.headline, *correction.strata):
        estimates = [NO_VALUE] * 3
        if mean := score.mean:
            estimates = [cell(e.value, e.interval) for e in (mean.people, mean.corrected)]
            estimates.append(signed_cell(mean.bias.value, mean.bias.interval))
        name, counts = score.name or correction.title, (f"{score.samples:,}", f"{score.labels:,}")
        rows.append([name, *counts, cell(score.judge), *estimates])
    return table(header, rows)


def _verdict(names: Sequence[str], score: CorrectedScore) -> Iterator[str]:
    """Whether the second run is better for people."""
    if len(names) < 2:
        return
    a, b = names
    interval = score.mean.corrected.interval if score.mean else None
    if score.mean is None or interval is None:
        yield f"It is not known whether {b} is better than {a} for people."
        return
    difference = signed_cell(score.mean.corrected.value, interval)
    if interval.low <= 0 <= interval.high:
        yield f"It is not known whether {b} is better than {a} for people: {difference}."
    else:
        outcome = "better" if interval.low > 0 else "worse"
        yield f"For people, {b} is {outcome} than {a}: {difference}."


def _sentences(correction: Correction) -> Iterator[str]:
    score = correction.headline
    if score.why_not:
        missing = (
            "The corrected score has no interval" if score.mean else "There is no corrected score"
        )
        yield f"{missing}: see the problems below."
    if score.why_not and score.labels:
        yield _on_labels(correction)
    if correction.correlation.value is None:
        yield f"There is no correlation of the judge with people: {correction.correlation.why_not}."
    else:
        r = correction.correlation.cell(2)
        yield f"The judge's scores correlate with people's at r = {r}, on the labels."
    if worth := score.worth:
        yield f"{worth[0].upper()}{worth[1:]}."
    if score.mean and score.mean.labels_to_halve:
        more = counted(score.mean.labels_to_halve, "more label")
        yield f"{more} would halve the corrected interval."
    yield _raters(correction)
    yield from map(_other_score, correction.other_scores)
    if score.why_not:
        return
    for stratum in correction.strata:
        if stratum.why_not:
            yield f"{stratum.name} alone has no interval: {stratum.why_not}."
    about = {
        "run": "the samples of the run",
        "larger": "the population that the run is a sample of",
    }
    seed = (
        "no single plan" if correction.seed is None else f"a plan with the seed {correction.seed}"
    )
    yield f"The intervals are for {about[correction.population]}; the labels are of {seed}."


def _on_labels(correction: Correction) -> str:
    """The means over the labelled samples alone, where there is no better estimate."""
    score = correction.headline
    people, judge = map(percent_cell, (score.people_on_labels, score.judge_on_labels))
    mark = "" if correction.is_random_sample else ", not a random sample"
    samples = counted(score.labels, "labelled sample")
    return f"On the {samples}{mark}: people {people}, the judge {judge}."


def _raters(correction: Correction) -> str:
    agreement = correction.raters
    if agreement is None:
        return (
            "One rater: how far people agree with each other, the ceiling for any judge, is not "
            "known."
        )
    number = counted(len(agreement.raters), "rater")
    if not agreement.samples:
        return (
            f"{number}, and no answer that two of them scored: how far they agree, the "
            "ceiling, is not known."
        )
    r = NO_VALUE if agreement.correlation is None else f"{agreement.correlation:.2f}"
    answers = counted(agreement.samples, "answer")
    return (
        f"{number}, {answers} scored by two or more: Krippendorff's alpha is "
        f"{agreement.alpha.cell(2)}, and a rater correlates with the mean of the others at "
        f"r = {r}: the ceiling for any judge."
    )


def _other_score(other: OtherScore) -> str:
    difference = other.difference
    if difference.value is None:
        why_not = difference.why_not
        return f"Whether the {other.kind} score follows people better is not known: {why_not}."
    reason, is_known = difference.why_not, False
    if interval := difference.interval:
        reason = f"difference {difference.cell(2)}"
        is_known = not interval.low <= 0 <= interval.high
    outcome = "less well" if is_known and difference.value < 0 else "better"
    begin = (
        f"The {other.kind} score" if is_known else f"It is not known whether the {other.kind} score"
    )
    numbers = (
        f"r = {other.correlation:.2f} and {other.official:.2f} on {counted(other.labels, 'label')}"
    )
    return f"{begin} follows people {outcome} than the official one: {numbers}; {reason}."


def _differences(runs: Sequence[_NamedRun]) -> Iterator[str]:
    """What differs in how two runs were scored: people's scores are the same for both, the judge's
    are not.
    """
    if len(runs) == 2:
        differences = signature_differences(*(scored_signatures(run_.task_run) for run_ in runs))
        if keys := ", ".join(difference.key for difference in differences):
            yield (
                f"The runs were not scored alike ({keys}): the judge's difference is partly "
                "that of its settings."
            )
