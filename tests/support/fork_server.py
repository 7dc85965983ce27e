"""Runs Python scripts in forks of a process that has imported their libraries.

Most of what a small evaluation costs is importing torch, transformers and the like, and parsing
the 3,500 task files of lmms-eval. The server does both once; each script runs in a fork of it, with
its own environment, working directory, arguments, output and process group. A fork ends as an
interpreter ends: threads are waited for, exit handlers run, an exception is printed.

A script imports `mmie_tasks`, `lmms_eval.models`, `lmms_eval.tasks`, `lmms_eval.evaluator` and the
launchers itself, from its own ``PYTHONPATH``: entry points, hooks, the index of tasks and their
precedence are those of a new process. Shared are

* the libraries, and the modules of `lmms_eval` that know neither models nor tasks (`LMMS_EVAL`).
  They read their settings from the server's environment. `ForkServer.can_run` compares the two
  environments, so that a script with other settings gets a process of its own. ``HF_HOME`` alone
  may differ: to the libraries it is a symbolic link, which points to the script's own folder while
  the script runs;
* the parsed content of task files, as `lmms_eval` reads it for its index (`_share_task_files`). A
  file is still looked for and read in the script; one with other content is parsed there;
* PyYAML's parser, which is libyaml's (`startup/sitecustomize.py`).

A script may run as several processes, with the variables that torchrun sets for each of them.
"""

import atexit
import gc
import importlib
import importlib.util
import json
import os
import pickle
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

LIBRARIES = (  # what lmms_eval and mmie_tasks import for an evaluation or a report
    *("torch", "torch.distributed", "torchvision", "transformers", "transformers.pipelines"),
    *("accelerate", "datasets", "evaluate", "evaluate.evaluator", "sacrebleu", "nltk"),
    *("openai", "httpx", "huggingface_hub", "safetensors.torch", "sentencepiece", "tokenizers"),
    *("loguru", "yaml", "PIL.Image", "PIL.ImageDraw", "pydantic", "sqlite3", "tenacity", "tqdm"),
    *("scipy.stats", "sklearn.metrics", "pandas", "pytablewriter", "rich.console", "dotenv"),
    *("tabulate", "krippendorff", "jinja2", "plotly", "numexpr", "psutil", "filelock"),
)
LMMS_EVAL = ("lmms_eval.evaluator_utils", "lmms_eval.loggers", "lmms_eval.caching.response_cache")
IMPORTED_BY_SCRIPTS = ("mmie_tasks", "lmms_eval.models", "lmms_eval.tasks", "lmms_eval.llm_judge")
STARTUP = Path(__file__).parent / "startup"  # with a `sitecustomize`, for ``PYTHONPATH``

LINK = "link_to_hf_home"
"""The name of the symbolic link that is ``HF_HOME`` to the libraries."""

READ_LATER = (
    *("MMIE_", "MILEBENCH_", "MIA_BENCH_", "OPENING_", "SKETCH_"),
    *("OPENAI_API_KEY", "OPENAI_API_BASE", "OPENAI_BASE_URL", "PYTHONPATH"),
)
"""Prefixes of variables that no library reads when it is imported."""

UNUSED = ("HOME", "XDG_CACHE_HOME", "HF_HOME")
"""Libraries read the first two only where ``HF_HOME`` is not set; the last is the link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A Python file to run as ``__main__``, or a module, as ``python -m`` does."""

    target: str  # path of the file, or name of the module
    arguments: tuple[str, ...]
    folder: str  # the working directory
    environment: Mapping[str, str]  # all variables
    is_module: bool = False
    processes: int = 1  # how many times it runs, at the same time

    def run(self, library_path):
        """Run it in this process, whose output is already the script's."""
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment)
        python_path = self.environment.get("PYTHONPATH", "").split(os.pathsep)
        first = self.folder if self.is_module else str(Path(self.target).parent)
        sys.path[:] = [first, *filter(None, python_path), *library_path]
        sys.argv[:] = [self.target, *self.arguments]
        importlib.invalidate_caches()
        run = partial(runpy.run_module, alter_sys=True) if self.is_module else runpy.run_path
        run(self.target, run_name="__main__")


