"""Cases that we made up with a fixed seed, and the recorded digests of the official outputs.

The official code runs only where the user has a clone; the digests let our tests compare with it
everywhere. ``python -m parity --record`` writes them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
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
        """The row of the table; a field ``{texts}`` of the note is the number of official outputs
        that are texts.
        """

        def run(folders: Folders) -> Comparison:
            pairs = zip(self.official(folders[self.variable]), self.ours(), strict=True)
            cases = [(f"case {n}", theirs, ours) for n, (theirs, ours) in enumerate(pairs)]
            texts = sum(isinstance(theirs, str) for _, theirs, _ in cases)
            return compared(cases, note=note.format(texts=f"{texts:,}"))

        return Check(source, compares, (self.variable,), run)

    def recorded(self, outputs: Sequence[object]) -> dict[str, object]:
        """The entry of these outputs in the file of digests: one line of JSON each, hashed."""
        lines = "".join(f"{json.dumps(output, sort_keys=True)}\n" for output in outputs)
        sha256 = hashlib.sha256(lines.encode()).hexdigest()
        return {"source": self.source, "n": len(outputs), "sha256": sha256}


def record(cases: Iterable[Generated], folders: Folders) -> None:
    """Write the digests of the official outputs; those of other folders stay."""
    digests = dict(vectors(FILE)["digests"])
    for case in cases:
        if case.variable in folders:
            digests[case.name] = case.recorded(case.official(folders[case.variable]))
    content = json.dumps({"digests": dict(sorted(digests.items()))}, indent=1)
    (GOLDEN / f"{FILE}.json").write_text(content + "\n", encoding="utf-8")
