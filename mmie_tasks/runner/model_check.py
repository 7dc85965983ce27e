"""Checks whether the runner can import a model, for ``mmie-tasks doctor --model``.

The model's class is imported in a process of its own, through the runner's registry as in a run.
That takes seconds, and may print, hang or crash; doctor goes on nevertheless.
"""

from __future__ import annotations

import difflib
import importlib.abc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version

from mmie_tasks.preflight.doctor import Finding

TIMEOUT_S = 300.0  # a first import of torch and transformers from a network drive takes minutes

# A module whose `main` runs, and its arguments, follow. Without the working directory: the runner's
# console script does not search it either.
_PROGRAM = """
import sys
sys.path[:] = filter(None, sys.path)
from importlib import import_module
import_module(sys.argv[1]).main(*sys.argv[2:])
"""

_PACKAGES: Mapping[str, str] = {
    "cv2": "opencv-python-headless",
    "decord": "eva-decord" if sys.platform == "darwin" else "decord",
    "flash_attn": "flash-attn",
    "google.genai": "google-genai",
    "qwen_vl_utils": "qwen-vl-utils",
    **{
        name: name
        for name in ("anthropic", "autopep8", "dashscope", "diffusers", "librosa", "moviepy")
    },
    **{name: name for name in ("sglang", "soundfile", "torchaudio", "ujson", "vllm")},
}
"""Modules that models of lmms-eval 0.7.3 import and lmms-eval may lack, to their packages on PyPI.
"""

_OPTIONAL = frozenset({"decord", "flash_attn", "librosa", "soundfile"})
"""Modules that a model whose import does without them needs for videos, sound or speed only."""


def check_model(
    name: str,
    environment: Mapping[str, str],
    pair: Sequence[str] = (),
    timeout_s: float = TIMEOUT_S,
) -> Sequence[Finding]:
    """The findings on a model: whether its class can be imported, and what is missing.

    Args:
        name: As behind the runner's ``--model``.
        environment: Of the process that imports it.
        pair: The arguments of `interleaved`, and the tasks: see `check_pair`.
        timeout_s: The process is killed after this time.
    """
    program = ("mmie_tasks.runner.pair_check", *pair) if pair else (__name__, name)
    with (
        tempfile.TemporaryFile() as output
    ):  # a pipe could be held open by processes that the import starts
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-c", _PROGRAM, *program],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
        )
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return [_problem(name, f"importing it takes longer than {timeout_s:.0f} s")]
        output.seek(0)
        lines = output.read().splitlines()
    if status or not lines:
        return [_problem(name, "importing it fails")]
    return [Finding(**row) for row in json.loads(lines[-1])]


def main(name: str) -> None:
    """Print the findings of `import_model` as `print_findings`."""
    print_findings(import_model(name))


def print_findings(findings: Iterator[Finding]) -> None:
    """Print findings as one line of JSON, and end the process."""
    with redirect_stdout(sys.stderr):
        rows = [asdict(finding) for finding in findings]
    sys.stdout.write(f"{json.dumps(rows)}\n")
    sys.stdout.flush()
    os._exit(0)  # without what the imported packages have registered for the exit


def import_model(name: str) -> Iterator[Finding]:
    """Import a model's class in this process, and yield the findings.

    An error of the class's module that is no `ImportError` is raised as it is.
    """
    from lmms_eval.models import MODEL_REGISTRY_V2 as REGISTRY

    names = REGISTRY.list_model_names()
    if name not in names:
        similar = difflib.get_close_matches(name, names, n=5) or difflib.get_close_matches(
            name, names, cutoff=0.3
        )
        hint = f"similar names: {', '.join(f'`{close}`' for close in similar)}; " if similar else ""
        yield _problem(
            name, "lmms-eval has no model of this name", f"{hint}all: `lmms-eval models`"
        )
        return
    class_path = REGISTRY.resolve(name).class_path
    recorder = _MissingModules(("lmms_eval", class_path.partition(".")[0]))
    sys.meta_path.append(recorder)
    fatal = ""
    try:
        REGISTRY.get_model_class(name)
        yield Finding("ok", f"model {name}", f"`{class_path}` can be imported")
    except ImportError as error:
        fatal = error.name or ""
        yield _import_problem(name, class_path, error)
    for module in recorder.names:
        if module != fatal:
            message = (
                f"its code tries to import `{module}`, which is not installed, and probably "
                "needs it"
            )
            yield Finding("warning", f"model {name}", message, _install_hint(module))


class _MissingModules(importlib.abc.MetaPathFinder):
    """The last finder on ``sys.meta_path``: notes modules that were not found for code of some
    packages.
    """

    def __init__(self, importers: tuple[str, ...]) -> None:
        self.names: list[str] = []
        self._importers = importers

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        frame = sys._getframe(1)
        while frame.f_back and _package_of(frame.f_globals) in ("importlib", "_frozen_importlib"):
            frame = frame.f_back
        is_package = "." not in fullname or fullname in _PACKAGES
        if (
            is_package
            and fullname not in {*_OPTIONAL, *self.names}
            and _package_of(frame.f_globals) in self._importers
        ):
            self.names.append(fullname)
        return None


def _package_of(module_globals: Mapping[str, object]) -> str:
    return str(module_globals.get("__name__")).partition(".")[0]


def _import_problem(name: str, class_path: str, error: ImportError) -> Finding:
    module = error.name or ""
    if not isinstance(error, ModuleNotFoundError):
        try:
            release = f"`{module}` {version(module)}"
        except (PackageNotFoundError, ValueError):
            return _problem(name, "importing it fails")
        hint = f"install the release that the model's page names; {_look_hint(name)}"
        return _problem(name, f"its code does not fit the installed {release}", hint)
    if f"{class_path}.".startswith(f"{module}."):
        message = f"it is registered as `{class_path}`, which does not exist"
        return _problem(name, message, "nothing can be installed for it: choose another model")
    return _problem(
        name, f"it needs the module `{module}`, which is not installed", _install_hint(module)
    )


def _problem(name: str, message: str, hint: str | None = None) -> Finding:
    return Finding("problem", f"model {name}", message, hint or _look_hint(name))


def _install_hint(module: str) -> str:
    if package := _PACKAGES.get(module):
        return f"`pip install {package}`"
    return f"install the package that has `{module}`: the model's page names it"


def _look_hint(name: str) -> str:
    return (
        'to see the error: `python -c "from lmms_eval.models import get_model; '
        f'get_model({name!r})"`'
    )
