"""How the tests share two processes: by file, with the longest first."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# No time limit for an example: on a busy machine any of them may take long.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")

TESTS = Path(__file__).resolve().parent
ONE_BROWSER = "results/report"  # the tests of this folder share a browser, so one process runs them
LONGEST = (  # what starts processes of its own or computes for long, roughly in order
    *("seam/test_ways.py", ONE_BROWSER, "seam/test_mia_bench.py", "test_packaging.py"),
    *("seam/test_mmie_score.py", "seam/test_milebench_hub.py", "seam/test_mmie_models.py"),
    *("judges/mmie_score", "seam", "judges", "runner"),
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put each file into a group of its own for ``--dist loadgroup``, and sort the groups."""
    items.sort(key=lambda item: _rank(item.path))
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            item.add_marker(pytest.mark.xdist_group(_group(item.path)))


def _rank(path: Path) -> int:
    name = _name(path)
    matching = (i for i, longest in enumerate(LONGEST) if f"{name}/".startswith(f"{longest}/"))
    return next(matching, len(LONGEST))


def _group(path: Path) -> str:
    name = _name(path)
    return ONE_BROWSER if name.startswith(f"{ONE_BROWSER}/") else name


def _name(path: Path) -> str:
    """The path below this folder; a module with doctests has its whole path."""
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else path.as_posix()
