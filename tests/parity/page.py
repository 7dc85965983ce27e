"""The table of comparisons, and the page ``docs/parity.md``."""

from __future__ import annotations

import platform
from collections.abc import Sequence
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


def results(rows: Sequence[Row]) -> str:
    """The table and its notes, in Markdown."""
    cells, notes = [], []
    for check, comparison in rows:
        if comparison is None:
            cells.append([check.source, check.compares, "", "not run", ""])
            continue
        mark = ""
        if comparison.known or comparison.note:
            mark = f" ({len(notes) + 1})"
            parts = [f"{name}: {why}" for name, why in comparison.known.items()]
            parts += filter(None, [comparison.note])
            notes.append(f"({len(notes) + 1}) {'; '.join(parts)}.")
        counts = (comparison.total, comparison.total - comparison.different, comparison.different)
        cells.append([check.source, check.compares + mark, *map("{:,}".format, counts)])
    alignment = ("left", "left", "right", "right", "right")
    table = tabulate(cells, HEADERS, tablefmt="pipe", colalign=alignment)
    return "\n\n".join([table, "  \n".join(notes)])


def page(rows: Sequence[Row]) -> str:
    """The page, with the date and the versions of this environment."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    variables = " ".join(f"{source.variable}=..." for source in SOURCES)
    return TEMPLATE.format(
        date=datetime.now(timezone.utc).date().isoformat(),
        versions=f"{versions}, Python {platform.python_version()}",
        results=results(rows),
        sources="\n".join(
            f"| [{source.repository}](https://github.com/{source.repository}) | `{source.commit}` "
            f"| {source.size} | {source.licence} | `{source.variable}` |"
            for source in SOURCES
        ),
        answers=ANSWERS,
        variables=fill(variables, 64, subsequent_indent="  ").replace("\n", " \\\n"),
    )


TEMPLATE = """\
# Parity: real answers and real judge replies, scored again

Written by `make parity` on {date}, with {versions}.

{results}

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
