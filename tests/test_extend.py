"""The public names for packages that add a benchmark or a judge."""

from __future__ import annotations

import ast
from pathlib import Path

from mmie_tasks import extend

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
OWN = [path for name in ("own_*/*.py", "own_*/*/*.py") for path in sorted(EXAMPLES.glob(name))]


PUBLIC = """
NOT_TEXT BadRecord Benchmark BenchmarkJudge DataBroken DataMissing GradedRequest ImageOpener
Judge JudgeError JudgeMisconfigured JudgeRefused JudgeReply JudgeRequest JudgeResult
JudgeUnavailable Judged Line LoggedSample LoggedSegment Metric MmieTasksError Outcome
PendingSample Record RequestUnfit RunnerTable Scale Scored Segments SettingWrong Unscored
UnscoredReason Usage Verdict Verdicts aggregation as_row check_images expected_verdict
failure_of log_line user_turn
"""


def test_the_public_names_are_these_and_all_are_there() -> None:
    assert extend.__all__ == PUBLIC.split()
    assert [name for name in extend.__all__ if getattr(extend, name) is None] == []


def test_examples_of_other_packages_use_public_names_only() -> None:
    modules = {
        node.module
        for path in OWN
        if path.name != "make.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mmie_tasks")
    }
    assert modules == {"mmie_tasks.extend"}
