"""What packages that add a benchmark or a judge may rely on; see the guides of both.

Nothing inside this package imports this module.
"""

from __future__ import annotations

from mmie_tasks.answers.parsing import NOT_TEXT, failure_of
from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.errors import DataBroken, DataMissing, MmieTasksError, SettingWrong
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.verdict import Scored, Unscored, UnscoredReason, Verdict, Verdicts, as_row
from mmie_tasks.hub.images import ImageOpener, check_images
from mmie_tasks.judges.base import (
    Judge,
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    RequestUnfit,
)
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.judging.session import BenchmarkJudge, PendingSample
from mmie_tasks.record import log_line
from mmie_tasks.record.expected import expected_verdict
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.record.panel import Judged
from mmie_tasks.record.reply import JudgeReply, JudgeResult, Usage
from mmie_tasks.record.rows import RunnerTable, aggregation
from mmie_tasks.record.sample import BadRecord, Line, LoggedSample, Record
from mmie_tasks.record.segment import LoggedSegment, Segments

__all__ = [
    "NOT_TEXT",
    "BadRecord",
    "Benchmark",
    "BenchmarkJudge",
    "DataBroken",
    "DataMissing",
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
    "LoggedSegment",
    "Metric",
    "MmieTasksError",
    "Outcome",
    "PendingSample",
    "Record",
    "RequestUnfit",
    "RunnerTable",
    "Scale",
    "Scored",
    "Segments",
    "SettingWrong",
    "Unscored",
    "UnscoredReason",
    "Usage",
    "Verdict",
    "Verdicts",
    "aggregation",
    "as_row",
    "check_images",
    "expected_verdict",
    "failure_of",
    "log_line",
    "user_turn",
]
