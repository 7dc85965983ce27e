from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.golden import GOLDEN

from mmie_tasks.judges.mmie_score.assets import look
from mmie_tasks.judges.mmie_score.memory import TWO_STEPS
from mmie_tasks.preflight.findings import Finding

TINY = GOLDEN / "internvl" / "checkpoint"


def found(tmp_path: Path, **options: str) -> dict[str, Finding]:
    """The findings by subject, without the judge's name; the last of each."""
    findings = look({"MMIE_TASKS_CACHE": str(tmp_path)}, {"device": "cpu", **options})
    return {finding.subject.removeprefix("mmie_score: "): finding for finding in findings}


def test_a_good_checkpoint_is_described_and_its_message_is_not_shown(tmp_path: Path) -> None:
    said = found(tmp_path, model=str(TINY))
    assert {finding.status for finding in said.values()} == {"ok"}
    message = json.loads((TINY / "config.json").read_bytes())["system_message"]
    assert f"system message of {len(message)} characters in `config.json`" in said["files"].found
    assert not any(message in f"{each.found}{each.hint}" for each in said.values())


def test_what_the_loader_refuses_is_a_problem(tmp_path: Path) -> None:
    copy = shutil.copytree(TINY, tmp_path / "copy")
    (copy / "tokenizer.model").unlink()
    said = found(tmp_path, model=str(copy))
    assert said["files"].status == "problem"
    assert "tokenizer.model" in said["files"].found
    assert "memory" not in said


@pytest.mark.parametrize(
    ("options", "subject", "hint"),
    [
        pytest.param({"max_memory": "1MiB"}, "memory", TWO_STEPS, id="too-little-memory"),
        pytest.param({"device": "cuda:99"}, "memory", "", id="no-such-gpu"),
        pytest.param({"max_rows": "0"}, "checkpoint", "1 or more", id="option"),
        pytest.param({"model": "./nowhere"}, "checkpoint", "config.json", id="no-such-folder"),
    ],
)
def test_what_does_not_work_is_a_problem_where_it_belongs(
    tmp_path: Path, options: dict[str, str], subject: str, hint: str
) -> None:
    said = found(tmp_path, **{"model": str(TINY), **options})
    problems = [name for name, finding in said.items() if finding.status == "problem"]
    assert problems == [subject]
    assert hint in said[subject].hint
