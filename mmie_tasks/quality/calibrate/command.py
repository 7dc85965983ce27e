"""The command ``mmie-tasks calibrate``: how wrong a judge is, and a run's score corrected by
people.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias, get_args

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
from mmie_tasks.quality.calibrate.correction import Correction, RaterAgreement, correct
from mmie_tasks.quality.calibrate.estimate import Estimate, Population
from mmie_tasks.quality.calibrate.page import labelling_page
from mmie_tasks.quality.plan import PlannedAnswer, judged_samples, planned_answers
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.commands import (
    common_tasks,
    listed_names,
    open_run,
    read_text,
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
_FormatCell: TypeAlias = Callable[..., str]  # `percent_cell`, or of differences `signed_cell`
_SHIFT = 0.1  # percentage points by which other weights of strata move the judge's mean, to be told


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - all commands take it
    """Draw the answers that people should score, or correct scores with people's; returns text, or
    JSON.

    Raises:
        AnswersUnusable: A run or CSV cannot be read.
        SettingWrong: An option is invalid, no judge scored the task, or a file is in the way.
    """
    options = _parser().parse_args(arguments)
    count = len(options.runs)
    if count > 2:
        message = f"`calibrate` takes one run or two, and got {count}."
        raise SettingWrong(message, hint="name one or two")
    if count == 2 and options.population == "run":
        hint = "omit it: the interval of a difference is for a larger population"
        raise SettingWrong("`--population run` is for one run, and there are two.", hint=hint)
    if options.plan is None and not options.people:
        hint = "`--plan 100` draws answers to score, `--people people.csv` reads their scores"
        raise SettingWrong("`calibrate` needs `--plan` or `--people`.", hint=hint)
    runs = _runs(options.runs, listed_names(options.tasks), options.score_kind)
    labels = read_label_files(options.people, runs[0].task_run.benchmark.scale)
    if options.plan is not None:
        hint = "the number of samples to score: 100, for example"
        require_range("--plan", options.plan, 1, None, hint=hint)
        return _write_plan(runs, labels, options)
    baseline = runs[0].task_run if count == 2 else None
    correction = correct(
        runs[-1].task_run, labels, options.score_kind, options.population, baseline=baseline
    )
    if not correction.rater_names:
        problems = "; ".join(problem.text for problem in correction.problems)
        message = f"No label can be used: {problems or 'no score is filled in'}."
        raise AnswersUnusable(message, hint=_NO_LABELS_HINT)
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
    add = parser.add_argument
    add(
        "--people", nargs="+", default=[], metavar="FILE", help="CSV files of scores; default: none"
    )
    add("--plan", type=int, metavar="N", help="draw N samples for people to score; default: none")
    add("--seed", type=int, help="of the plan; default: 0, or that of the scores in `--people`")
    help_text = "the plan's CSV; default: %(default)s"
    add("-o", "--output", default="people.csv", metavar="FILE", help=help_text)
    help_text = (
        "what the intervals are for: the run's samples, or a larger population that they are a "
        "sample of; default: larger for a part of a benchmark and for two runs, else run"
    )
    add("--population", choices=get_args(Population), help=help_text)
    add("--guide", metavar="FILE", help="a text that the page shows raters; default: none")
    return parser


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamedRun:
    """The judged task of a run."""

    name: str
    task_run: TaskRun
    notes: tuple[str, ...]


def _runs(sources: Sequence[str], tasks: Sequence[str], kind: ScoreKind) -> list[_NamedRun]:
    """The one judged task that the runs have in common, with scores of this kind."""
    opened = [open_run(source, tasks) for source in sources]
    names = numbered_names([run_.name for run_ in opened])
    common = common_tasks(dict(zip(names, opened, strict=True)))
    judged = [task for task in common if opened[0].tasks[task].benchmark.judge is not None]
    if not judged:
        rule = ", ".join(f"`{task}`" for task in common)
        hint = "`calibrate` corrects the scores of judges: MMIE's and MIA-Bench's"
        raise SettingWrong(f"No judge scored {rule}: it is scored by rule.", hint=hint)
    if len(judged) > 1:
        message = f"`calibrate` corrects one task, and there are {len(judged)}: "
        hint = f"choose one with `--task {judged[0]}`"
        raise SettingWrong(f"{message}{', '.join(judged)}.", hint=hint)
    task_runs = [run_.tasks[judged[0]] for run_ in opened]
    for name, task_run in zip(names, task_runs, strict=True):
        require_kind(task_run, name, kind)
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
        hint = "extend one plan; or draw another one without"
        raise SettingWrong(f"The scores in `--people` {problem}.", hint=hint)
    if requested not in (None, seed):
        message = f"`--seed` is {requested}, and the plan of `--people` has {seed}."
        raise SettingWrong(message, hint="omit `--seed`")
    return seed


def _page_path(path: Path) -> Path:
    """The page beside a CSV; both must be new."""
    page_path = path.with_suffix(".html")
    if path == page_path:
        hint = "name the CSV with `-o`: `-o people.csv`"
        raise SettingWrong(f"`{path}` is the name of the page.", hint=hint)
    for file in filter(Path.exists, (path, page_path)):
        hint = "name another file with `-o`, or move it away"
        raise SettingWrong(f"`{file}` exists, and may hold scores.", hint=hint)
    return page_path


def _unscored(planned: Sequence[PlannedAnswer], labels: Sequence[Label]) -> Sequence[PlannedAnswer]:
    """The answers of a plan that nobody has scored."""
    if not planned:
        hint = "`mmie-tasks report RUN` shows why"
        raise SettingWrong("No sample has points to correct.", hint=hint)
    seen = [label for label in labels if label.points is not None or label.unratable]
    scored = {(id_in_csv(label.id), label.answer) for label in seen}
    to_score = [answer for answer in planned if (id_in_csv(answer.id), answer.answer) not in scored]
    if not to_score:
        message = f"People have scored all {counted(len(planned), 'answer')} of this plan."
        raise SettingWrong(message, hint="a larger `--plan` extends it")
    return to_score


def _write_plan(
    runs: Sequence[_NamedRun], labels: Sequence[Label], options: argparse.Namespace
) -> str:
    """Write the CSV and the page of the answers that have no score yet; returns what was
    written.
    """
    seed, guide, path = _seed(options.seed, labels), "", Path(options.output).expanduser()
    if options.guide:
        guide = read_text(Path(options.guide).expanduser(), "name a text file in UTF-8")
    page_path = _page_path(path)
    judged = [judged_samples(run_.task_run, options.score_kind) for run_ in runs]
    to_score = _unscored(planned_answers(judged, options.plan, seed), labels)
    benchmark = runs[0].task_run.benchmark
    page = labelling_page(
        to_score, title=benchmark.title, scale=benchmark.scale, seed=seed, guide=guide
    )
    write_text(path, csv_text(((answer.id, answer.answer) for answer in to_score), seed))
    write_text(page_path, page.html)
    strata = Counter(sorted(answer.stratum for answer in to_score))
    listed_strata = ", ".join(f"{name} {count:,}" for name, count in strata.items())
    by_stratum = f" ({listed_strata})" if len(strata) > 1 else ""
    lines = [
        f"{path}: {counted(len(to_score), 'answer')} to score, seed {seed}{by_stratum}",
        f"{page_path}: a page to score them in; it exports a CSV like {path.name}",
        "Decide how many of them are scored before you look at a corrected score.",
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
    cell: _FormatCell = signed_cell if len(names) > 1 else percent_cell
    what, unit = names[0], f"The {correction.kind} score in percent"
    if len(names) > 1:
        what = f"{names[1]} - {names[0]}"
        unit = f"Differences of the {correction.kind} score in percentage points"
    sentences = [*_sentences(runs, correction, cell), *_notes(runs)]
    problems = [f"{p.text}. {f'Hint: {p.hint}.' if p.hint else ''}" for p in correction.problems]
    blocks = [
        f"# {correction.title} (`{correction.task}`), corrected by people: {what}",
        f"{unit}, with 95 % intervals.",
        _table(correction, cell),
        "\n".join(wrapped(f"- {sentence}") for sentence in sentences),
    ]
    if problems:
        lines = [wrapped(f"- {problem}") for problem in problems]
        blocks.append("\n".join(["## Problems\n", *lines]))
    return "\n\n".join(blocks)


def _table(correction: Correction, cell: _FormatCell) -> str:
    """The headline, and the strata that have an interval."""
    header = ["", "samples", "labels", "judge", "people alone", "corrected", "bias"]
    rows = []
    strata = [score for score in correction.strata if score.corrected]
    for score in (correction.headline, *strata):
        estimates = [NO_VALUE] * 3
        if mean := score.mean:
            estimates = [cell(e.value, e.interval) for e in (mean.people, mean.corrected)]
            estimates.append(signed_cell(mean.bias.value, mean.bias.interval))
        name, counts = score.name or correction.title, (f"{score.samples:,}", f"{score.labels:,}")
        rows.append([name, *counts, cell(score.judge), *estimates])
    return table(header, rows)


def _sentences(
    runs: Sequence[_NamedRun], correction: Correction, cell: _FormatCell
) -> Iterator[str]:
    is_difference = len(runs) == 2
    if is_difference:
        yield _verdict(runs[0].name, runs[1].name, correction.headline.corrected)
    yield from _of_the_judge(correction, is_difference=is_difference)
    yield from _of_people(correction, cell)
    if is_difference:  # people's scores are the same for both, the judges' settings may not be
        differences = signature_differences(*(scored_signatures(run_.task_run) for run_ in runs))
        if keys := ", ".join(difference.key for difference in differences):
            yield (
                f"The runs were not scored alike ({keys}): the judge's difference is partly "
                "that of its settings."
            )
    yield from _without(correction.without)
    if correction.without.keys() - {"left_out"} and not is_difference:
        yield "If the judge fails on bad answers, this is too high."


def _of_the_judge(correction: Correction, *, is_difference: bool) -> Iterator[str]:
    score, r = correction.headline, correction.correlation
    if score.why_not:
        missing = "There is no corrected score"
        if score.mean:
            missing = "The corrected score has no interval"
        yield f"{missing}: see the problems below."
        if score.labels:  # the means over these samples alone: there is no better estimate
            people, judge = map(percent_cell, (score.people_on_labels, score.judge_on_labels))
            mark = "" if correction.is_random_sample else ", not a random sample"
            samples = counted(score.labels, "labelled sample")
            yield f"On the {samples}{mark}: people {people}, the judge {judge}."
    if r.value is None:
        yield f"There is no correlation of the judge with people: {r.why_not}."
    else:
        yield f"The judge's scores correlate with people's at r = {r.cell(2)}, on the labels."
    if worth := correction.worth:
        yield f"{worth[0].upper()}{worth[1:]}."
    if score.mean and score.mean.labels_to_halve and not is_difference:
        more = counted(score.mean.labels_to_halve, "more label")
        yield f"{more} would halve the corrected interval."


def _of_people(correction: Correction, cell: _FormatCell) -> Iterator[str]:
    score = correction.headline
    yield _raters(correction.raters, cell)
    for rater, samples in correction.other_raters.items():
        yield (
            f"{rater} scored {counted(samples, 'answer')}, not the {score.labels:,} that correct "
            "the score, and is not in it."
        )
    if correction.unratable:
        cannot = counted(correction.unratable, "answer")
        yield f"{cannot} of the plan cannot be rated, and count as like the others."
    if score.why_not:
        return
    if score.mean and score.judge is not None and abs(score.mean.judge - score.judge) >= _SHIFT:
        yield (
            "The run's strata are not in the benchmark's shares. All but the column `judge` is "
            f"weighed with these; the judge's mean is then {percent_cell(score.mean.judge)}."
        )
    about = {"run": "the samples of the run", "larger": "a larger population"}
    seed = f"a plan with the seed {correction.seed}"
    yield f"The intervals are for {about[correction.population]}; the labels are of {seed}."


def _verdict(a: str, b: str, estimate: Estimate | None) -> str:
    """Whether the second run is better for people."""
    if estimate is None or estimate.interval is None:
        return f"It is not known whether {b} is better than {a} for people."
    difference = signed_cell(estimate.value, estimate.interval)
    if estimate.interval.low <= 0 <= estimate.interval.high:
        return f"It is not known whether {b} is better than {a} for people: {difference}."
    outcome = "better" if estimate.interval.low > 0 else "worse"
    return f"For people, {b} is {outcome} than {a}: {difference}."


def _raters(agreement: RaterAgreement | None, cell: _FormatCell) -> str:
    if agreement is None:
        return "One rater: how far people agree with each other is not known."
    if not agreement.samples:
        return "No answer was scored by two raters: how far they agree is not known."
    r = agreement.correlation
    follows = "" if r is None else f"; a rater follows the mean of the others at r = {r:.2f}"
    means = ", ".join(f"{name} {cell(mean)}" for name, mean in agreement.means.items())
    common = f". On the {counted(agreement.common, 'answer')} of all: {means}" if means else ""
    return f"{counted(agreement.samples, 'answer')} scored by two raters or more{follows}{common}."
