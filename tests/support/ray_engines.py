"""A Ray cluster of several nodes on this machine, and engines that do as a request says."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest, JudgeUnavailable
from mmie_tasks.judges.mmie_score.memory import DeviceFull
from mmie_tasks.judges.mmie_score.remote import EngineReply
from mmie_tasks.record.reply import JudgeReply

TESTS = Path(__file__).resolve().parent.parent
HEALTH_CHECKS = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 2,
}
NODE = {"num_cpus": 0, "num_gpus": 1, "object_store_memory": 80_000_000}


@contextmanager
def three_nodes() -> Iterator[Any]:
    """A cluster of three nodes that claim one GPU each, and this process connected to it."""
    import ray
    from ray.cluster_utils import Cluster

    before = dict(os.environ)
    # Processes of the cluster inherit them: where this module is, and no advice on GPUs that are
    # not there.
    os.environ.update(
        PYTHONPATH=str(TESTS), RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0", RAY_USAGE_STATS_ENABLED="0"
    )
    cluster = Cluster(
        initialize_head=True, head_node_args={**NODE, "_system_config": HEALTH_CHECKS}
    )
    try:
        for _ in range(2):
            cluster.add_node(**NODE)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="CRITICAL")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        os.environ.clear()
        os.environ.update(before)


class ScriptedEngine:
    """An engine that computes `rows` requests at a time and sleeps for each.

    The text of a request is words: ``cost=3`` (units of time), ``die`` and ``hang`` (the engine, if
    no other has for this reason), ``die-always``, ``raise`` (the engine's thread),
    ``misconfigured``, ``unavailable``, and ``warns...`` a warning.

    Args:
        folder: Where each engine writes a file with a line for each request, named by its process.
        signature: Its signature; ``error`` cannot be used, ``exit`` dies, ``full-first`` has no
            memory the first time, ``first-other`` is another one on the first engine.
        machines: Its machine is one of them, the first engine's the first.
        rows: How many requests are computed at a time.
        unit_s: Time for a cost of 1.
    """

    def __init__(
        self,
        *,
        folder: str,
        signature: str = "scripted",
        rows: int = 4,
        unit_s: float = 0.01,
        machines: tuple[str, ...] = (),
    ) -> None:
        self._folder, self._unit_s = Path(folder), unit_s
        self._signature = signature
        self._rows = asyncio.Semaphore(rows)
        self._hangs = False
        number = next((number for number, name in enumerate(machines) if self._first(name)), -1)
        self._machine = machines[number] if machines else None

    def _first(self, event: str) -> bool:
        try:
            (self._folder / event).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    async def signature(self) -> str:
        (self._folder / f"{os.getpid()}.engine").touch()
        if self._signature == "error":
            raise JudgeMisconfigured("No such checkpoint.", hint="copy it there")
        if self._signature == "exit":
            os._exit(1)
        if self._signature == "full-first":
            if self._first("full"):
                raise DeviceFull("There is no memory.", hint="wait")
            return "scripted"
        if self._signature == "first-other":
            return "other" if self._first("other") else "scripted"
        return self._signature

    async def judge(self, request: JudgeRequest, *images: bytes) -> EngineReply:
        text = str(request.parts[0])
        words = text.split()
        with (self._folder / f"{os.getpid()}.requests").open("a") as file:
            file.write(f"{text}\n")
        async with self._rows:
            if "die-always" in words or ("die" in words and self._first("died")):
                os._exit(1)
            if "raise" in words:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            if "misconfigured" in words:
                raise JudgeMisconfigured("There is no memory for one request.", hint="two steps")
            if "hang" in words and self._first("hung"):
                self._hangs = True
            while self._hangs:
                time.sleep(1)  # the whole process
            cost = sum(
                float(word.removeprefix("cost=")) for word in words if word.startswith("cost=")
            )
            await asyncio.sleep(cost * self._unit_s)
        if "unavailable" in words:
            return EngineReply(outcome=JudgeUnavailable("not now"))
        digests = " ".join(hashlib.sha256(image).hexdigest()[:8] for image in images)
        reply = JudgeReply(text=f"{text} {digests}".strip(), model=str(os.getpid()))
        warnings = tuple(word for word in words if word.startswith("warns"))
        return EngineReply(outcome=reply, machine=self._machine, warnings=warnings)


def computed(folder: Path) -> dict[str, list[str]]:
    """What each engine computed, by its process."""
    return {path.stem: path.read_text().splitlines() for path in folder.glob("*.requests")}


def engines_started(folder: Path) -> int:
    """Number of engines that were asked for their signature."""
    return len(list(folder.glob("*.engine")))
