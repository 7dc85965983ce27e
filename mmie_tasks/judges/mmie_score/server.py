"""The server that a run starts for itself: ``mmie-tasks serve`` as a child process.

It ends with the run, however that ends: it watches the pipe that is its standard input.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO

import httpx
from loguru import logger

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.serve import WITH_PARENT
from mmie_tasks.judges.mmie_score.served import listed_models

_LONGEST_START_S = 3600.0
_POLL_S = 1.0
_PROGRESS_S = 30.0
_END_S = 60.0
_RESTARTS = 3
_LOG_LINES = 15
_LAUNCHER_VARIABLES = (  # by which processes of the run find each other
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
    *("MASTER_ADDR", "MASTER_PORT"),
)


class JudgeServer:
    """A server on a free port of this machine.

    Args:
        command: ``mmie-tasks serve`` and its arguments, without a port.
        variables: The variables of its environment.
    """

    def __init__(self, command: Sequence[str], variables: Mapping[str, str]) -> None:
        self._port = _free_port()
        self._command = [*command, "--port", str(self._port), WITH_PARENT]
        self._variables = {
            name: value for name, value in variables.items() if name not in _LAUNCHER_VARIABLES
        }
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as this object
        self._lock = threading.Lock()
        self._is_closed = self._is_stopped = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        """``http://127.0.0.1:PORT/v1``."""
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Start the server and wait until it answers, with a line of progress now and then.

        Later it is started again if it ends, three times at most.

        Raises:
            JudgeMisconfigured: It ended before; the message has the end of its log.
        """
        process = self._spawn()
        try:
            self._wait(process)
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._keep, args=[process], daemon=True).start()

    def stop(self) -> None:
        """Make a `start` that waits raise KeyboardInterrupt; returns at once."""
        self._is_stopped = True

    def close(self) -> None:
        """End the server and all of its processes; returns when they are gone."""
        with self._lock:
            self._is_closed = True
            process, self._process = self._process, None
        if process is not None:
            _end(process)
            self._log.close()

    def _spawn(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(  # noqa: S603 - the user's own program
            self._command,
            env=self._variables,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is for the run, which ends the server
        )
        return self._process

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        began = reported = time.monotonic()
        while process.poll() is None:
            if self._is_stopped:
                raise KeyboardInterrupt
            try:
                if listed_models(self.base_url, "EMPTY", timeout_s=10):
                    logger.info(f"MMIE-Score's server is ready, {time.monotonic() - began:.0f} s.")
                    return
            except (httpx.HTTPError, ValueError):
                pass
            now = time.monotonic()
            if now - began > _LONGEST_START_S:
                break
            if now - reported > _PROGRESS_S:
                reported = now
                last = "".join(self._last_lines(1))[:150]
                # A warning: `mmie-tasks score` prints nothing below, and this takes minutes.
                logger.warning(f"MMIE-Score's server is loading, {now - began:.0f} s: {last}")
            time.sleep(_POLL_S)
        lines = "\n".join(self._last_lines(_LOG_LINES))
        raise JudgeMisconfigured(
            f"MMIE-Score's server did not start. The end of its log:\n{lines}",
            hint="`serve=no` computes in this process, without vLLM and slower; or start a server "
            "by `mmie-tasks serve` and name it: `base_url=http://127.0.0.1:8000/v1`",
        )

    def _keep(self, process: subprocess.Popen[bytes]) -> None:
        for left in reversed(range(_RESTARTS + 1)):
            status = process.wait()
            with self._lock:
                if self._is_closed:
                    return
                lines = "\n".join(self._last_lines(_LOG_LINES))
                then = "it is started again" if left else "it is not started again"
                logger.error(
                    f"MMIE-Score's server ended with status {status}; {then}. The end of its "
                    f"log:\n{lines}"
                )
                if not left:
                    return
                _end(process)
                process = self._spawn()

    def _last_lines(self, count: int) -> list[str]:
        size = os.fstat(self._log.fileno()).st_size
        end = os.pread(self._log.fileno(), 8192, max(0, size - 8192))
        return end.decode(errors="replace").strip().splitlines()[-count:]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe: the program then ends its server, and itself."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
