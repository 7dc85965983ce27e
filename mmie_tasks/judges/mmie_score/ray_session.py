"""The Ray session that judges, and how many engines a user allows: on which GPUs MMIE-Score is
computed.

Ray is imported when a session connects.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

from mmie_tasks.judges.base import JudgeMisconfigured

INSTALL_RAY = "`pip install 'mmie-tasks[ray]'`, for a run of one process"
WITHOUT_RAY = "look at `ray status`; `engines=1` judges without Ray"
_CONNECT_S = 5.0  # to see whether anything answers at an address
_START_S = 120.0  # for Ray to connect or to start, before an error; its own limit is ten minutes


def engine_limit(option: str, device: str, environment: Mapping[str, str]) -> int | None:
    """The engines that the option allows, None for ``auto``; `JudgeMisconfigured` if so many cannot
    run here.
    """
    if option == "auto":
        return None
    limit = int(option) if option.isascii() and option.isdecimal() else 0
    if limit > 1 and not ray_is_installed():
        raise JudgeMisconfigured(
            f"`engines={option}` needs Ray, which is not installed.", hint=INSTALL_RAY
        )
    may_be_several = is_only_process(environment) and not device.startswith("cuda:")
    if limit < 1 or (limit > 1 and not may_be_several):
        raise JudgeMisconfigured(
            f"`engines={option}` is not possible with `device={device}` in this process.",
            hint="a number from 1 or `auto`; more than 1 in a run of one process, and not on one "
            "GPU alone",
        )
    return limit


def idle_gpus(device: str, environment: Mapping[str, str]) -> int:
    """How many GPUs of this machine are left idle: Ray is not installed, or this is one of several
    processes.
    """
    import torch

    uses_ray = ray_is_installed() and is_only_process(environment)
    if device not in ("auto", "cuda") or uses_ray or environment.get("LOCAL_RANK", "0") != "0":
        return 0
    return max(0, torch.cuda.device_count() - int(environment.get("LOCAL_WORLD_SIZE") or 1))


def ray_is_installed() -> bool:
    """Whether Ray can be imported."""
    return find_spec("ray") is not None


def is_only_process(environment: Mapping[str, str]) -> bool:
    """Whether no launcher has started other processes of this run, by ``WORLD_SIZE``."""
    return environment.get("WORLD_SIZE", "1") in ("", "1")


def choose_session(
    limit: int | None, device: str, environment: Mapping[str, str]
) -> RaySession | None:
    """The session whose GPUs judge; None: this process judges by itself. `JudgeMisconfigured` if
    Ray cannot be used.

    Without a limit by the user, a run's only process uses Ray where it has several GPUs, or names a
    cluster that has.
    """
    import torch

    # With `device=cpu`, which is for tests, each engine still takes what Ray counts as a GPU.
    session = RaySession(
        environment, local_gpus=limit or 0 if device == "cpu" else torch.cuda.device_count()
    )
    suits = (
        device in ("auto", "cuda")
        and is_only_process(environment)
        and ray_is_installed()
        and session.is_likely
    )
    if limit == 1 or (limit is None and not suits):
        return None
    gpus = session.gpus()
    if gpus > 1 or (gpus and limit):
        return session
    session.close()
    if limit:
        message = (
            f"`engines={limit}` was requested, and neither this machine nor a Ray cluster "
            "has a GPU."
        )
        raise JudgeMisconfigured(
            message, hint="look at `nvidia-smi` and `ray status`, or leave `engines=` out"
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine of a Ray cluster that is alive, with its number of GPUs, at least 1."""

    id: str
    name: str
    gpus: int


