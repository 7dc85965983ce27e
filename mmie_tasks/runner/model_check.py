"""Checks whether the runner can import a model, for ``mmie-tasks doctor --model``.

The model's class is imported in a process of its own, through the runner's registry as in a run.
That takes seconds, and may print, hang or crash; doctor goes on nevertheless.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from mmie_tasks.preflight.findings import Finding

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
}
"""Modules that models of lmms-eval 0.7.3 import, and their packages on PyPI, where the names
differ.
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
        name: As after the runner's ``--model``.
        environment: Of the process that imports it.
        pair: The arguments of `interleaved`, and the tasks: see `check_pair`.
        timeout_s: The process is killed after this time.
    """
    program = ("mmie_tasks.runner.pair_check", *pair) if pair else (__name__, name)
    with tempfile.TemporaryFile() as output:  # processes of the import may hold a pipe open
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
        similar = difflib.get_close_matches(name, names, n=5, cutoff=0.3)
        message = "lmms-eval has no model of this name"
        close = ", ".join(f"`{one}`" for one in similar)
        yield _problem(name, message, f"similar names: {close}; all: `lmms-eval models`")
        return
    class_path = REGISTRY.resolve(name).class_path
    try:
        model = REGISTRY.get_model_class(name)
    except ImportError as error:
        yield _import_problem(name, class_path, error)
        return
    yield Finding("ok", f"model {name}", f"`{class_path}` can be imported")
    for module in _missing_modules(model, class_path):
        message = f"its code imports `{module}`, which is not installed, and probably needs it"
        yield Finding("warning", f"model {name}", message, _install_hint(module))


def _missing_modules(model: type, class_path: str) -> list[str]:
    """What the modules of a class and of its bases import anywhere and is not installed.

    Many models of lmms-eval catch the error of an import and fail when they are used.
    """
    imported: set[str] = set()
    modules = {class_path.rpartition(".")[0], *(cls.__module__ for cls in model.__mro__)}
    for module in modules - {"builtins", "abc"}:
        for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
            match node:
                case ast.Import(names=aliases):
                    imported.update(alias.name for alias in aliases)
                case ast.ImportFrom(module=str(name), level=0):
                    imported.add(name)
                case ast.Call(ast.Name("optional_import"), [ast.Constant(str(name)), *_]):
                    imported.add(name)  # the runner's function (``imports.py``)
    names = {name if name in _PACKAGES else name.partition(".")[0] for name in imported}
    return sorted(name for name in names - _OPTIONAL if not _is_installed(name))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # its package is missing; a module without a spec
        return module in sys.modules


def _import_problem(name: str, class_path: str, error: ImportError) -> Finding:
    module = error.name or ""
    if f"{class_path}.".startswith(f"{module}.") and isinstance(error, ModuleNotFoundError):
        message = f"it is registered as `{class_path}`, which does not exist"
        return _problem(name, message, "nothing can be installed for it: choose another model")
    if isinstance(error, ModuleNotFoundError):
        message = f"it needs the module `{module}`, which is not installed"
        return _problem(name, message, _install_hint(module))
    try:
        release = f"`{module}` {version(module)}"
    except (PackageNotFoundError, ValueError):
        return _problem(name, "importing it fails")
    hint = f"install the release that the model's page names; {_look_hint(name)}"
    return _problem(name, f"its code does not fit the installed {release}", hint)


def _problem(name: str, message: str, hint: str | None = None) -> Finding:
    return Finding("problem", f"model {name}", message, hint or _look_hint(name))


def _install_hint(module: str) -> str:
    package = _PACKAGES.get(module, module)
    return f"the model's page names the package, probably `pip install {package}`"


def _look_hint(name: str) -> str:
    return (
        'to see the error: `python -c "from lmms_eval.models import get_model; '
        f'get_model({name!r})"`'
    )
