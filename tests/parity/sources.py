"""The public artefacts that the parity table compares with; the user fetches them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.golden import vectors


@dataclass(frozen=True, slots=True, kw_only=True)
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

    @property
    def files(self) -> Mapping[str, str]:
        """Path in the folder to the SHA-256 of the file, of files that must be there."""
        files: Mapping[str, str] = vectors("parity_sources")["files"][self.variable]
        return files

    def check(self, folder: Path) -> None:
        """Check that a folder has the files of this commit.

        Raises:
            SystemExit: A file is missing, or of another version.
        """
        for name, sha256 in self.files.items():
            path = folder / name
            where = f"{self.variable}: `{folder}`, not a clone of {self.repository}"
            if not path.is_file():
                raise SystemExit(f"{where}: it has no `{name}`.")
            if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                raise SystemExit(f"{where} at {self.commit}: `{name}` is another version.")


ANSWERS = "eval/milebench/milebench"
"""Folder of the models' answers in V2PE."""

SOURCES = (
    Source(
        variable="OPENING_FOLDER",
        repository="LanceZPF/OpenING",
        commit="56b663b",
        size="47 MB",
        licence="none stated",
    ),
    Source(
        variable="V2PE_FOLDER",
        repository="NipElement/V2PE",
        commit="cba1b13",
        size="over 2.9 GB, of which the answers used are some 50 MB",
        licence="MIT",
    ),
    Source(
        variable="MILEBENCH_FOLDER",
        repository="MileBench/MileBench",
        commit="9583e1f",
        size="1.9 MB",
        licence="Apache-2.0 (code)",
    ),
    Source(
        variable="MMIE_FOLDER",
        repository="Lillianwei-h/MMIE",
        commit="eb0fd6e",
        size="31 kB",
        licence="MIT",
    ),
    Source(
        variable="MIA_FOLDER",
        repository="apple/ml-mia-bench",
        commit="5422852",
        size="3.3 MB",
        licence="Apple's sample code licence",
    ),
)
