"""A Hugging Face Hub on the loopback interface, limited to the routes that downloads need.

`huggingface_hub` reads its settings when it is imported, so what talks to this server runs in a
process of its own: `ask`. That is a fork of a process that has imported `huggingface_hub` with the
settings of most tests. Servers use one port where they can, so that the address is one of them.
"""

from __future__ import annotations

import gc
import hashlib
import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import mmie_tasks
from support import hub_api
from support.fork_server import LINK, ForkServer, Script

PACKAGE = Path(mmie_tasks.__file__).parents[1]
COMMIT = "c0ffee" * 6 + "c0ff"
TOKEN = "hf_thisisnotarealtoken"
SIGNATURE = "thisopensthefile"

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
    *("openai", "openai.types.chat", "openai.resources"),  # of `batch_asking`
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


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    range: str | None
    token: str | None

    @property
    def filename(self) -> str:
        return self.path.split("?")[0].rsplit("/", 1)[-1]


@dataclass
class Fault:
    """A fault, and the number of requests that it still affects."""

    times: float
    methods: tuple[str, ...]
    status: int = 0
    error_code: str = ""
    cut_after: int | None = None
    hang: bool = False


class HubServer:
    """Files by (repository, name), a script of faults, and the list of requests."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], bytes] = {}
        self.hashes: dict[tuple[str, str], str] = {}
        self.requests: list[Request] = []
        self.commit = COMMIT
        self.faults: list[Fault] = []
        self.forwards = False
        self.patience_ends = threading.Event()
        handler = type("Handler", (_Handler,), {"hub": self})
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", _port()), handler)
        except OSError:  # another server of this process has it, or another process
            self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> HubServer:
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hangs_up()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def holds(self, repo: str, filename: str, content: bytes) -> None:
        self.files[repo, filename] = content
        self.hashes[repo, filename] = hashlib.sha256(content).hexdigest()

    def cuts_off(self, after: int, times: float = 1) -> None:
        """Hang up in the middle of a download, `after` bytes into it."""
        self.faults.append(Fault(times=times, methods=("GET",), cut_after=after))

    def hangs(self, after: int) -> None:
        """Send nothing more, once, `after` bytes into a download, until it `hangs_up`."""
        self.faults.append(Fault(times=1, methods=("GET",), cut_after=after, hang=True))

    def hangs_up(self) -> None:
        self.patience_ends.set()

    def answers(
        self,
        status: int,
        error_code: str = "",
        times: float = float("inf"),
        methods: tuple[str, ...] = ("HEAD", "GET"),
    ) -> None:
        """Refuse, as the Hub does: a status, and a code in a header."""
        fault = Fault(times=times, methods=methods, status=status, error_code=error_code)
        self.faults.append(fault)

    def ranges(self) -> list[str | None]:
        """The requested range of each download, in order."""
        return [request.range for request in self.requests if request.method == "GET"]

    def requested_files(self, method: str = "GET") -> list[str]:
        """The names of the requested files, in order."""
        return [request.filename for request in self.requests if request.method == method]

    def next_fault(self, method: str, *, of_file: bool) -> Fault | None:
        """The fault for a request; broken transfers are those of files."""
        for fault in self.faults:
            if fault.times > 0 and method in fault.methods and (of_file or fault.status):
                fault.times -= 1
                return fault
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: HubServer

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        kind = self.headers["Content-Type"] or ""
        if (question := hub_api.question(self.path, body, kind)) is not None:
            self._answer_api(question)
            return
        if route := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path):
            signed = ""
        elif route := re.fullmatch(r"/signed/([^/]+/[^/]+)/([^/]+)/([^?]+)\?(.+)", self.path):
            signed = SIGNATURE
        else:  # such as the list of programs that huggingface_hub may ask for
            self._refuse(404, "")
            return
        repo, revision, filename, *_ = route.groups()
        if self.hub.forwards and not signed:
            self._forward(repo, revision, filename)
            return
        byte_range, token = self.headers["Range"], self.headers["Authorization"]
        self.hub.requests.append(Request(self.command, self.path, byte_range, token))
        fault = self.hub.next_fault(self.command, of_file=True)
        if fault is not None and fault.status:
            self._refuse(fault.status, fault.error_code)
        elif missing := self._missing(repo, revision, filename):
            self._refuse(404, missing)
        else:
            self._send((repo, filename), byte_range, fault)

    def _answer_api(self, request: hub_api.Question) -> None:
        """Answer a request for repository information; the same refusals apply."""
        fault = self.hub.next_fault(self.command, of_file=False)
        if fault is not None and fault.status:
            self._refuse(fault.status, fault.error_code)
            return
        files = {
            name: data for (repo, name), data in self.hub.files.items() if repo == request.repo
        }
        hashes = {name: self.hub.hashes[request.repo, name] for name in files}
        if not files or request.revision not in {"main", self.hub.commit}:
            self._refuse(404, "RevisionNotFound" if files else "RepoNotFound")
            return
        content = json.dumps(hub_api.reply(request, files, hashes, self.hub.commit)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _forward(self, repo: str, revision: str, filename: str) -> None:
        """Redirect to another host, as the Hub does for large files."""
        port = self.server.server_address[1]
        self.send_response(302)
        self._describe((repo, filename))
        path = f"signed/{repo}/{revision}/{filename}"
        self.send_header("Location", f"http://localhost:{port}/{path}?Signature={SIGNATURE}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _missing(self, repo: str, revision: str, filename: str) -> str:
        if repo not in {name for name, _ in self.hub.files}:
            return "RepoNotFound"
        if revision not in {"main", self.hub.commit}:
            return "RevisionNotFound"
        return "" if (repo, filename) in self.hub.files else "EntryNotFound"

    def _refuse(self, status: int, error_code: str) -> None:
        self.send_response(status)
        if error_code:
            self.send_header("X-Error-Code", error_code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, key: tuple[str, str], byte_range: str | None, fault: Fault | None) -> None:
        content = self.hub.files[key]
        start = int(byte_range.removeprefix("bytes=").split("-")[0]) if byte_range else 0
        body = content[start:]
        self.send_response(206 if byte_range else 200)
        if byte_range:
            end = f"{len(content) - 1}/{len(content)}"
            self.send_header("Content-Range", f"bytes {start}-{end}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Accept-Ranges", "bytes")
        self._describe(key)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: fault.cut_after] if fault else body)
        if fault is not None and fault.hang:
            self.hub.patience_ends.wait()
        self.close_connection = fault is not None

    def _describe(self, key: tuple[str, str]) -> None:
        self.send_header("ETag", f'"{self.hub.hashes[key]}"')
        self.send_header("X-Linked-Etag", f'"{self.hub.hashes[key]}"')
        self.send_header("X-Linked-Size", str(len(self.hub.files[key])))
        self.send_header("X-Repo-Commit", self.hub.commit)


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
        environment(f"http://127.0.0.1:{_port()}", Path("/nowhere")), (*LIBRARIES, *HUB_LIBRARIES)
    )


@cache
def _port() -> int:
    """The port of the servers of this process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


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
