"""How a MIA-Bench verdict is asked for: the official text, then the image.

The official text (notebook of apple/ml-mia-bench at 5422852d, cell 2) is not in our files. The
runner's own ``generate_prompt`` (``tasks/mia_bench/utils.py``) gives it with one word and two
sentences added to its fixed ending; `official` undoes that, and `check` makes sure of the result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

MAX_TOKENS = 2000
"""How long a reply may be, in tokens (notebook, cell 11)."""

Maker: TypeAlias = Callable[[str, Sequence[str], Sequence[int], str], str]
"""Makes the runner's text from an instruction, its components, their weights and the response."""

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
"""Number of components to the SHA-256 of the official and of the runner's text.

Of the instruction ``I``, components ``C1``..``Cn`` worth 1..n points, and the response ``R``.
"""

_WORD = "EXACT "
_ADDED = " Use only numbers"
_NEXT = " Then explain"
_TRAP = f" {_WORD}{_ADDED}{_NEXT}\n"  # a response that quotes what is cut


HINT = "install lmms-eval 0.7.3, or a version of mmie-tasks that knows this lmms-eval"


class OfficialTextChanged(Exception):
    """The runner's text is not the one that the official text can be made from. See `HINT`."""


def official(runner_text: str) -> str:
    """The official text: the runner's without the word and the sentences it adds.

    Cut from the right, because the response stands before the ending and may quote it.

    Raises:
        OfficialTextChanged: The ending is not the one that is known.
    """
    before, word, ending = runner_text.rpartition(_WORD)
    kept, added, rest = ending.partition(_ADDED)
    _, following, reasons = rest.partition(_NEXT)
    for anchor, found in ((_WORD, word), (_ADDED, added), (_NEXT, following)):
        if not found:
            raise OfficialTextChanged(
                f"The runner's MIA-Bench prompt has no {anchor.strip()!r} where it is expected."
            )
    return f"{before}{kept}{following}{reasons}"


def check(make: Maker) -> None:
    """Make sure, once and before anything is judged, that the official text comes out.

    Raises:
        OfficialTextChanged: It does not, or a response does not stand in it as it is.
    """
    for n, (expected, expected_raw) in PROBES.items():
        question = ("I", [f"C{i}" for i in range(1, n + 1)], list(range(1, n + 1)))
        raw = make(*question, "R")
        if (_sha256(official(raw)), _sha256(raw)) != (expected, expected_raw):
            raise OfficialTextChanged(
                f"The runner's MIA-Bench prompt for {n} components is not that of lmms-eval 0.7.3."
            )
        before, _, after = official(make(*question, "\0")).partition("\0")
        if official(make(*question, _TRAP)) != f"{before}{_TRAP}{after}":
            raise OfficialTextChanged("The runner's MIA-Bench prompt changes the response.")


def parts(text: str, image: Path) -> tuple[str | Path, ...]:
    """What the judge is shown, in the order of the notebook (cell 11): the text, then the image."""
    return (text, image)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
