"""The public artefacts that the parity table compares with; the user fetches them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from support.golden import vectors


@dataclass(frozen=True, slots=True)
class Source:
    """A repository at a commit.

    Attributes:
        variable: Names its folder, as an argument and to ``make parity``.
        repository: On GitHub.
        commit: The first seven hex digits.
        size: Of its files at that commit.
        licence: Of what is used of it.
    """

    variable: str
    repository: str
    commit: str
    size: str
    licence: str

    def check(self, folder: Path) -> None:
        """Check that a folder has the files of this commit, by their SHA-256.

        Raises:
            SystemExit: A file is missing, or of another version.
        """
        for name, sha256 in vectors("parity_sources")["files"][self.variable].items():
            path = folder / name
            where = f"{self.variable}: `{folder}`, not a clone of {self.repository}"
            if not path.is_file():
                raise SystemExit(f"{where}: it has no `{name}`.")
            if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                raise SystemExit(f"{where} at {self.commit}: `{name}` is another version.")


ANSWERS = "eval/milebench/milebench"
"""Folder of the models' answers in V2PE."""

_V2PE_SIZE = "over 2.9 GB, of which the answers used are some 50 MB"
_MIA_LICENCE = "Apple's sample code licence"
SOURCES = (
    Source("OPENING_FOLDER", "LanceZPF/OpenING", "56b663b", "47 MB", "none stated"),
    Source("V2PE_FOLDER", "NipElement/V2PE", "cba1b13", _V2PE_SIZE, "MIT"),
    Source("MILEBENCH_FOLDER", "MileBench/MileBench", "9583e1f", "1.9 MB", "Apache-2.0 (code)"),
    Source("MMIE_FOLDER", "Lillianwei-h/MMIE", "eb0fd6e", "31 kB", "MIT"),
    Source("MIA_FOLDER", "apple/ml-mia-bench", "5422852", "3.3 MB", _MIA_LICENCE),
)