class ForkServer:
    """The test's side of a server; `start` starts one, and it ends with this process."""

    def __init__(self, environment, libraries=(*LIBRARIES, *LMMS_EVAL)):
        self._folder = Path(tempfile.mkdtemp(prefix="fork_server_"))
        self._home = self._folder / LINK
        self._settings = _settings(environment)
        self._connection, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other_end, (self._folder / "errors").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(other_end.fileno()), *libraries],
                env={**self._settings, "HF_HOME": str(self._home), "PYTHONPATH": str(STARTUP)},
                pass_fds=[other_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        atexit.register(self.close)

    def can_run(self, environment):
        """Whether a new process with these variables would import the same libraries."""
        return self._process.poll() is None and _settings(environment) == self._settings

    def run(self, script, output, timeout_s):
        """Run a script to its end; stdout and stderr go to a file. Its exit status, or minus the
        signal that ended it. After `timeout_s` its process group is killed.
        """
        home = Path(script.environment["HF_HOME"])
        home.mkdir(parents=True, exist_ok=True)
        self._home.unlink(missing_ok=True)
        self._home.symlink_to(home, target_is_directory=True)
        with tempfile.TemporaryFile(dir=self._folder) as file:  # a message has a limited size
            environment = {**script.environment, "HF_HOME": str(self._home)}
            file.write(json.dumps({**asdict(script), "environment": environment}).encode())
            file.seek(0)
            socket.send_fds(self._connection, [b"run"], [file.fileno(), output.fileno()])
        self._connection.settimeout(timeout_s)
        try:
            reply = self._connection.recv(64)
        except TimeoutError as error:
            self.close()  # the server kills the script and ends
            raise subprocess.TimeoutExpired(script.target, timeout_s) from error
        if not reply:
            raise OSError(f"fork server: {(self._folder / 'errors').read_text()}")
        return int(reply)

    def close(self):
        """End the server, and with it a script that still runs."""
        atexit.unregister(self.close)
        self._connection.close()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _settings(environment):
    """The part of an environment that libraries may read when they are imported."""
    return {
        name: value
        for name, value in environment.items()
        if name not in UNUSED and not name.startswith(READ_LATER)
    }


def _serve(connection):
    """Fork for each request. Returns in the fork only; the server itself ends here."""
    while True:
        request, files, _flags, _address = socket.recv_fds(connection, 64, 2)
        if not request:
            sys.exit()
        with open(files[0], encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            fields = json.load(file)
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            connection.close()
            os.dup2(files[1], 1)
            os.dup2(files[1], 2)
            os.close(files[1])
            return Script(**fields)
        os.close(files[1])
        connection.send(str(_status(pid, connection)).encode())


def _status(pid, connection):
    """Wait for a fork, and kill its group if the test's side goes away before it ends."""
    process = os.pidfd_open(pid)
    ready, _, _ = select.select([process, connection], [], [])
    if process not in ready:
        os.killpg(pid, signal.SIGKILL)
    os.close(process)
    _, status = os.waitpid(pid, 0)
    if process not in ready:
        sys.exit()
    return os.waitstatus_to_exitcode(status)


def _fork_processes(script):
    """Fork once per process, as torchrun starts them. Returns in these forks only."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    count = str(script.processes)
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    pids = set()
    for rank in map(str, range(script.processes)):
        pid = os.fork()
        if pid == 0:
            numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count}
            environment = {**script.environment, **shared, **numbers, "LOCAL_WORLD_SIZE": count}
            return replace(script, environment=environment)
        pids.add(pid)
    status = 0
    while pids:
        pid, ended = os.wait()
        pids.remove(pid)
        if ended and not status:  # the others would wait for this one
            status = 1
            for other in pids:
                os.kill(other, signal.SIGTERM)
    os._exit(status)


def _share_task_files():
    """Parse the task files of `lmms_eval` here; a fork copies what it needs by a file's content.

    Only for its index: `lmms_eval` then leaves the functions in a file unread.
    """
    import yaml
    from lmms_eval import utils

    parse = yaml.full_load
    documents = {}

    def full_load(stream):
        if yaml.FullLoader.yaml_constructors.get("!function") is not utils.ignore_constructor:
            return parse(stream)
        content = stream.read()
        if content not in documents:
            documents[content] = pickle.dumps(parse(content))
        return pickle.loads(documents[content])  # noqa: S301 - written above

    yaml.full_load = full_load
    for path in Path(utils.__file__).with_name("tasks").rglob("*.yaml"):
        utils.load_yaml_config(str(path), mode="simple")


def _exit_status(run):
    """Run to the end as the interpreter does, but without unloading the imported modules.

    Any exception but the regular one that ends a script is left to the interpreter: it prints it
    and ends with 1.
    """
    status = 0
    try:
        run()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status & 0xFF


def _main():
    library_path = sys.path[1:]
    sys.path[:] = library_path
    for name in sys.argv[2:]:
        if importlib.util.find_spec(name.partition(".")[0]):  # `rich` is not in all environments
            importlib.import_module(name)
    if "lmms_eval" in sys.modules:
        _share_task_files()
    assert not [name for name in sys.modules if name.startswith(IMPORTED_BY_SCRIPTS)]
    gc.collect()
    gc.freeze()  # a collection in a fork need not look at the libraries
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        script = _serve(connection)
    if script.processes > 1:
        script = _fork_processes(script)
    os._exit(_exit_status(lambda: script.run(library_path)))


if __name__ == "__main__":
    _main()
