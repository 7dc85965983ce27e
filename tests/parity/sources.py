"""The public artefacts that the parity table compares with; the user fetches them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
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
        part: The folders that are enough; empty for all.
    """

    variable: str
    repository: str
    commit: str
    size: str
    licence: str
    part: tuple[str, ...] = ()

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

    @property
    def commands(self) -> Sequence[str]:
        """The shell commands that fetch it into the working folder."""
        folder = self.repository.partition("/")[2]
        url = f"https://github.com/{self.repository}"
        sparse = [f"git -C {folder} sparse-checkout set {' '.join(self.part)}"] if self.part else []
        return [
            f"git clone {'--filter=blob:none --sparse ' if self.part else ''}{url}",
            *sparse,
            f"git -C {folder} checkout {self.commit}",
        ]


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
        part=(f"{ANSWERS}/internvl2_2b", f"{ANSWERS}/internvl2_5_8b"),
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


def sources_text() -> str:
    """Repository, commit, size and licence of each source, and the commands that fetch it."""
    blocks = []
    for source in SOURCES:
        head = f"{source.repository} at {source.commit}: {source.size}, "
        head += f"licence: {source.licence}; give it as {source.variable}"
        part = [f"  (enough of it: {', '.join(source.part)})"] if source.part else []
        blocks.append("\n".join([head, *part, *(f"  {line}" for line in source.commands)]))
    return "\n\n".join(blocks)
