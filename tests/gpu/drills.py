"""Drills of ``make gpu``: what must not end a run is made to happen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from loguru import logger

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.mmie_score.engine.decoding import StaticDecoder
from mmie_tasks.judges.mmie_score.engine.engine import PagedEngine
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge
from mmie_tasks.judges.mmie_score.memory import release_memory
from mmie_tasks.record.reply import JudgeReply

FORK_PROGRAM = """
import os, sys, torch
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge
judge = MmieScoreJudge(model=sys.argv[1], device=sys.argv[2], environment={})
judge.check()
judge.signature
if os.fork() == 0:
    try:
        torch.ones(1, device=sys.argv[2]).sum().item()
    except RuntimeError as error:
        print(str(error).splitlines()[0], flush=True)
        os._exit(1)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def fork_problem(checkpoint: Path, device: torch.device) -> str | None:
    """Why a process that was forked after `check` and `signature` cannot use the device."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_PROGRAM, str(checkpoint), str(device)],
        env={**os.environ, "LOGURU_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.returncode:
        return None
    return (done.stdout or done.stderr).strip().rpartition("\n")[2] or f"status {done.returncode}"


def capture_problem(judge: MmieScoreJudge, requests: Sequence[JudgeRequest]) -> str | None:
    """What goes wrong after an operation inside the captured step that no graph may have."""
    compute_of = StaticDecoder.__init__

    def with_item(self: StaticDecoder, *arguments: Any, **options: Any) -> None:
        compute_of(self, *arguments, **options)
        compute = self.compute

        def read_back() -> torch.Tensor:
            logits = compute()
            logits[0, 0].item()  # the host waits: not permitted in a capture
            return logits

        self.compute = read_back

    with logged() as messages, replaced(StaticDecoder, "__init__", with_item):
        missing = unanswered(judge, requests)
        captured = judge.local.captured
    release_memory()
    if judge.local.device().type == "cuda":
        torch.cuda.empty_cache()  # raises if the allocator still believes in a capture
        torch.ones(1, device=judge.local.device()).sum().item()
    judge.close()
    if missing or captured:
        return f"{missing} requests without a reply; captured: {captured}"
    expected = any("without a CUDA graph" in message for message in messages)
    return None if expected or judge.local.device().type == "cpu" else "no warning was logged"


def memory_problem(judge: MmieScoreJudge, requests: Sequence[JudgeRequest]) -> str | None:
    """What goes wrong if the device has no more memory than is in use now: in the first steps."""
    device = judge.local.device()
    list(judge.ask(requests[:1]))  # loads the weights
    with logged() as messages, full_memory(device):
        missing = unanswered(judge, requests)
    judge.close()
    if missing:
        return f"{missing} requests without a reply"
    expected = any("ran out of memory" in message for message in messages)
    return None if expected else "memory did not run out"


def unanswered(judge: MmieScoreJudge, requests: Sequence[JudgeRequest]) -> int:
    """How many requests have no reply."""
    return sum(not isinstance(outcome, JudgeReply) for _, outcome in judge.ask(requests))


@contextmanager
def full_memory(device: torch.device) -> Iterator[None]:
    """On a GPU, allow this process little more than it uses; on a CPU, a step that raises once."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        total = torch.cuda.mem_get_info(device)[1]
        allowed = torch.cuda.memory_reserved(device) + 256 * 2**20
        torch.cuda.set_per_process_memory_fraction(min(1.0, allowed / total), device)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0, device)
        return
    step, failures = PagedEngine._decoded, [torch.OutOfMemoryError("CUDA out of memory")]

    def failing(self: PagedEngine, chunks: Any) -> torch.Tensor:
        if failures:
            raise failures.pop()
        return step(self, chunks)

    with replaced(PagedEngine, "_decoded", failing):
        yield


@contextmanager
def replaced(owner: object, name: str, value: Callable[..., Any]) -> Iterator[None]:
    """Replace a method or function."""
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextmanager
def logged() -> Iterator[list[str]]:
    """The warnings that are logged meanwhile."""
    messages: list[str] = []
    sink = logger.add(messages.append, level="WARNING", format="{message}")
    try:
        yield messages
    finally:
        logger.remove(sink)
