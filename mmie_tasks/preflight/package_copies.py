"""Checks from which folder a package is imported, and whether other copies of it are installed.

A user's editable clone of lmms-eval and a wheel of it may both be there, and only one is the code
that runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mmie_tasks.preflight.findings import Finding


def check_copies(distribution: str, package: str) -> Iterator[Finding]:
    """The version of a package and the folder from which it is imported; a warning if there are
    copies of it in other folders. Imports nothing.

    Args:
        distribution: Its name for pip.
        package: Its name in Python.
    """
    installed = list(distributions(name=distribution))[::-1]  # the first one is pip's
    versions = {folder: one.version for one in installed if (folder := _installed_at(one, package))}
    imported = _imported_from(find_spec(package))
    if imported is None and installed:
        hint = f"`pip uninstall {distribution}`, then install it again"
        yield Finding("problem", distribution, "is installed, but its code is gone", hint)
        return
    if imported is None:
        yield Finding("problem", distribution, "is not installed", f"`pip install {distribution}`")
        return
    version = versions.get(imported, "a copy unknown to pip")
    yield Finding("ok", distribution, f"{version}, imported from `{imported}`")
    importable = (_imported_from(PathFinder.find_spec(package, [entry])) for entry in sys.path)
    others = dict.fromkeys(folder for folder in (*importable, *versions) if folder)
    others.pop(imported, None)
    if others:
        listed = ", ".join(
            f"`{folder}` ({versions.get(folder, 'unknown to pip')})" for folder in others
        )
        message = f"there are other copies, which are not imported: {listed}"
        hint = f"keep one: `pip uninstall {distribution}`, or take a folder out of `PYTHONPATH`"
        yield Finding("warning", distribution, message, hint)


def _imported_from(spec: ModuleSpec | None) -> Path | None:
    """The folder of a package; a module is its file, and a folder of no package is nothing."""
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).resolve()
    return path.parent if path.stem == "__init__" else path


def _installed_at(distribution: Distribution, package: str) -> Path | None:
    """The folder of the package; of an editable install in its checkout."""
    source = json.loads(distribution.read_text("direct_url.json") or "{}")
    root = Path(str(distribution.locate_file("")))
    if source.get("dir_info", {}).get("editable"):
        root = Path(url2pathname(urlsplit(source["url"]).path))
    folders = (root / package, root / "src" / package)
    return next((folder.resolve() for folder in folders if folder.is_dir()), None)
