"""What a machine without internet is given: folders to copy, and lines for its shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from mmie_tasks.prefetching.items import Item

HUB_HOME = "HF_HOME"

# Where things are looked for depends on these; their values are not shown.
SAME_THERE = (
    *("HF_ENDPOINT", "MMIE_REVISION", "MILEBENCH_REVISION", "MIA_BENCH_REVISION"),
    *("MILEBENCH_TOKENIZER", "MILEBENCH_MAX_CONTEXT_TOKENS", "MILEBENCH_TOKENS_PER_IMAGE"),
    *("MMIE_SCORE_MODEL", "MMIE_TASKS_JUDGE"),
)


def lines(items: Iterable[Item], doctor: str, environment: Mapping[str, str]) -> str:
    """How to take everything along.

    Args:
        items: All that is here now.
        doctor: The command that looks at it there.
        environment: Of this process.
    """
    folders: dict[str, Path] = {}
    for item in items:
        folders |= item.folders
    if not folders:
        return "Nothing is to be copied for a machine without internet."
    exports = [f"export {name}={shlex.quote(str(path))}" for name, path in folders.items()]
    told = [
        "For a machine without internet: copy these folders there (or mount them), say where they",
        "are, and see whether a run can begin:",
        "",
        *(f"  {line}" for line in (*exports, "export HF_HUB_OFFLINE=1", doctor)),
    ]
    if HUB_HOME in folders:
        told += ["", f"Leave the file `token` in `{HUB_HOME}` behind: it is a key."]
    same = [f"`{name}`" for name in SAME_THERE if environment.get(name) and name not in folders]
    told += ["", f"Set there what is set here: {', '.join(same)}."] if same else []
    return "\n".join(told)
