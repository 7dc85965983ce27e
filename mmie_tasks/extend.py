"""What packages that add a benchmark, a judge or a model may rely on; see the guides.

Each name is imported when it is first used. Nothing inside this package imports this module.

>>> from mmie_tasks.extend import Scored
>>> Scored(4).points
4
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmie_tasks.answers.failures import NOT_TEXT, failure_of
    from mmie_tasks.answers.segments import write_answer
    from mmie_tasks.benchmarks.benchmark import Benchmark, Doc, Environment, PublishedRow
    from mmie_tasks.core.errors import (
        AnswersUnusable,
        DataBroken,
        DataMissing,
        MmieTasksError,
        SettingWrong,
    )
    from mmie_tasks.core.messages import user_turn
    from mmie_tasks.core.verdict import (
        Scored,
        ScoreKind,
        Unscored,
        UnscoredReason,
        Verdict,
        Verdicts,
    )
    from mmie_tasks.hub.asset import Asset, Check, DownloadPlan
    from mmie_tasks.hub.run_images import ImageOpener, check_images
    from mmie_tasks.judges.base import (
        Judge,
        JudgeError,
        JudgeMisconfigured,
        JudgeRefused,
        JudgeRequest,
        JudgeUnavailable,
        Outcome,
        ReplySchema,
        RequestUnfit,
    )
    from mmie_tasks.judging.batch import PendingSample
    from mmie_tasks.judging.benchmark_judge import BenchmarkJudge
    from mmie_tasks.judging.requests import GradedRequest
    from mmie_tasks.record import log_line
    from mmie_tasks.record.expected import expected_verdict
    from mmie_tasks.record.judged import Judged
    from mmie_tasks.record.members import MemberResult
    from mmie_tasks.record.metrics import Metric, Scale
    from mmie_tasks.record.panel import Panel
    from mmie_tasks.record.reply import DigitToken, JudgeReply, JudgeResult, Usage
    from mmie_tasks.record.rows import RunnerTable, aggregation, coverage
    from mmie_tasks.record.sample import BadRecord, Line, LoggedSample, Record
    from mmie_tasks.record.segment import Segment, Segments
    from mmie_tasks.record.signature import Signature, run_signature, signature_text
    from mmie_tasks.record.verdict_row import as_row

_NAMES = {
    "answers.failures": {"NOT_TEXT", "failure_of"},
    "answers.segments": {"write_answer"},
    "benchmarks.benchmark": {"Benchmark", "Doc", "Environment", "PublishedRow"},
    "core.errors": {
        "AnswersUnusable",
        "DataBroken",
        "DataMissing",
        "MmieTasksError",
        "SettingWrong",
    },
    "core.messages": {"user_turn"},
    "core.verdict": {"ScoreKind", "Scored", "Unscored", "UnscoredReason", "Verdict", "Verdicts"},
    "hub.asset": {"Asset", "Check", "DownloadPlan"},
    "hub.run_images": {"ImageOpener", "check_images"},
    "judges.base": {
        "Judge",
        "JudgeError",
        "JudgeMisconfigured",
        "JudgeRefused",
        "JudgeRequest",
        "JudgeUnavailable",
        "Outcome",
        "ReplySchema",
        "RequestUnfit",
    },
    "judging.batch": {"PendingSample"},
    "judging.benchmark_judge": {"BenchmarkJudge"},
    "judging.requests": {"GradedRequest"},
    "record.expected": {"expected_verdict"},
    "record.judged": {"Judged"},
    "record.metrics": {"Metric", "Scale"},
    "record.panel": {"Panel"},
    "record.members": {"MemberResult"},
    "record.reply": {"DigitToken", "JudgeReply", "JudgeResult", "Usage"},
    "record.rows": {"RunnerTable", "aggregation", "coverage"},
    "record.sample": {"BadRecord", "Line", "LoggedSample", "Record"},
    "record.segment": {"Segment", "Segments"},
    "record.signature": {"Signature", "run_signature", "signature_text"},
    "record.verdict_row": {"as_row"},
}
"""Module to what it provides."""

__all__ = [
    "NOT_TEXT",
    "AnswersUnusable",
    "Asset",
    "BadRecord",
    "Benchmark",
    "BenchmarkJudge",
    "Check",
    "DataBroken",
    "DataMissing",
    "DigitToken",
    "Doc",
    "DownloadPlan",
    "Environment",
    "GradedRequest",
    "ImageOpener",
    "Judge",
    "JudgeError",
    "JudgeMisconfigured",
    "JudgeRefused",
    "JudgeReply",
    "JudgeRequest",
    "JudgeResult",
    "JudgeUnavailable",
    "Judged",
    "Line",
    "LoggedSample",
    "MemberResult",
    "Metric",
    "MmieTasksError",
    "Outcome",
    "Panel",
    "PendingSample",
    "PublishedRow",
    "Record",
    "ReplySchema",
    "RequestUnfit",
    "RunnerTable",
    "Scale",
    "ScoreKind",
    "Scored",
    "Segment",
    "Segments",
    "SettingWrong",
    "Signature",
    "Unscored",
    "UnscoredReason",
    "Usage",
    "Verdict",
    "Verdicts",
    "aggregation",
    "as_row",
    "check_images",
    "coverage",
    "expected_verdict",
    "failure_of",
    "log_line",
    "run_signature",
    "signature_text",
    "user_turn",
    "write_answer",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "log_line":
            return import_module("mmie_tasks.record.log_line")
        for module, names in _NAMES.items():
            if name in names:
                return getattr(import_module(f"mmie_tasks.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
