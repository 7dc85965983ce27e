"""Folders import only folders below them; scoring is pure. Read from the source, not by importing.

The order of the folders is that of CONTRIBUTING.md. Imports inside functions count.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path, PurePosixPath

import pytest

import mmie_tasks

PACKAGE = Path(mmie_tasks.__file__).parent

LAYERS = (
    ("core",),
    ("record",),
    ("hub",),
    ("http",),
    ("judges", "answers"),
    ("drawing",),
    ("benchmarks",),
    ("preflight",),
    ("results",),
    ("runner",),
    ("cli", "extend"),
    ("__main__", "__init__"),
)
"""From the lowest to the highest. Folders of one layer do not import each other."""

ENVIRONMENT = {"os.environ", "os.environb", "os.getenv", "environ", "getenv"}

RANK = {folder: rank for rank, folders in enumerate(LAYERS) for folder in folders}

PURE = ("sample.py", "prompts.py", "official.py", "robust.py", "metrics.py")
"""Files of a benchmark that may import the standard library and `PURE_IMPORTS` only."""

PURE_IMPORTS = (
    "mmie_tasks.answers.thinking",
    "mmie_tasks.benchmarks.data_row",
    "mmie_tasks.benchmarks.reply_text",
    "mmie_tasks.benchmarks.text_answer",
    "mmie_tasks.core.errors",  # of which `BadSample`
    "mmie_tasks.core.messages",
    "mmie_tasks.core.wording",
    "mmie_tasks.core.verdict",
    "mmie_tasks.record.facts",
    "mmie_tasks.record.metrics",
    "mmie_tasks.record.record",
    "mmie_tasks.record.reply",
    "mmie_tasks.record.rows",
    "mmie_tasks.record.segment",
    "pydantic",
    "typing_extensions",
)


@cache
def trees() -> dict[PurePosixPath, ast.Module]:
    """The files of our package, by their paths in it."""
    return {
        PurePosixPath(path.relative_to(PACKAGE).as_posix()): ast.parse(path.read_text("utf-8"))
        for path in PACKAGE.rglob("*.py")
    }


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Every imported name with its module, also inside functions and under TYPE_CHECKING."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level + (node.module or "")
            yield from (f"{prefix}.{alias.name}" for alias in node.names)


def is_inside(name: str, *modules: str) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def reads_environment_at_import(node: ast.AST) -> bool:
    """Whether code that runs when the module is imported, not in a function, names it."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        children = [*node.decorator_list, node.args]
    elif isinstance(node, ast.Lambda):
        children = [node.args]
    else:
        children = list(ast.iter_child_nodes(node))
    return (
        isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) in ENVIRONMENT
    ) or any(map(reads_environment_at_import, children))


def may_import(path: PurePosixPath, name: str) -> bool:
    """Whether the file at this path in our package may import this name."""
    match path.parts:
        case ["benchmarks", benchmark, file] if file in PURE:
            own = [f"mmie_tasks.benchmarks.{benchmark}.{pure.removesuffix('.py')}" for pure in PURE]
            standard = name.partition(".")[0] in sys.stdlib_module_names
            return standard or is_inside(name, *own, *PURE_IMPORTS)
        case ["core", "verdict.py"]:
            return name.partition(".")[0] in sys.stdlib_module_names
    if is_inside(name, "lmms_eval"):
        return path.parts[0] == "runner"
    if not is_inside(name, "mmie_tasks"):
        return not name.startswith(".")
    own_folder, folder = path.parts[0].removesuffix(".py"), name.split(".")[1]
    return own_folder == folder or RANK[own_folder] > RANK[folder]


def violations(path: PurePosixPath, tree: ast.AST) -> list[str]:
    imports = dict.fromkeys(imported_modules(tree))
    broken = [f"imports {name}" for name in imports if not may_import(path, name)]
    if path.parts[0].removesuffix(".py") not in RANK:
        broken.append("has no layer")
    if reads_environment_at_import(tree):
        broken.append("reads the environment at import")
    return broken


def addresses_in_texts(tree: ast.AST) -> Iterator[str]:
    """The modules that texts such as ``mmie_tasks.judges.replay:ReplayJudge`` name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            module, colon, function = node.value.partition(":")
            if colon and function.isidentifier() and is_inside(module, "mmie_tasks"):
                yield module


def test_no_file_imports_itself_through_others() -> None:
    """Imports for types, inside functions and by an address in a text count, too."""
    modules = {
        ".".join(("mmie_tasks", *path.with_suffix("").parts)).removesuffix(".__init__"): tree
        for path, tree in trees().items()
    }
    graph = {}
    for module, tree in modules.items():
        names = [*imported_modules(tree), *addresses_in_texts(tree)]
        imported = {name if name in modules else name.rpartition(".")[0] for name in names}
        graph[module] = imported & modules.keys() - {module}
    assert len(graph) > 100
    TopologicalSorter(graph).prepare()  # raises CycleError


def type_names(tree: ast.AST) -> Iterator[str]:
    """The names of classes and of type aliases, without a leading underscore."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name):
                yield name.lstrip("_")
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                yield name.lstrip("_")


def test_no_class_name_stands_for_two_things() -> None:
    modules: dict[str, set[PurePosixPath]] = {}
    for path, tree in trees().items():
        for name in type_names(tree):
            modules.setdefault(name, set()).add(path)
    assert len(modules) > 300
    assert modules.keys() > {"Record", "ScoreKind"}
    doubled = {name for name, paths in modules.items() if len(paths) > 1}
    assert doubled == set()


def test_every_module_keeps_the_rules() -> None:
    broken = {path: found for path, tree in trees().items() if (found := violations(path, tree))}
    assert broken == {}


@pytest.mark.parametrize(
    ("path", "source"),
    [
        pytest.param("benchmarks/a/official.py", "import numpy", id="scoring-takes-a-library"),
        pytest.param("benchmarks/a/robust.py", "from mmie_tasks.core import files", id="scoring"),
        pytest.param(
            "benchmarks/a/prompts.py", "from mmie_tasks.benchmarks.b import sample", id="neighbour"
        ),
        pytest.param("judges/x.py", "from mmie_tasks.answers import parsing", id="same-layer"),
        pytest.param("hub/x.py", "from mmie_tasks.judges import base", id="upwards"),
        pytest.param("judges/x.py", "def f():\n    import lmms_eval", id="runner-in-a-function"),
        pytest.param(
            "core/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mmie_tasks import hub",
            id="for-types-only",
        ),
        pytest.param("core/files.py", "import os\nHOME = os.environ['HOME']", id="environ"),
    ],
)
def test_a_violation_is_found(path: str, source: str) -> None:
    assert len(violations(PurePosixPath(path), ast.parse(source))) == 1