class RaySession:
    """The Ray session that judges: that of this process, of a running cluster, or of a cluster of
    this machine.

    Args:
        environment: ``RAY_ADDRESS``, of a running cluster.
        local_gpus: GPUs of the cluster that is started if there is no other; 0 starts none.
    """

    def __init__(self, environment: Mapping[str, str], local_gpus: int) -> None:
        self._address = environment.get("RAY_ADDRESS", "")
        self._local_gpus = local_gpus
        self._closing: threading.Event | None = None
        self._thread = threading.Thread()

    @property
    def is_likely(self) -> bool:
        """Whether there may be GPUs: on this machine, at ``RAY_ADDRESS``, or in this process's
        session.
        """
        return bool(self._local_gpus or self._address or _has_session())

    def gpus(self) -> int:
        """Number of GPUs; a cluster of this machine is not started for it. Raises like `nodes`."""
        return (
            sum(node.gpus for node in self.nodes())
            if self._connect(start=False)
            else self._local_gpus
        )

    def nodes(self) -> list[Node]:
        """The machines with GPUs; `JudgeMisconfigured` if Ray cannot be started, or ``RAY_ADDRESS``
        not be reached.
        """
        import ray

        listed = ray.nodes() if self._connect(start=True) else ()
        return [
            Node(
                id=node["NodeID"],
                name=node["NodeManagerHostname"],
                gpus=int(node["Resources"]["GPU"]),
            )
            for node in listed
            if node["Alive"] and node["Resources"].get("GPU", 0) >= 1
        ]

    def close(self) -> None:
        """Disconnect and end a cluster of this machine; a session that the process had before
        stays.
        """
        if self._closing is not None:
            self._closing.set()
            self._thread.join()
            self._closing = None

    def _connect(self, *, start: bool) -> bool:
        """Connect, in a thread that lasts until `close`: Ray's processes end with the thread that
        started them.

        The thread is a daemon, because at the end of a process Ray disconnects while daemons are
        still there.
        """
        if _has_session():
            return True
        if not self._address and not (start and self._local_gpus):
            return False
        if self._address:
            self._check_address()
        self._hold_session()
        return True

    def _hold_session(self) -> None:
        closing, connected = threading.Event(), threading.Event()
        problems: list[str] = []

        def hold_session() -> None:
            import ray

            try:
                self._init()
            except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
                problems.append(reason_of(error))
            finally:
                connected.set()
            closing.wait()
            ray.shutdown()

        self._thread = threading.Thread(target=hold_session, name="ray-session", daemon=True)
        self._thread.start()
        if not connected.wait(_START_S) or problems:
            closing.set()  # the thread disconnects, should it connect after all
            problem = problems[0] if problems else f"no answer for {_START_S:g} s"
            message = f"Ray cannot be used ({self._address or 'on this machine'}): {problem}."
            raise JudgeMisconfigured(message, hint=WITHOUT_RAY)
        self._closing = closing

    def _check_address(self) -> None:
        """Try to connect to the cluster at once, because Ray would try for minutes."""
        host, _, port = self._address.rpartition("/")[2].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
        except (OSError, ValueError) as error:
            message = (
                f"`RAY_ADDRESS` is `{self._address}`, and no Ray cluster answers there: {error}."
            )
            raise JudgeMisconfigured(
                message, hint="start it and set its `host:port`, or unset `RAY_ADDRESS`"
            ) from error

    def _init(self) -> None:
        import ray

        init = partial(ray.init, log_to_driver=False, logging_level=logging.CRITICAL)
        if self._address:
            init(address=self._address)
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Ray prints no advice about actors without GPUs.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # Ray would start an idle process for each CPU.
        init(address="local", num_gpus=self._local_gpus, num_cpus=0, include_dashboard=False)


def _has_session() -> bool:
    """Whether this process is connected to Ray, which is not imported for it."""
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def reason_of(error: BaseException) -> str:
    """The cause that ends a message of Ray, such as the last line of a traceback; its first
    sentence.
    """
    last_line = (str(error).strip() or type(error).__name__).rpartition("\n")[2]
    return last_line.strip().partition(". ")[0].rstrip(".")
