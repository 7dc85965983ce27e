"""The command ``mmie-tasks doctor``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mmie_tasks.doctor import machine, rooms
from mmie_tasks.doctor.findings import Finding
from mmie_tasks.doctor.page import as_json, page
from mmie_tasks.judge_words import with_launcher_args
from mmie_tasks.judged import launch
from mmie_tasks.judges.choosing import Choice, parse_choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is printed, and the exit status: 1 where there is a problem."""

    text: str
    status: int


def quiet() -> None:
    """Keep logs and progress bars of this process off the report: it tells what is to be known."""
    import logging

    from huggingface_hub.utils.tqdm import disable_progress_bars
    from loguru import logger

    logger.remove()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    disable_progress_bars()


class _AsAsked:
    """Stands for the launcher that a run with this judge would have."""


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> Report:
    """Look at everything that is asked for.

    Args:
        arguments: What stands behind ``doctor``.
        environment: Of this process: judges and benchmarks read it themselves.

    Raises:
        SettingWrong: An option says something that cannot be understood.
    """
    asked = _parser().parse_args(arguments)
    tasks = [task.strip() for task in asked.tasks.split(",") if task.strip()]
    chosen = rooms.rooms_of(tasks)
    launcher = _AsAsked()  # its judge counts as long as it lives
    if choice := _choice(asked.judge, asked.judge_args):
        launch(launcher, choice)
    findings: list[Finding] = [*machine.look(environment)]
    for room in chosen:
        findings += (each for each in rooms.look(room, environment, tasks) if each not in findings)
    text = as_json(findings) if asked.json else page(findings)
    return Report(text=text, status=int(any(each.status == "problem" for each in findings)))


def _choice(judge: str | None, judge_args: str | None) -> Choice | None:
    """The judge that is asked for; None where the benchmarks' own are."""
    words = [*(("--judge", judge) if judge is not None else ())]
    words += ("--judge_args", judge_args) if judge_args is not None else ()
    _, *launcher_args = with_launcher_args(words) or [""]
    if not launcher_args:
        return None
    name, _, options = launcher_args[0].removeprefix("name=").partition(",")
    return parse_choice(f"{name}:{options}", "`--judge`")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks doctor",
        description="See whether a run can begin: packages, GPUs, room, data, prompts, judges. "
        "Nothing large is downloaded. The exit status is 1 where there is a problem.",
    )
    parser.add_argument("--tasks", default="", metavar="A,B", help="tasks of ours; default: all")
    parser.add_argument("--judge", metavar="NAME[:MODEL]", help="as in `mmie-tasks eval`")
    parser.add_argument("--judge_args", "--judge-args", metavar="k=v,...", help="its options")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
