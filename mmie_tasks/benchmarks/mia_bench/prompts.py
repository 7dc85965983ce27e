"""The official judge prompt of MIA-Bench.

The official text (notebook of apple/ml-mia-bench at 5422852d, cell 2) is not in our files. The
runner's ``generate_prompt`` (``tasks/mia_bench/utils.py``) has it with one word and two sentences
added to the fixed ending. `runner_prompt` reads that function as data, `official` removes the
additions, and `check` verifies the result.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

MAX_TOKENS = 2000
"""The longest reply, in tokens (notebook, cell 11)."""

PromptMaker: TypeAlias = Callable[[str, Sequence[str], Sequence[int], str], str]
"""Makes the runner's text from instruction, components, weights and response."""

PROBES = {
    1: (
        "e2d72e796f7ab67335131fab2e6750fd9a2cbbba6b87518210c1de9f483a962e",
        "7765de40a77fc6a90a80dd03fb074c30cebdebd41585dbcaae5c482fefda07ff",
    ),
    2: (
        "643f3b1498dce99287e5cf637e56cff9eeb76873624f25d0bac9bb80db6fb650",
        "00450c620dccbcb50ffc70360f0ac24bb9c85401163ab2d1bd82754b8267815d",
    ),
    3: (
        "e7c9210e50f408efaf917e03c1c05ca26af7f925f5d6a607b916f3ecee9cf079",
        "fca89a6aeb93fbde7726402947ec234e4d838814c939c32ad8ac2a21d393aa5d",
    ),
    4: (
        "a31992e5b299e2145881c77ef37756ae24bce52c7f796369474b107be61035d8",
        "b5dd359929ae9ff52c8b7d707a5dad10a1fc685267c50d24593712c8457ed770",
    ),
    5: (
        "cfca6244810c6f7753da8524bd227d3ec3765e1881107125adea1f62da07161b",
        "598977f0944d07cb03e3198f545a5ee5af381d56f5365cf0ae022e6ca9a3cc96",
    ),
}
"""Number of components to the SHA-256 of the official and the runner's text for the instruction
``I``, components ``C1``..``Cn`` worth 1..n points, and the response ``R``.
"""

_WORD = "EXACT "
_ADDED = " Use only numbers"
_NEXT = " Then explain"
_QUOTED_ENDING = f" {_WORD}{_ADDED}{_NEXT}\n"  # a response that quotes the removed text

HINT = "install lmms-eval 0.7.3, or a version of mmie-tasks that supports this lmms-eval"


class OfficialTextChanged(Exception):
    """The official text cannot be made from the runner's file (see `HINT`)."""


def runner_prompt(source: str) -> PromptMaker:
    """The prompt maker in the source of ``tasks/mia_bench/utils.py``, without running it.

    In lmms-eval 0.7.3, ``generate_prompt`` is an ``if`` chain on the number of components whose
    branches assign ``components`` and ``score``, then a ``return``. All three are sums of text
    constants, ``instruction``, ``response`` and subscripts.

    Raises:
        OfficialTextChanged: The source has no such function.
    """
    try:
        body = next(
            node.body
            for node in ast.parse(source).body
            if isinstance(node, ast.FunctionDef) and node.name == "generate_prompt"
        )
    except (SyntaxError, ValueError, StopIteration) as error:
        raise OfficialTextChanged("This lmms-eval has no MIA-Bench prompt.") from error
    branches = {count: branch for node in body for count, branch in _branches(node)}
    whole = next((node.value for node in body if isinstance(node, ast.Return)), None)

    def make(
        instruction: str, components: Sequence[str], weights: Sequence[int], response: str
    ) -> str:
        if len(components) not in branches or whole is None:
            raise OfficialTextChanged(
                f"The runner's MIA-Bench prompt has no form for {len(components)} components."
            )
        lists = {"components": list(components), "weight": [str(weight) for weight in weights]}
        names = {"instruction": instruction, "response": response}
        for name, value in branches[len(components)].items():
            names[name] = _text(value, names, lists)
        return _text(whole, names, lists)

    return make


def _branches(node: ast.stmt) -> Iterator[tuple[int, dict[str, ast.expr]]]:
    """Number of components and assignments, for each branch of an ``if`` chain."""
    match node:
        case ast.If(test=ast.Compare(comparators=[ast.Constant(value=int(count))])):
            assigned: dict[str, ast.expr] = {}
            for statement in node.body:
                match statement:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value):
                        assigned[name] = value
            yield count, assigned
            for statement in node.orelse:
                yield from _branches(statement)


def _text(node: ast.expr, names: dict[str, str], lists: dict[str, list[str]]) -> str:
    """The value of a sum of constants, names and subscripts."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left, names, lists) + _text(right, names, lists)
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Subscript(
            value=ast.Name(id=name) | ast.Subscript(slice=ast.Constant(value=str(name))),
            slice=ast.Constant(value=int(index)),
        ) if name in lists and index < len(lists[name]):
            return lists[name][index]
    raise OfficialTextChanged(
        f"The runner's MIA-Bench prompt cannot be made: `{ast.unparse(node)[:80]}`."
    )


def official(runner_text: str) -> str:
    """The runner's text without its added word and sentences.

    They are removed from the right, because the response comes before the ending and may quote it.

    Raises:
        OfficialTextChanged: The ending has another form.
    """
    before, word, ending = runner_text.rpartition(_WORD)
    middle, added, additions = ending.partition(_ADDED)
    _, following, reasons = additions.partition(_NEXT)
    for anchor, match in ((_WORD, word), (_ADDED, added), (_NEXT, following)):
        if not match:
            raise OfficialTextChanged(
                f"The runner's MIA-Bench prompt has no {anchor.strip()!r} where it is expected."
            )
    return f"{before}{middle}{following}{reasons}"


def check(make: PromptMaker) -> None:
    """Checks the official text against `PROBES`.

    Raises:
        OfficialTextChanged: The text differs, or changes the response.
    """
    for count, (expected, expected_runner) in PROBES.items():
        components = [f"C{number}" for number in range(1, count + 1)]
        weights = list(range(1, count + 1))
        text = make("I", components, weights, "R")
        if (_sha256(official(text)), _sha256(text)) != (expected, expected_runner):
            raise OfficialTextChanged(
                f"The runner's MIA-Bench prompt for {count} components is not that of lmms-eval "
                "0.7.3."
            )
        before, _, after = official(make("I", components, weights, "\0")).partition("\0")
        if (
            official(make("I", components, weights, _QUOTED_ENDING))
            != f"{before}{_QUOTED_ENDING}{after}"
        ):
            raise OfficialTextChanged("The runner's MIA-Bench prompt changes the response.")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
