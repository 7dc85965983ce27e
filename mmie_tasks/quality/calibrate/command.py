"""The command ``mmie-tasks calibrate``: how wrong a judge is, and a run's score corrected by
people.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from mmie_tasks.quality.calibrate.correction import (
    CorrectedScore,
    Correction,
    RaterAgreement,
    correct,
)
from mmie_tasks.quality.calibrate.estimate import Population
from mmie_tasks.quality.calibrate.page import labelling_page
from mmie_tasks.quality.plan import judged_samples, planned_answers
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
_GUIDE_HINT = "name a text file in UTF-8"
_SHIFT = 0.1  # percentage points by which other weights of strata move the judge's mean, to be told


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
    if len(options.runs) == 2 and options.population == "run":
        raise SettingWrong(
            "`--population run` is for one run, and there are two.",
            hint="omit it: the interval of a difference is for a larger population",
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
        guide = read_text(Path(options.guide).expanduser(), _GUIDE_HINT) if options.guide else ""
        return _write_plan(runs, labels, options.score_kind, options.plan, seed, path, guide)
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
        "sample of; default: larger for a part of a benchmark and for two runs, else run"
    )
    parser.add_argument("--population", choices=get_args(Population), help=help_text)
    parser.add_argument(
        "--guide", metavar="FILE", help="a text that the page shows raters; default: none"
    )
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
    guide: str,
) -> str:
    """Write the CSV and the page of the answers that have no score yet; returns what was
    written.
    """
    page_path = _page_path(path)
    judged = [judged_samples(run_.task_run, kind) for run_ in runs]
    seen = [label for label in labels if label.points is not None or label.unratable]
    scored = {(id_in_csv(label.id), label.answer) for label in seen}
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
    is_difference = len(names) > 1
    what = f"{names[1]} - {names[0]}" if is_difference else names[0]
    score = f"{correction.kind} score"
    unit = (
        f"Differences of the {score} in percentage points"
        if is_difference
        else f"The {score} in percent"
    )
    sentences = [
        *_verdict(names, correction.headline),
        *_sentences(correction, is_difference=is_difference),
        *_differences(runs),
        *_without(correction.without),
    ]
    if correction.without.keys() - {"left_out"} and not is_difference:
        sentences.append("If the judge fails on bad answers, this is too high.")
    sentences += _notes(runs)
    problems = [f"{p.text}. {f'Hint: {p.hint}.' if p.hint else ''}" for p in correction.problems]
    blocks = [
        f"# {correction.title} (`{correction.task}`), corrected by people: {what}",
        f"{unit}, with 95 % intervals.",
        _table(correction, is_difference=is_difference),
        "\n".join(wrapped(f"- {sentence}") for sentence in sentences),
        "\n".join(["## Problems\n", *(wrapped(f"- {problem}") for problem in problems)])
        if problems
        else "",
    ]
    return "\n\n".join(block for block in blocks if block)


def _table(correction: Correction, *, is_difference: bool) -> str:
    """The headline, and the strata that have an interval."""
    header = ["", "samples", "labels", "judge", "people alone", "corrected", "bias"]
    cell = signed_cell if is_difference else percent_cell
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


def _verdict(names: Sequence[str], score: CorrectedScore) -> Iterator[str]:
    """Whether the second run is better for people."""
    if len(names) < 2:
        return
    a, b = names
    estimate = score.corrected
    if estimate is None or estimate.interval is None:
        yield f"It is not known whether {b} is better than {a} for people."
        return
    difference = signed_cell(estimate.value, estimate.interval)
    if estimate.interval.low <= 0 <= estimate.interval.high:
        yield f"It is not known whether {b} is better than {a} for people: {difference}."
    else:
        outcome = "better" if estimate.interval.low > 0 else "worse"
        yield f"For people, {b} is {outcome} than {a}: {difference}."


def _sentences(correction: Correction, *, is_difference: bool) -> Iterator[str]:
    score, r = correction.headline, correction.correlation
    if score.why_not:
        missing = (
            "The corrected score has no interval" if score.mean else "There is no corrected score"
        )
        yield f"{missing}: see the problems below."
    if score.why_not and score.labels:
        yield _on_labels(correction)
    if r.value is None:
        yield f"There is no correlation of the judge with people: {r.why_not}."
    else:
        yield f"The judge's scores correlate with people's at r = {r.cell(2)}, on the labels."
    if worth := correction.worth:
        yield f"{worth[0].upper()}{worth[1:]}."
    if score.mean and score.mean.labels_to_halve and not is_difference:
        more = counted(score.mean.labels_to_halve, "more label")
        yield f"{more} would halve the corrected interval."
    yield _raters(correction.raters, signed_cell if is_difference else percent_cell)
    for rater, samples in correction.other_raters.items():
        yield (
            f"{rater} scored {counted(samples, 'answer')}, not the {score.labels:,} that correct "
            "the score, and is not in it."
        )
    if correction.unratable:
        cannot = counted(correction.unratable, "answer")
        yield f"{cannot} of the plan cannot be rated, and count as like the others."
    if not score.why_not:
        yield from _basis(correction)


def _basis(correction: Correction) -> Iterator[str]:
    """What the intervals are for, and what the strata weigh."""
    score = correction.headline
    if score.mean and score.judge is not None and abs(score.mean.judge - score.judge) >= _SHIFT:
        yield (
            "The run's strata are not in the benchmark's shares. All but the column `judge` is "
            f"weighed with these; the judge's mean is then {percent_cell(score.mean.judge)}."
        )
    about = {"run": "the samples of the run", "larger": "a larger population"}
    seed = f"a plan with the seed {correction.seed}"
    yield f"The intervals are for {about[correction.population]}; the labels are of {seed}."


def _on_labels(correction: Correction) -> str:
    """The means over the labelled samples alone, where there is no better estimate."""
    score = correction.headline
    people, judge = map(percent_cell, (score.people_on_labels, score.judge_on_labels))
    mark = "" if correction.is_random_sample else ", not a random sample"
    samples = counted(score.labels, "labelled sample")
    return f"On the {samples}{mark}: people {people}, the judge {judge}."


def _raters(agreement: RaterAgreement | None, cell: Callable[[float], str]) -> str:
    if agreement is None:
        return "One rater: how far people agree with each other is not known."
    if not agreement.samples:
        return "No answer was scored by two raters: how far they agree is not known."
    r = agreement.correlation
    follows = "" if r is None else f"; a rater follows the mean of the others at r = {r:.2f}"
    means = ", ".join(f"{name} {cell(mean)}" for name, mean in agreement.means.items())
    common = f". On the {counted(agreement.common, 'answer')} of all: {means}" if means else ""
    return f"{counted(agreement.samples, 'answer')} scored by two raters or more{follows}{common}."


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
