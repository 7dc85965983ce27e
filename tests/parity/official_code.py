"""Runs functions of an official script in the user's clone, without the rest of the script."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def notebook_code(path: Path) -> str:
    """The code of a notebook, without the lines that only Jupyter understands."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    lines = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return "\n".join(line for line in lines.split("\n") if not line.startswith("%"))


def definitions(source: str, *names: str, **namespace: object) -> dict[str, Any]:
    """The namespace in which the named functions and classes of a script were defined.

    Args:
        source: The script.
        names: Of functions and classes at the script's top level.
        namespace: What they use: the modules that the script imports.
    """
    body = [
        node
        for node in ast.parse(source).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in names
    ]
    if missing := set(names) - {node.name for node in body}:
        raise SystemExit(f"The official script has no {', '.join(sorted(missing))}.")
    return execute(body, namespace)


def statements_from(source: str, name: str) -> list[ast.stmt]:
    """The top-level statements of a script from the first assignment to a variable to the end."""
    body = ast.parse(source).body
    for number, node in enumerate(body):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                return body[number:]
    raise SystemExit(f"The official script has no variable `{name}`.")


def execute(body: Sequence[ast.stmt], namespace: Mapping[str, object]) -> dict[str, Any]:
    """The namespace after running statements in a copy of it."""
    result = dict(namespace)
    code = compile(ast.Module(body=list(body), type_ignores=[]), "official code", "exec")
    exec(code, result)  # noqa: S102 - the user's clone, checked by hash
    return result
