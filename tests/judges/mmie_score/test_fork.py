"""The tested model may fork after the judge's check, and use CUDA in the process that is forked."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from support.internvl_golden import CHECKPOINT
from support.transformers_5 import needs_transformers_5

ROOT = Path(__file__).resolve().parents[3]

pytestmark = needs_transformers_5

PROGRAM = f"""
import os, sys, torch
torch.cuda._device_count_nvml = lambda: 1  # as on a machine with a GPU whose driver works
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge, MmieScoreOptions
judge = MmieScoreJudge(MmieScoreOptions(model={str(CHECKPOINT)!r}), {{}})
judge.check()
signature = judge.storage_signature
if os.fork() == 0:
    print(signature, "poisoned" if torch.cuda._is_in_bad_fork() else "usable", flush=True)
    os._exit(0)
os.wait()
"""


def test_a_process_forked_after_check_and_signature_can_use_cuda() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LOGURU_LEVEL": "ERROR"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    engine = f"transformers {version('transformers')}"
    tail = f"|dtype:bfloat16|device:cuda|engine:{engine}|stop:end usable\n"
    assert done.stdout.endswith(tail), done.stdout + done.stderr
