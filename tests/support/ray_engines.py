"""A Ray cluster of several nodes on this machine, and engines that do as a request says."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest, JudgeUnavailable, Outcome
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

    The text of a request is words: ``cost=3`` (units of time), ``die`` (the engine, if no other
    has), ``die-always``, ``raise``, ``misconfigured`` and ``unavailable``.

    Args:
        folder: Where each engine writes a file with a line for each request, named by its process.
        signature: Its signature; ``error`` cannot be used, ``exit`` dies, ``first-other`` is
            another one on the first engine.
        rows: How many requests are computed at a time.
        unit_s: Time for a cost of 1.
    """

    def __init__(
        self, *, folder: str, signature: str = "scripted", rows: int = 4, unit_s: float = 0.01
    ) -> None:
        self._folder, self._unit_s, self._signature = Path(folder), unit_s, signature
        self._rows = threading.Semaphore(rows)

    def _first(self, event: str) -> bool:
        try:
            (self._folder / event).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def start(self) -> tuple[dict[str, str], str]:
        (self._folder / f"{os.getpid()}.engine").touch()
        if self._signature == "error":
            raise JudgeMisconfigured("No such checkpoint.", hint="copy it there")
        if self._signature == "exit":
            os._exit(1)
        if self._signature == "first-other":
            return {"judge": "other" if self._first("other") else "scripted"}, "a GPU"
        return {"judge": self._signature}, "a GPU"

    def judge(self, request: JudgeRequest, *images: bytes) -> Outcome:
        text = str(request.parts[0])
        words = text.split()
        with (self._folder / f"{os.getpid()}.requests").open("a") as file:
            file.write(f"{text}\n")
        with self._rows:
            if "die-always" in words or ("die" in words and self._first("died")):
                os._exit(1)
            if "raise" in words:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            if "misconfigured" in words:
                return JudgeMisconfigured("There is no memory for one request.", hint="two steps")
            costs = [word.removeprefix("cost=") for word in words if word.startswith("cost=")]
            time.sleep(sum(map(float, costs)) * self._unit_s)
        if "unavailable" in words:
            return JudgeUnavailable("not now")
        digests = " ".join(hashlib.sha256(image).hexdigest()[:8] for image in images)
        return JudgeReply(text=f"{text} {digests}".strip(), model=str(os.getpid()))


def computed(folder: Path) -> dict[str, list[str]]:
    """What each engine computed, by its process."""
    return {path.stem: path.read_text().splitlines() for path in folder.glob("*.requests")}


def engines_started(folder: Path) -> int:
    """Number of engines that were asked for their signature."""
    return len(list(folder.glob("*.engine")))
