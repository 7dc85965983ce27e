"""Metadata of the archives for a package index: links of the README that work outside the checkout.

The owner fills in `repository` in pyproject.toml, under ``[tool.hatch.metadata.hooks.custom]``, and
nothing else. While it is empty, links to files of the checkout become plain text, and images are
left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")


def absolute_links(text: str, repository: str, tag: str) -> str:
    """A Markdown text whose relative links are those of a repository at a tag.

    Args:
        text: Markdown.
        repository: Such as ``https://github.com/OWNER/NAME``; empty if there is none.
        tag: Such as ``v0.1.0``.

    >>> absolute_links("[a](b.md#c) ![d](e.png)", "https://host/o/n", "v1")
    '[a](https://host/o/n/blob/v1/b.md#c) ![d](https://host/o/n/raw/v1/e.png)'
    >>> absolute_links("See [a](b.md). ![d](e.png)", "", "v1")
    'See a. '
    """

    def linked(match: re.Match[str]) -> str:
        is_image, label, target = match.groups()
        if not repository:
            return "" if is_image else label
        return f"{is_image}[{label}]({repository}/{'raw' if is_image else 'blob'}/{tag}/{target})"

    return _RELATIVE.sub(linked, text)


class ReadmeHook(MetadataHookInterface):
    """Sets the README, and the links to the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add them to the metadata of the project."""
        repository = self.config["repository"].rstrip("/")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = absolute_links(text, repository, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if repository:
            metadata["urls"] |= {
                "Source": repository,
                "Issues": f"{repository}/issues",
                "Changelog": f"{repository}/blob/v{metadata['version']}/CHANGELOG.md",
            }
