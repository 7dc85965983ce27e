"""How to copy fetched assets to a machine without network access."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from mmie_tasks.hub.asset import Asset
from mmie_tasks.judges.choice import VARIABLE

HUB_HOME = "HF_HOME"


def copy_text(assets: Iterable[Asset], doctor: str, environment: Mapping[str, str]) -> str:
    """How to copy assets to a machine without network access.

    Args:
        assets: All assets; they are here now.
        doctor: The command that checks them on the other machine.
        environment: Of this process; the values of settings are not printed.
    """
    copies: dict[str, Path] = {}
    settings = ["HF_ENDPOINT"]
    for asset in assets:
        copies |= asset.copies
        settings += asset.settings
    if not copies:
        return "A machine without network access needs no copies."
    exports = [f"export {name}={shlex.quote(str(path))}" for name, path in copies.items()]
    lines = [
        "For a machine without network access: copy these folders to it (or mount them), set the",
        "variables to their paths there, and check that a run can start:",
        "",
        *(f"  {line}" for line in (*exports, "export HF_HUB_OFFLINE=1", doctor)),
    ]
    if HUB_HOME in copies:
        lines += ["", f"Do not copy the file `token` in `{HUB_HOME}`: it is a key."]
    names = dict.fromkeys([*settings, VARIABLE])
    set_here = [f"`{name}`" for name in names if environment.get(name) and name not in copies]
    lines += ["", f"Also set there, as here: {', '.join(set_here)}."] if set_here else []
    return "\n".join(lines)
