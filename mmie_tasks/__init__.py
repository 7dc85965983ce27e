"""Benchmarks for lmms-eval, scored as their papers score them: MMIE, MileBench, MIA-Bench and
OpenING.

In Python: `load_run` opens a saved run as pandas tables, `judge` asks a judge without a run. Both
are imported when they are first used; importing the package does nothing else. Packages that add a
benchmark or a judge import from `mmie_tasks.extend`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmie_tasks.core import __version__

__all__ = ["__version__", "judge", "load_run"]

if TYPE_CHECKING:
    from mmie_tasks.judges.judge import judge
    from mmie_tasks.results.run import load_run
else:

    def __getattr__(name: str) -> object:
        if name == "judge":
            from mmie_tasks.judges.judge import judge

            return judge
        if name == "load_run":
            from mmie_tasks.results.run import load_run

            return load_run
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
