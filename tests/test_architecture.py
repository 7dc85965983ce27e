"""Who may import whom: DESIGN.md, section 1. Read from the source, never by importing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

import mmie_tasks

PACKAGE = Path(mmie_tasks.__file__).parent
KNOW_NO_BENCHMARK = frozenset(
    (
        *("judges", "runs", "report", "agreement", "comparison", "subset", "rescoring"),
        *("prefetching", "doctor", "figures.py", "review.py", "rooms.py", "logged.py"),
    )
)
"""They go through a room's modules, so that a benchmark of another package is like ours."""


def imported(tree: ast.AST) -> Iterator[str]:
    """Every name that is imported, with its module, anywhere: also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{n.name}" for n in node.names)


def inside(name: str, *modules: str) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def runs_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a module that run when it is imported: not what is in functions."""
    yield node
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        parts = [*node.decorator_list, node.args]
    elif isinstance(node, ast.Lambda):
        parts = [node.args]
    else:
        parts = list(ast.iter_child_nodes(node))
    for part in parts:
        yield from runs_at_import(part)


def reads_environment(tree: ast.AST) -> bool:
    spellings = {"os.environ", "os.environb", "os.getenv", "environ", "getenv"}
    return any(
        ast.unparse(node) in spellings
        for node in runs_at_import(tree)
        if isinstance(node, (ast.Name, ast.Attribute))
    )


def may_import(place: PurePosixPath, name: str) -> bool:
    """Whether the file at this place of our package may import this name."""
    match place.parts:
        case ["benchmarks", room, "sample.py" | "prompts.py" | "scoring.py" | "scoring", *_]:
            own = f"mmie_tasks.benchmarks.{room}"
            allowed = (
                "mmie_tasks.core.verdict",
                "mmie_tasks.runs.replies",
                f"{own}.sample",
                f"{own}.scoring",
            )
            return name.partition(".")[0] in sys.stdlib_module_names or inside(name, *allowed)
        case ["replies.py" | "verdict.py" | "tiles.py"]:  # as pure as what imports them
            return name.partition(".")[0] in sys.stdlib_module_names
        case [first, *_] if first in KNOW_NO_BENCHMARK and inside(name, "mmie_tasks.benchmarks"):
            return False
    if inside(name, "lmms_eval"):
        return place.parts[0] in {"runner", "cli.py"}
    if inside(name, "mmie_tasks.runner"):
        names_a_yaml_function = place.parts[0] == "benchmarks" and place.name == "task.py"
        return place.parts[0] in {"runner", "cli.py", "__main__.py"} or names_a_yaml_function
    return True


def broken_rules(place: PurePosixPath, source: str) -> list[str]:
    tree = ast.parse(source)
    broken = [f"imports {name}" for name in imported(tree) if not may_import(place, name)]
    return [*broken, "reads the environment at import"] if reads_environment(tree) else broken


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=str(path.relative_to(PACKAGE))) for path in PACKAGE.rglob("*.py")],
)
def test_every_module_keeps_the_rules(path: Path) -> None:
    place = PurePosixPath(path.relative_to(PACKAGE).as_posix())
    assert broken_rules(place, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("place", "source"),
    [
        pytest.param("benchmarks/a/scoring.py", "import numpy", id="scoring-takes-a-library"),
        pytest.param("benchmarks/a/scoring/x.py", "from mmie_tasks import paths", id="scoring"),
        pytest.param("benchmarks/a/sample.py", "from . import task", id="relative"),
        pytest.param("replies.py", "from mmie_tasks import paths", id="what-scoring-imports"),
        pytest.param(
            "benchmarks/a/prompts.py", "from mmie_tasks.benchmarks.b import sample", id="neighbour"
        ),
        pytest.param(
            "benchmarks/a/prompts.py", "from mmie_tasks.benchmarks.a import task", id="task"
        ),
        pytest.param("judges/x.py", "import mmie_tasks.benchmarks.a.sample", id="judge"),
        pytest.param("report/x.py", "from mmie_tasks.benchmarks.a import review", id="report"),
        pytest.param("figures.py", "import mmie_tasks.benchmarks.a.benchmark", id="figures"),
        pytest.param("judging.py", "def f():\n    import lmms_eval", id="runner-in-a-function"),
        pytest.param("__main__.py", "from lmms_eval import cli", id="main-takes-the-runner"),
        pytest.param("sources/a.py", "from mmie_tasks.runner import plugin", id="our-runner"),
        pytest.param("paths.py", "import os\nHOME = os.environ['HOME']", id="environ"),
        pytest.param("paths.py", "from os import getenv\nclass A:\n    b = getenv('')", id="class"),
        pytest.param("paths.py", "import os\ndef f(a=os.environ): ...", id="default-of-parameter"),
    ],
)
def test_who_breaks_a_rule_is_caught(place: str, source: str) -> None:
    assert len(broken_rules(PurePosixPath(place), source)) == 1


@pytest.mark.parametrize(
    ("place", "source"),
    [
        pytest.param(
            "benchmarks/a/scoring/x.py",
            "import re\nfrom mmie_tasks.core.verdict import Scored\n"
            "from mmie_tasks.benchmarks.a.sample import Sample\n"
            "from mmie_tasks.benchmarks.a.scoring import y",
            id="scoring",
        ),
        pytest.param("benchmarks/a/task.py", "from mmie_tasks.runner import x", id="task"),
        pytest.param("cli.py", "def f():\n    from lmms_eval.cli import dispatch", id="cli"),
        pytest.param("judges/x.py", "import openai", id="judge"),
        pytest.param("paths.py", "import os\ndef f():\n    return os.environ", id="environ"),
    ],
)
def test_who_keeps_the_rules_is_left_alone(place: str, source: str) -> None:
    assert broken_rules(PurePosixPath(place), source) == []
