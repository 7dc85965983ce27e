"""The command ``mmie-tasks calibrate``: a judge's error, and a run's score corrected by people."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.results.arguments import IntervalsOf, listed_names, require_range, result_parser

_NO_LABELS_HINT = (
    "name a file that `calibrate --plan` wrote for this run, or its page exported, with scores"
)


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - all commands take it
    """Draw the answers that people should score, or correct scores with theirs; returns text or
    JSON.

    Raises:
        AnswersUnusable: A run or CSV cannot be read.
        SettingWrong: An option is invalid, no judge scored the task, or a file is in the way.
    """
    options = _parser().parse_args(arguments)
    _check_options(options)
    from mmie_tasks.quality.calibrate.correct import correct
    from mmie_tasks.quality.calibrate.correction import correction_text
    from mmie_tasks.quality.calibrate.judged_runs import judged_runs, notes_on
    from mmie_tasks.quality.calibrate.plan import write_plan
    from mmie_tasks.results.labels import read_label_files
    from mmie_tasks.results.render import json_text

    runs = judged_runs(options.runs, listed_names(options.tasks))
    labels = read_label_files(options.people, runs[0].task_run.benchmark.scale)
    if options.plan is not None:
        hint = "the number of samples to score: 100, for example"
        require_range("--plan", options.plan, 1, None, hint=hint)
        return write_plan(
            runs,
            labels,
            options.score_kind,
            Path(options.output).expanduser(),
            samples=options.plan,
            seed=options.seed,
            guide_path=Path(options.guide).expanduser() if options.guide else None,
        )
    baseline = runs[0].task_run if len(runs) == 2 else None
    correction = correct(
        runs[-1].task_run, labels, options.score_kind, options.population, baseline=baseline
    )
    if not correction.rater_names:
        problems = "; ".join(problem.text for problem in correction.problems)
        message = f"No label can be used: {problems or 'no score is filled in'}."
        raise AnswersUnusable(message, hint=_NO_LABELS_HINT)
    if options.json:
        names = [run_.name for run_ in runs]
        return json_text({"runs": names, "notes": notes_on(runs), **asdict(correction)})
    return correction_text(runs, correction)


def _check_options(options: argparse.Namespace) -> None:
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
    add("--population", choices=get_args(IntervalsOf), help=help_text)
    add("--guide", metavar="FILE", help="a text that the page shows raters; default: none")
    return parser
