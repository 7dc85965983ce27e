"""Start lmms-eval for real, on the CPU and offline, with our package as it is installed."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import psutil

import mmie_tasks
from mmie_tasks.core.files import task_dir
from support.fork_server import STARTUP, ForkServer, Script
from support.wheels import build, unpack

TESTS = Path(__file__).resolve().parents[1]
PACKAGE = Path(mmie_tasks.__file__).parents[1]  # what the tests import, wherever it is
CONSOLE_SCRIPTS = ("lmms-eval", "mmie-tasks")
MODULES = ("lmms_eval", "mmie_tasks")
TIMEOUT_S = 900

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_NOT_INHERITED = ("MMIE_", "LMMS_", "PYTEST_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """A command that has ended: its exit status, and stdout and stderr together, uncoloured, and if
    they had codes; and the details in the results file that it wrote.
    """

    status: int
    output: str
    has_codes: bool = False
    details: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def values(self):
        """(task, metric) to value, of the details and the printed tables."""
        return {**self.details, **self.table}

    @property
    def table(self):
        """The printed tables of tasks: (task, metric) to value. A blank task is that above it."""
        values, task, header = {}, "", [""]
        for line in self.output.splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            if line.startswith("|") and "Metric" in cells:
                header = cells
            elif line.startswith("|") and "Tasks" in header and not line.startswith("|--"):
                row = dict(zip(header, cells, strict=False))
                task = row["Tasks"] or task
                values[task, row["Metric"]] = row["Value"]
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """A folder to start commands in. Modules in ``plugins`` precede installed ones."""

    folder: Path

    @property
    def plugins(self):
        return self.folder / "plugins"

    @property
    def task_dir(self):
        """Where the copy of our package keeps its tasks, as in a wheel."""
        return self.plugins / "mmie_tasks" / "task_yamls"

    def copy_our_package(self):
        """Put a copy of the package first, so that a test can add to it without touching it.

        The entry point of the installed distribution names a module, so it resolves to the copy.
        """
        leave = shutil.ignore_patterns("__pycache__")
        package = Path(mmie_tasks.__file__).parent
        shutil.copytree(package, self.plugins / "mmie_tasks", ignore=leave)
        if not self.task_dir.is_dir():  # a checkout: the tasks lie beside the package
            shutil.copytree(task_dir(), self.task_dir)

    def install(self, project):
        """Install a package: what its wheel has, and nothing else of its folder."""
        with tempfile.TemporaryDirectory() as folder:
            unpack(build("wheel", project, Path(folder)), self.plugins)

    def install_entry_point(self, group, name, value):
        """Do what installing a package with this entry point does."""
        info = self.plugins / f"for_tests_{name}-1.0.dist-info"
        write(info / "METADATA", f"Metadata-Version: 2.1\nName: for-tests-{name}\nVersion: 1.0\n")
        write(info / "entry_points.txt", f"[{group}]\n{name} = {value}\n")

    def install_stub_model(self):
        """Make `support.stub_model.StubChat` known as ``--model stub``."""
        self.install_entry_point("lmms_eval.models", "stub", "support.stub_manifest:STUB")

    def run(self, *command, processes=1, **variables):
        """Run a command to its end, here, with these variables in addition to our own.

        ``lmms-eval``, ``mmie-tasks``, ``python FILE.py`` and ``python -m`` with either package run
        in a fork of a process that has imported the libraries, where that makes no difference to
        them; any other command is a process of its own. With several `processes`, each is such a
        fork, with the variables that torchrun sets for it.
        """
        environment = {**self._environment(), **variables}
        self._wait_for_an_unused_second()
        before = self._results_files()
        script = self._script(command, environment=environment, processes=processes)
        if script is None or not _server().can_run(environment):
            assert processes == 1, "a fork server of these variables is needed"
            result = self.run_process(*command, **variables)
        else:
            with tempfile.TemporaryFile() as output:
                status = _server().run(script, output, TIMEOUT_S)
                output.seek(0)
                result = _result(status, output.read())
        new = sorted(self._results_files() - before)
        return replace(result, details=_details(new[-1])) if new else result

    def _wait_for_an_unused_second(self):
        """lmms-eval names the files of a run by the second in which it begins."""
        while [*self.folder.rglob(time.strftime("*%M%S_results.json"))]:
            time.sleep(0.02)

    def _results_files(self):
        return set(self.folder.rglob("*_results.json"))

    def _script(self, command, **settings):
        """What the fork server can run in place of a command, if it can."""
        script = partial(Script, folder=str(self.folder), **settings)
        match command:
            case ("python", "-m", module, *arguments) if module in MODULES:
                return script(target=module, arguments=arguments, is_module=True)
            case ("python", file, *arguments) if file.endswith(".py"):
                return script(target=str(self.folder / file), arguments=arguments)
            case (name, *arguments) if name in CONSOLE_SCRIPTS:
                return script(target=f"{sysconfig.get_path('scripts')}/{name}", arguments=arguments)
        return None

    def run_process(self, *command, **variables):
        """Run any command to its end in a separate process."""
        process = subprocess.run(
            command,
            cwd=self.folder,
            env={**self._environment(), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
            check=False,
        )
        return _result(process.returncode, process.stdout)

    def pids(self, word):
        """The processes that were started in this folder by a command with this word in it."""
        return [
            process.pid
            for process in psutil.process_iter(["cwd", "cmdline"])
            if process.info["cwd"] == str(self.folder.resolve())
            and word in " ".join(process.info["cmdline"] or ())
        ]

    def wait_for_replies(self, count):
        """Wait until the judges' cache of a run holds so many replies: a server is asked again
        before that.
        """
        (path,) = self.folder.rglob("replies.sqlite3")
        deadline = time.monotonic() + 60
        with closing(sqlite3.connect(path)) as connection:
            while connection.execute("SELECT count(*) FROM judge_replies").fetchone() != (count,):
                assert time.monotonic() < deadline
                time.sleep(0.01)

    def _environment(self):
        return {
            **{
                name: os.environ[name] for name in os.environ if not name.startswith(_NOT_INHERITED)
            },
            "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]),
            "PYTHONPATH": os.pathsep.join(map(str, (self.plugins, TESTS, STARTUP, PACKAGE))),
            "PYTHONWARNINGS": "ignore",
            "ACCELERATE_USE_CPU": "true",
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HOME": str(self.folder / "hf"),
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }


@cache
def _server():
    """The fork server of this process, which is one of pytest's workers."""
    return ForkServer(Workplace(folder=Path())._environment())


def _result(status, output):
    return CommandResult(
        status=status, output=_COLOURS.sub("", output.decode("utf-8")), has_codes=b"\x1b" in output
    )


def _details(path):
    saved = json.loads(path.read_text(encoding="utf-8"))
    aliases = {task: of_task.get("task_alias", task) for task, of_task in saved["configs"].items()}
    return {
        (aliases[task], metric): str("nan" if value is None else value)
        for task, values in saved.get("mmie_tasks", {}).items()
        for metric, value in values.items()
    }


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
