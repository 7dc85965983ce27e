"""Remembers which commit of a dataset repository was downloaded for a branch or tag.

Files are stored in a folder per commit. The commit of a revision is in a text file beside them, so
that a later run makes no request::

    <root>/<commit>/...
    <root>/commits/<revision>.txt
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import atomic_write, cache_dir
from mmie_tasks.hub.revisions import is_commit, is_revision

_REPO_COMMIT = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)@(?P<commit>[0-9a-f]{40})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepoCommit:
    """A commit of a repository on the Hub, in signatures the text ``MMIE/MMIE@<commit>``."""

    repo: str
    commit: str

    def __str__(self) -> str:
        return f"{self.repo}@{self.commit}"

    @classmethod
    def from_text(cls, text: str) -> RepoCommit | None:
        """The commit that a text begins with; None if it does not, as ``sha256:...`` of local data.

        >>> RepoCommit.from_text(f"MMIE/MMIE@{'0a' * 20},left_out=1").repo
        'MMIE/MMIE'
        """
        match = _REPO_COMMIT.match(text)
        return cls(repo=match["repo"], commit=match["commit"]) if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFolder:
    """A local folder with files of one commit of a repository on the Hub.

    The folder is named after the commit, or is inside one that is.
    """

    folder: Path
    repo: str
    commit: str

    @property
    def revision(self) -> str:
        """Repository and commit: ``MMIE/MMIE@<commit>``."""
        return str(RepoCommit(repo=self.repo, commit=self.commit))


@dataclass(frozen=True, slots=True, kw_only=True)
class HubDataset:
    """A dataset repository of which all files are stored in one folder per commit.

    ``variable`` names the environment variable with the revision; ``main`` if it is not set.
    ``required`` are the files and folders without which the folder of a commit is incomplete.
    """

    repo: str
    name: str  # of the folder below `mmie_tasks.core.files.cache_dir`
    variable: str
    required: tuple[str, ...]

    def root(self, environment: Mapping[str, str]) -> Path:
        """The folder of all its commits."""
        return cache_dir(environment).absolute() / self.name

    def revision(self, environment: Mapping[str, str]) -> str:
        """The requested revision.

        Raises:
            SettingWrong: The variable's value cannot be a revision.
        """
        return revision_setting(environment, self.variable, self.repo) or "main"

    def note(self, environment: Mapping[str, str]) -> CommitNote:
        """The commit note of the requested revision; raises like `revision`."""
        return commit_note(self.root(environment), self.revision(environment))

    def cached(self, environment: Mapping[str, str]) -> HubFolder | None:
        """The folder of an earlier download, if complete; raises like `revision`."""
        commit = self.note(environment).read()
        folder = self.root(environment) / commit
        if commit and all((folder / name).exists() for name in self.required):
            return HubFolder(folder=folder, repo=self.repo, commit=commit)
        return None

    def stored(self, commit: str, environment: Mapping[str, str]) -> HubFolder:
        """Write the commit note of a folder that is complete now."""
        self.note(environment).write(commit)
        return HubFolder(folder=self.root(environment) / commit, repo=self.repo, commit=commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitNote:
    """The text file with the commit of a revision; ``<root>/commits/<revision>.txt``."""

    path: Path

    def read(self) -> str:
        """The commit; empty if there is no note, or no commit in it."""
        if not self.path.is_file():
            return ""
        commit = self.path.read_text(encoding="ascii", errors="replace").strip()
        return commit if is_commit(commit) else ""

    def write(self, commit: str) -> None:
        """Write the note in one step.

        Raises:
            OSError: The folder cannot be written.
        """
        with atomic_write(self.path) as part:
            part.write_text(f"{commit}\n", encoding="ascii")


def commit_note(root: Path, revision: str) -> CommitNote:
    """The note of a revision (or of another name without ``..``) below `root`."""
    return CommitNote(path=root / "commits" / f"{revision.replace('/', '%2F')}.txt")


def revision_setting(environment: Mapping[str, str], variable: str, repo: str) -> str:
    """The revision of a dataset that an environment variable names; empty if it is not set.

    Raises:
        SettingWrong: Its value cannot be a revision.
    """
    revision = environment.get(variable, "")
    if revision and not is_revision(revision):
        raise SettingWrong(
            f"`{variable}` is {revision!r}, which cannot be a branch, tag or commit.",
            hint=f"name one listed on https://huggingface.co/datasets/{repo}/commits, or unset it",
        )
    return revision
