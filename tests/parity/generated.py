"""Cases that we made up with a fixed seed, and the recorded digests of the official outputs.

The official code runs only where the user has a clone; the digests let our tests compare with it
everywhere. ``python -m parity --record`` writes them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.golden import GOLDEN, vectors

from parity.comparison import Check, Comparison, Folders, compared

FILE = "parity_digests"


@dataclass(frozen=True, slots=True)
class Generated:
    """Generated cases, with an output of either side for each.

    Attributes:
        name: In the file of digests.
        source: The official code.
        variable: Of the source's folder.
        official: The official outputs, from the folder; values of JSON.
        ours: Our outputs.
    """

    name: str
    source: str
    variable: str
    official: Callable[[Path], Sequence[object]]
    ours: Callable[[], Sequence[object]]

    def check(self, source: str, compares: str, note: str = "") -> Check:
        """The row of the table.

        Args:
            source: See `Check`.
            compares: See `Check`.
            note: With the field ``{texts}``, for the number of official outputs that are texts.
        """

        def run(folders: Folders) -> Comparison:
            pairs = zip(self.official(folders[self.variable]), self.ours(), strict=True)
            cases = [(f"case {n}", theirs, ours) for n, (theirs, ours) in enumerate(pairs)]
            texts = sum(isinstance(theirs, str) for _, theirs, _ in cases)
            return compared(cases, note=note.format(texts=f"{texts:,}"))

        return Check(source, compares, (self.variable,), run)


def digest(outputs: Iterable[object]) -> str:
    """SHA-256 of the outputs, one line of JSON each."""
    sha256 = hashlib.sha256()
    for output in outputs:
        sha256.update(json.dumps(output, sort_keys=True).encode() + b"\n")
    return sha256.hexdigest()


def recorded() -> Mapping[str, Mapping[str, object]]:
    """Name to source, number of cases and digest."""
    return vectors(FILE)["digests"]  # type: ignore[no-any-return]


def record(cases: Iterable[Generated], folders: Mapping[str, Path]) -> None:
    """Write the digests of the official outputs; those of other folders stay."""
    digests = dict(recorded())
    for case in cases:
        if case.variable in folders:
            outputs = case.official(folders[case.variable])
            digests[case.name] = {
                "source": case.source,
                "n": len(outputs),
                "sha256": digest(outputs),
            }
    content = json.dumps({"digests": dict(sorted(digests.items()))}, indent=1)
    (GOLDEN / f"{FILE}.json").write_text(content + "\n", encoding="utf-8")


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Environment variables for a while."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
