"""The official judge prompt of MIA-Bench.

The official text (notebook of apple/ml-mia-bench at 5422852d, cell 2) is not in our files. The
function ``generate_prompt`` of the installed runner (``tasks/mia_bench/utils.py`` of lmms-eval) has
it, with one word and two sentences added to the fixed ending, which are removed here.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from mmie_tasks.core.errors import DataBroken

MAX_TOKENS = 2000
"""The longest reply, in tokens (notebook, cell 11)."""

SHA256 = "06da824777ee7b849684535ceba598b12dbf11d0c6e2c57b9170c077fc937dd8"
"""Of the source of the runner's function, in lmms-eval 0.7.3."""

_RunnerPrompt: TypeAlias = Callable[[Mapping[str, object], str], str]

_WORD, _ADDED, _NEXT = "EXACT ", " Use only numbers", " Then explain"


@functools.cache
def runner_prompt() -> _RunnerPrompt:
    """The installed runner's function. Its module is not imported, which would take seconds.

    Raises:
        DataBroken: The runner has no such function, or another one.
    """
    spec = find_spec("lmms_eval")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "tasks" / "mia_bench" / "utils.py"
        if path.is_file() and (function := find_function(path.read_text(encoding="utf-8"))):
            names: dict[str, _RunnerPrompt] = {}
            exec(function, names)  # noqa: S102 - the runner's own code, identified by its hash
            return names["generate_prompt"]
    raise DataBroken(
        "The installed lmms-eval does not have MIA-Bench's judge prompt of lmms-eval 0.7.3.",
        hint="install lmms-eval 0.7.3, or a version of mmie-tasks that supports this lmms-eval",
    )


def find_function(source: str) -> str:
    """The text of ``generate_prompt`` in a module; empty unless its SHA-256 is `SHA256`."""
    try:
        nodes = ast.parse(source).body
    except (SyntaxError, ValueError):
        return ""
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and node.name == "generate_prompt":
            text = ast.get_source_segment(source, node) or ""
            return text if hashlib.sha256(text.encode()).hexdigest() == SHA256 else ""
    return ""


def judge_prompt(
    instruction: str, components: Sequence[str], weights: Sequence[int], answer: str
) -> str:
    """The official text about an answer; raises like `runner_prompt`.

    The runner's additions are removed from the right, because the answer comes before the ending
    and may quote it.
    """
    fields = {
        "instruction": instruction,
        "components": list(components),
        "component_weight": list(weights),
        "num_of_component": len(components),
    }
    before, _, ending = runner_prompt()(fields, answer).rpartition(_WORD)
    middle, _, additions = ending.partition(_ADDED)
    return f"{before}{middle}{additions[additions.index(_NEXT) :]}"
