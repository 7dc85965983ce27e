"""Names of revisions and commits on the Hub: which texts can be one."""

from __future__ import annotations

import re

_REVISION = re.compile(r"[\w][\w.\-/]*", re.ASCII)
_COMMIT = re.compile(r"[\w-]{1,128}", re.ASCII)  # also a safe name of a folder


def is_revision(text: str) -> bool:
    """Whether a text can be a branch, tag or commit.

    >>> is_revision("refs/pr/1"), is_revision("../main")
    (True, False)
    """
    return ".." not in text and _REVISION.fullmatch(text) is not None


def is_commit(text: str) -> bool:
    """Whether a text can be the name of a commit, and of a folder of ours."""
    return _COMMIT.fullmatch(text) is not None
