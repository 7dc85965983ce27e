"""Holds a judge's exam: opens the judge, asks it, and prints its grade."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from mmie_tasks.benchmarks.registry import entries, is_setting
from mmie_tasks.core.choice import parse_choice
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.tables import short_name
from mmie_tasks.core.wording import counted, listed
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.choice import ALL_OTHERS, ChosenJudges, join_judges, with_judge_args
from mmie_tasks.judging.session import JudgingSession
from mmie_tasks.quality.judge_exam.exam_result import (
    COMPARE,
    ExamResult,
    exam_text,
    without_details,
)
from mmie_tasks.quality.judge_exam.examine import FOLDER_HINT, examine, published_exam
from mmie_tasks.quality.judge_exam.methods import ExamMethod, comparing, giving_points
from mmie_tasks.quality.judge_exam.opening import load_opening
from mmie_tasks.quality.judge_exam.stored_exams import exam_json


def hold_exam(options: argparse.Namespace, environment: Mapping[str, str]) -> str | int:
    """The command on its parsed arguments; see `command.run`."""
    folder = Path(options.folder).expanduser() if options.folder else None
    if options.verdicts:
        exam = published_exam(
            Path(options.verdicts).expanduser(), load_opening(folder, environment)
        )
        return _printed(exam, is_json=options.json)
    judge_text = with_judge_args(options.judge, options.judge_args)
    chosen = join_judges([parse_choice(judge_text, "`judge-exam`")], is_setting=is_setting)
    (choice,) = chosen.judges
    session = JudgingSession(environment=environment)
    judge = session.open(choice)
    if folder is None:
        message = "OpenING's answers are read from a local folder only."
        raise SettingWrong(message, hint=FOLDER_HINT)
    try:
        method = _method(chosen, options.method)
        session.check(judge)  # before a download
        exam = examine(judge, method, load_opening(folder, environment), options.limit, environment)
    except KeyboardInterrupt:
        sys.stderr.write(
            "\nInterrupted. The replies so far are in the cache: the same command asks for the "
            "rest.\n"
        )
        return 130
    return _printed(exam, is_json=options.json)


def _method(chosen: ChosenJudges, name: str | None) -> ExamMethod:
    """The named method; by default the judge compares, or else gives points for its benchmark."""
    (choice,) = chosen.judges
    can_compare = registry.judge_class(choice.name).can_compare
    if name == COMPARE and not can_compare:
        message = f"The judge `{choice.name}` gives points and does not compare."
        hint = "leave `--method` out, or name a benchmark: `--method mmie`"
        raise SettingWrong(message, hint=hint)
    if name == COMPARE or (name is None and can_compare):
        if chosen.settings:
            message = f"`{next(iter(chosen.settings))}=` is a setting of benchmarks."
            raise SettingWrong(message, hint="name one: `--method mmie`")
        return comparing()
    for benchmark in (entry.load() for entry in entries() if name in (None, entry.name)):
        default = parse_choice(benchmark.judge.default, "").name if benchmark.judge else ""
        if benchmark.takes_any_question and (name or default == choice.name):
            benchmark.configure({ALL_OTHERS: chosen})
            return giving_points(benchmark.name, benchmark.judge_request)
    message = f"There is no method `{name}`."
    if name is None:
        message = f"The judge `{choice.name}` is that of no benchmark."
    hint = "`--method compare`, or a benchmark with a judge's prompt: `--method mmie`"
    raise SettingWrong(message, hint=hint)


def _printed(exam: ExamResult, *, is_json: bool) -> str:
    if not exam.grade.judged:
        asked, first = counted(exam.grade.asked, "comparison"), next(iter(exam.why_not))
        reasons = f"{listed(without_details(exam.no_verdicts))}. The first: {short_name(first)}"
        raise JudgeMisconfigured(
            f"The judge gave no verdict on {asked}: {reasons}",
            hint="the same command sends requests that failed again; a judge whose replies cannot "
            "be read has no grade",
        )
    return exam_json(exam) if is_json else exam_text(exam)
