"""The public names for packages that add a benchmark or a judge."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from mmie_tasks import extend

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
OWN = [path for name in ("own_*/*.py", "own_*/*/*.py") for path in sorted(EXAMPLES.glob(name))]


PUBLIC = """
NOT_TEXT BadRecord Benchmark BenchmarkJudge DataBroken DataMissing GradedRequest ImageOpener
Judge JudgeError JudgeMisconfigured JudgeRefused JudgeReply JudgeRequest JudgeResult
JudgeUnavailable Judged Line LoggedSample Metric MmieTasksError Outcome
PendingSample Record RequestUnfit RunnerTable Scale Scored Segment Segments SettingWrong Signature
Unscored UnscoredReason Usage Verdict Verdicts aggregation as_row check_images expected_verdict
failure_of log_line signature_text user_turn
"""


def test_the_public_names_are_these_and_all_are_there() -> None:
    assert extend.__all__ == PUBLIC.split()
    assert [name for name in extend.__all__ if getattr(extend, name) is None] == []
    assert dir(extend) == sorted(extend.__all__)
    with pytest.raises(AttributeError, match="Sample"):
        extend.Sample  # noqa: B018


def test_importing_the_names_imports_nothing_of_ours_before_one_is_used() -> None:
    code = (
        "import sys, mmie_tasks.extend\n"
        "print(sorted(name for name in sys.modules if name.startswith('mmie_tasks.')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['mmie_tasks.core', 'mmie_tasks.extend']"


def test_examples_of_other_packages_use_public_names_only() -> None:
    modules = {
        node.module
        for path in OWN
        if path.name != "make.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mmie_tasks")
    }
    assert modules == {"mmie_tasks.extend"}
