from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.golden import GOLDEN
from support.judge_creation import create
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge
from mmie_tasks.preflight.checks import asset_findings
from mmie_tasks.preflight.finding import Finding

pytestmark = needs_transformers_5

TINY = GOLDEN / "internvl" / "checkpoint"


def findings_of(tmp_path: Path, **options: str) -> dict[str, Finding]:
    """Finding by subject, without the judge's name."""
    environment = {"MMIE_TASKS_CACHE": str(tmp_path)}
    judge = create("mmie_score", {"device": "cpu", **options}, environment)
    assert isinstance(judge, MmieScoreJudge)
    findings = asset_findings(judge.assets())
    return {finding.subject.removeprefix("mmie_score: "): finding for finding in findings}


def test_a_good_checkpoint_is_described_and_its_message_is_not_shown(tmp_path: Path) -> None:
    findings = findings_of(tmp_path, model=str(TINY))
    assert not any(finding.hint for finding in findings.values())
    message = json.loads((TINY / "config.json").read_bytes())["system_message"]
    files = findings["files"].message
    assert f"system message of {len(message)} characters in `config.json`" in files
    texts = [f"{finding.message}{finding.hint}" for finding in findings.values()]
    assert not any(message in text for text in texts)
    assert re.search(
        r"in this process on cpu, by transformers \S+ \(`cpu` is not a GPU\); vLLM, by `serve=`",
        findings["device"].message,
    )


@pytest.mark.parametrize("options", [{"device": "cuda:99"}, {"serve": "/no/mmie-tasks"}])
def test_a_device_or_program_that_is_not_there_is_named(
    tmp_path: Path, options: dict[str, str]
) -> None:
    findings = findings_of(tmp_path, **{"model": str(TINY), **options})
    problems = {subject for subject, one in findings.items() if one.hint}
    assert problems == {"packages", "device"}
    assert next(iter(options.values())) in findings["device"].message
