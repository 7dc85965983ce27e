"""One table of all comparisons: ``PYTHONPATH=tests python -m parity VARIABLE=FOLDER ...``.

A row whose folder is not named is "not run". The table is printed and written as a page; the exit
status is 1 if a case differs for no known reason.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from parity import generated, mia_bench, milebench, mmie, mmie_score, opening
from parity.comparison import Check, Comparison, Folders
from parity.page import page, results
from parity.sources import SOURCES

CHECKS: tuple[Check, ...] = (
    *milebench.CHECKS,
    *opening.CHECKS,
    *mmie.CHECKS,
    *mia_bench.CHECKS,
    *mmie_score.CHECKS,
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="parity", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    variables = ", ".join(source.variable for source in SOURCES)
    parser.add_argument("folders", nargs="*", help=f"VARIABLE=FOLDER; variables: {variables}")
    parser.add_argument(
        "--record", action="store_true", help="write the digests that our tests compare with"
    )
    parser.add_argument("--page", type=Path, default=Path("docs/parity.md"))
    options = parser.parse_args(arguments)
    folders = named_folders(options.folders)
    if options.record:
        generated.record((*mmie.GENERATED, *mia_bench.GENERATED), folders)
    rows = [(check, run(check, folders)) for check in CHECKS]
    sys.stdout.write(f"{results(rows)}\n")
    for check, comparison in rows:
        for difference in comparison.differences[:5] if comparison else ():
            sys.stdout.write(f"unexplained: {check.compares}: {difference}\n")
    options.page.write_text(page(rows), encoding="utf-8")
    return int(any(row and row.differences for _, row in rows))


def named_folders(arguments: Sequence[str]) -> Folders:
    """Variable to folder.

    Raises:
        SystemExit: A variable is unknown, or a folder is not the source's.
    """
    folders = {}
    for argument in arguments:
        variable, _, folder = argument.partition("=")
        source = next((source for source in SOURCES if source.variable == variable), None)
        if source is None or not folder:
            raise SystemExit(f"`{argument}` names no folder of a source.")
        folders[variable] = Path(folder).expanduser()
        source.check(folders[variable])
    return folders


def run(check: Check, folders: Folders) -> Comparison | None:
    """The comparison of a check; None if a folder is not named."""
    if not set(check.needs) <= set(folders):
        return None
    start = time.perf_counter()
    comparison = check.run(folders)
    seconds = time.perf_counter() - start
    sys.stderr.write(f"{seconds:6.1f} s  {check.source}: {check.compares}\n")
    return comparison


if __name__ == "__main__":
    sys.exit(main())
