"""The table of comparisons as text and as the page ``docs/parity.md``."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from textwrap import fill
from typing import TypeAlias

from tabulate import tabulate

from parity.comparison import Check, Comparison
from parity.sources import ANSWERS, SOURCES

Row: TypeAlias = "tuple[Check, Comparison | None]"

HEADERS = ("source", "what is compared", "n", "equal", "different")
PACKAGES = ("mmie-tasks", "lmms-eval", "transformers", "numpy", "pillow", "rouge")
NOT_RUN = "not run"


def text_table(rows: Sequence[Row]) -> str:
    """The table, then the cases that differ."""
    lines = [tabulate(_cells(rows), HEADERS, colalign=("left", "left", *["right"] * 3)), ""]
    lines += [f"{note}" for note in _notes(rows)]
    for check, comparison in rows:
        if comparison and comparison.differences:
            lines += [f"{check.compares}: {len(comparison.differences)} unexplained"]
            lines += [f"  {difference}" for difference in comparison.differences[:5]]
    return "\n".join([*lines, ""])


def page(rows: Sequence[Row]) -> str:
    """The page, with the date and the versions of this environment."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    date = datetime.now(timezone.utc).date().isoformat()
    table = tabulate(
        _cells(rows), HEADERS, tablefmt="pipe", colalign=("left", "left", *["right"] * 3)
    )
    notes = "\n".join(_notes(rows)).replace("\n", "  \n")
    variables = " ".join(f"{source.variable}=..." for source in SOURCES)
    return TEMPLATE.format(
        date=date,
        versions=f"{versions}, Python {platform.python_version()}",
        table=table,
        notes=notes,
        sources="\n".join(_source_rows()),
        answers=ANSWERS,
        variables=fill(variables, 64, subsequent_indent="  ").replace("\n", " \\\n"),
    )


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    numbers = iter(range(1, len(rows) + 1))
    cells = []
    for check, comparison in rows:
        if comparison is None:
            counts = ["", NOT_RUN, ""]
        else:
            equal = comparison.total - comparison.different
            counts = [f"{count:,}" for count in (comparison.total, equal, comparison.different)]
        mark = f" ({next(numbers)})" if comparison and _has_note(comparison) else ""
        cells.append([check.source, check.compares + mark, *counts])
    return cells


def _has_note(comparison: Comparison) -> bool:
    return bool(comparison.note or comparison.known)


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    with_note = [row for _, row in rows if row and _has_note(row)]
    for number, comparison in enumerate(with_note, start=1):
        parts = [f"{name}: {why}" for name, why in comparison.known.items()]
        yield f"({number}) " + "; ".join([*parts, *filter(None, [comparison.note])]) + "."


def _source_rows() -> Iterator[str]:
    for source in SOURCES:
        yield (
            f"| [{source.repository}](https://github.com/{source.repository}) | `{source.commit}` "
            f"| {source.size} | {source.licence} | `{source.variable}` |"
        )


TEMPLATE = """\
# Parity: real answers and real judge replies, scored again

Written by `make parity` on {date}, with {versions}.

{table}

{notes}

Readers, scorers, averages and requests are compared with the official ones: on real answers and
replies where a source has them, otherwise on cases that we made up ("made-up"). No model was run,
and no judge was asked. MMIE and MIA-Bench publish neither answers nor replies: the SHA-256 of what
their official code makes of our cases is in `tests/golden/parity_digests.json`, with which `make
test` compares.

## Sources

Nothing of them is in this repository. Clone each at its commit (`git clone
https://github.com/OWNER/NAME`, `git -C NAME checkout COMMIT`); of V2PE `internvl2_2b` and
`internvl2_5_8b` below `{answers}` are enough (`--filter=blob:none --sparse`). A
source that is not named is "not run"; a folder that lacks a file of its source is an error.

| repository | commit | size | licence | variable |
| --- | --- | --- | --- | --- |
{sources}

```
make parity {variables}
```
"""
