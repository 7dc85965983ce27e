"""What a row of the parity table compares, and how many cases of it are equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Folders: TypeAlias = Mapping[str, Path]
"""Variable of a source to the folder that the user named."""

Case: TypeAlias = tuple[str, object, object]
"""Its name, the official side's value, and ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How many cases are equal, and those that are not.

    Attributes:
        total: Number of cases.
        differences: Name and values of each case that differs for no known reason.
        known: Name of each other case that differs to why it does.
        note: About the cases, for the table.
    """

    total: int
    differences: Sequence[str]
    known: Mapping[str, str]
    note: str

    @property
    def different(self) -> int:
        return len(self.differences) + len(self.known)


@dataclass(frozen=True, slots=True)
class Check:
    """A row of the table.

    Attributes:
        source: Where the official side comes from.
        compares: What is compared.
        needs: Variables of the sources without which it is not run.
        run: Makes the comparison; None if this environment cannot.
    """

    source: str
    compares: str
    needs: tuple[str, ...]
    run: Callable[[Folders], Comparison | None]


def compared(
    cases: Sequence[Case], *, known: Mapping[str, str] | None = None, note: str = ""
) -> Comparison:
    """The comparison of cases; `known` has why a case may differ, by its name."""
    if not cases:
        raise SystemExit("There are no cases to compare.")
    known = known or {}
    different = [case for case in cases if case[1] != case[2]]
    return Comparison(
        total=len(cases),
        differences=[
            f"{name}: {theirs!r:.300} != {ours!r:.300}"
            for name, theirs, ours in different
            if name not in known
        ],
        known={name: known[name] for name, _, _ in different if name in known},
        note=note,
    )
