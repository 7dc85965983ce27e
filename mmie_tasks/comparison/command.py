"""The command ``mmie-tasks compare``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence

from mmie_tasks.comparison.comparing import compare
from mmie_tasks.comparison.page import Settings, Task, as_json, page
from mmie_tasks.comparison.paired import Resampling
from mmie_tasks.comparison.signatures import of_scored, refuse_unless_alike
from mmie_tasks.errors import AnswersUnusable, SettingWrong
from mmie_tasks.review import READINGS
from mmie_tasks.runs.opening import open_run
from mmie_tasks.runs.run import Run

_MOST = 1_000_000


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - as all
    """Compare two runs.

    Args:
        arguments: What stands behind ``compare``.
        environment: Not read.

    Returns:
        What is to be printed.

    Raises:
        AnswersUnusable: A run cannot be read, or they have no task in common.
        SettingWrong: An option cannot be obeyed, or the runs were not scored alike.
    """
    asked = _parser().parse_args(arguments)
    if not 1 <= asked.resamples <= _MOST:
        hint = f"from 1 to {_MOST:,}; 10,000 is usual"
        raise SettingWrong(f"`--resamples` is {asked.resamples}.", hint=hint)
    if asked.top < 0:
        raise SettingWrong(f"`--top` is {asked.top}.", hint="0 names no sample")
    settings = Settings(
        reading=asked.reading,
        resamples=asked.resamples,
        correction=asked.correction,
        top=asked.top,
    )
    tasks = [asked.task] if asked.task else []
    a, b = open_run(asked.a, tasks), open_run(asked.b, tasks)
    ignored = frozenset(key.strip() for key in asked.ignore.split(",") if key.strip())
    compared = _compared(a, b, settings, ignored)
    if asked.json:
        return json.dumps(as_json(a, b, compared, settings), indent=1, ensure_ascii=False)
    return page(a, b, compared, settings)


def _compared(a: Run, b: Run, settings: Settings, ignored: frozenset[str]) -> list[Task]:
    common = [task for task in a.tasks if task in b.tasks]
    if not common:
        there = [f"{label} has {', '.join(run.tasks)}" for label, run in (("A", a), ("B", b))]
        raise AnswersUnusable(
            f"A and B have no task in common: {'; '.join(there)}.",
            hint="run the same task with both models",
        )
    differing = {
        task: refuse_unless_alike(of_scored(a.tasks[task]), of_scored(b.tasks[task]), ignored, task)
        for task in common
    }
    done = []
    for task, differences in differing.items():
        ours, theirs = a.tasks[task], b.tasks[task]
        resampling = Resampling(settings.resamples)
        found = compare(
            ours, theirs, settings.reading, resampling, settings.correction, settings.top
        )
        done.append(Task(a=ours, b=theirs, ignored=differences, comparison=found))
    return done


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks compare",
        description="Compare two tested models over the same samples: paired differences, their "
        "intervals, and whether they could be chance. Runs that were not scored alike (another "
        "judge, prompt, task version or data) are refused.",
    )
    for name in ("a", "b"):
        parser.add_argument(
            name,
            metavar=name.upper(),
            help="a run with `--log_samples`: the folder of `--output_path`, or NAME=FOLDER",
        )
    parser.add_argument("--task", default="", help="only this one; default: all that both have")
    parser.add_argument("--reading", choices=READINGS, default="official", help="of the verdicts")
    parser.add_argument("--resamples", type=int, default=10_000, help="of intervals and tests")
    parser.add_argument(
        "--correction",
        choices=("holm", "bh", "none"),
        default="holm",
        help="for looking at many numbers of one kind: Holm, or Benjamini-Hochberg",
    )
    parser.add_argument("--top", type=int, default=10, help="samples to name that differ most")
    parser.add_argument(
        "--ignore",
        default="",
        metavar="KEY,...",
        help="parts of the signatures that may differ, as the refusal names them",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
