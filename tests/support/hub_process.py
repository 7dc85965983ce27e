"""Processes that download from a `HubServer`, with the real clients.

`huggingface_hub` reads its settings when it is imported, so what talks to a server runs in a
process of its own: `ask`. That is a fork of a process that has imported `huggingface_hub` with the
settings of most tests.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import mmie_tasks
from support.fork_server import LINK, ForkServer, Script
from support.hub_server import usual_port

PACKAGE = Path(mmie_tasks.__file__).parents[1]
TOKEN = "hf_thisisnotarealtoken"

# Sleeps are cut short; downloads come in small chunks, so that half a file is something to resume.
PROGRAM = """
import json, sys, time
sleep = time.sleep
time.sleep = lambda seconds: sleep(min(seconds, 0.01))
from huggingface_hub import constants
constants.DOWNLOAD_CHUNK_SIZE = 1024
from mmie_tasks.core.errors import MmieTasksError
try:
    scope = {}
    exec(sys.argv[1], scope)
    answer = scope["answer"]
except MmieTasksError as error:
    answer = {"error": type(error).__name__, "message": str(error)}
print(json.dumps(answer))
"""


# The libraries know their home as a symbolic link; the settings get the name that the test knows.
OWN_HOME = """
import os
from huggingface_hub import constants
os.dup2(os.open("{stdout}", os.O_WRONLY | os.O_CREAT), 1)
for name, value in vars(constants).items():
    if isinstance(value, str) and "/{link}" in value:
        real = os.path.realpath(value.partition("/{link}")[0] + "/{link}")
        setattr(constants, name, real + value.partition("/{link}")[2])
"""

LIBRARIES = (  # nothing that imports `huggingface_hub`
    *("httpx", "httpx2", "pydantic", "yaml", "loguru", "tqdm.auto", "filelock", "fsspec.asyn"),
    *("PIL.Image", "numpy", "pandas", "pyarrow.parquet", "pyarrow.dataset", "torch", "safetensors"),
    *("psutil", "pytest", "anyio.streams.tls", "multiprocess", "packaging.version", "xxhash"),
    *("fsspec.implementations.http", "scipy.sparse", "wcwidth", "tabulate", "PIL.WebPImagePlugin"),
)
HUB_LIBRARIES = (
    "huggingface_hub.hf_api",
    "huggingface_hub.file_download",
    "huggingface_hub._snapshot_download",
    "datasets",
)
ONE_HUB_FORK = threading.Lock()  # at a time; a test may run two programs at once
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([*LIBRARIES, __name__])


def environment(hub_url: str, home: Path, **more: str) -> dict[str, str]:
    """The environment of a process that uses this hub only, with all caches below `home`."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PACKAGE),
        "HOME": str(home),
        "HF_HOME": str(home / "hf"),
        "HF_ENDPOINT": hub_url,
        "HF_TOKEN": TOKEN,
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DOWNLOAD_TIMEOUT": "300",  # what hangs, hangs until the test goes on
        "HF_HUB_ETAG_TIMEOUT": "300",
        "MMIE_TASKS_CACHE": str(home / "cache"),
        "NO_PROXY": "*",
        **more,
    }


def ask(hub_url: str, home: Path, code: str, **more: str) -> Any:
    """Run `code` in a new process and return its variable `answer`.

    An error of ours comes back as ``{"error": class name, "message": text}``.
    """
    variables = environment(hub_url, home, **more)
    with tempfile.TemporaryDirectory() as folder:
        if _hub_forks().can_run(variables) and ONE_HUB_FORK.acquire(blocking=False):
            try:
                status = _run_in_hub_fork(code, variables, Path(folder))
            finally:
                ONE_HUB_FORK.release()
        else:
            process = FORKS.Process(target=_run_program, args=(code, variables, folder))
            process.start()
            process.join(timeout=300)
            process.kill()
            status = process.exitcode
        stdout, stderr = (Path(folder, name).read_text() for name in ("stdout", "stderr"))
    assert status == 0, stderr
    assert TOKEN not in stdout + stderr
    return json.loads(stdout.splitlines()[-1])


def _run_in_hub_fork(code: str, variables: dict[str, str], folder: Path) -> int:
    """Run `PROGRAM` in a fork of a process that has imported `huggingface_hub` with these
    settings.
    """
    program = folder / "program.py"
    program.write_text(
        f"{OWN_HOME.format(stdout=str(folder / 'stdout'), link=LINK)}{PROGRAM}", encoding="utf-8"
    )
    script = Script(
        target=str(program), arguments=(code,), folder=str(Path.cwd()), environment=variables
    )
    with (folder / "stderr").open("wb") as output:
        return _hub_forks().run(script, output, 300)


@cache
def _hub_forks() -> ForkServer:
    return ForkServer(
        environment(f"http://127.0.0.1:{usual_port()}", Path("/nowhere")),
        (*LIBRARIES, *HUB_LIBRARIES),
    )


def _run_program(code: str, variables: dict[str, str], folder: str) -> None:
    """Run `PROGRAM` in this process, with these variables only; its output goes to two files."""
    gc.freeze()  # a collection here need not look at the libraries
    for number, name in ((1, "stdout"), (2, "stderr")):
        with Path(folder, name).open("wb") as file:
            os.dup2(file.fileno(), number)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv[1:] = [code]
    exec(PROGRAM, {"__name__": "__main__"})  # noqa: S102 - as `python -c` does


def assets(home: Path, repo: str) -> Path:
    """The folder with what is made of a repository."""
    return home / "hf/assets/mmie-tasks" / repo.replace("/", "--")


def watch(process: subprocess.Popen[Any], until: Callable[[], bool]) -> None:
    """Return as soon as a condition holds, while the process runs."""
    deadline = time.monotonic() + 300
    while not until():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)


def ask_and_kill(
    hub_url: str, home: Path, code: str, when: Callable[[], bool], **more: str
) -> None:
    """Run `code` in a new process, and kill it without warning as soon as `when` holds."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, code],
        env=environment(hub_url, home, **more),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    watch(process, until=when)
    process.kill()
    assert process.wait(timeout=300) == -signal.SIGKILL
