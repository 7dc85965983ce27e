"""How the tests share two processes: by file, with the longest first."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

# Before Triton is imported by any module: its kernels run on the CPU.
os.environ.setdefault("TRITON_INTERPRET", "1")

# No time limit for an example: on a busy machine any of them may take long.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")

TESTS = Path(__file__).resolve().parent
LONGEST = (  # what starts processes of its own or computes for long, roughly in order
    *("judges/mmie_score/test_cluster.py", "judges/mmie_score/test_real_width.py"),
    *("seam/test_interleaved.py", "seam/test_ways.py", "gpu/test_check.py", "drawing/test_pipeline.py"),
    *("seam/test_mmie_score.py", "seam/test_mia_bench.py", "results/report/test_page.py"),
    *("preflight/test_prefetch.py", "runner/test_model_memory.py", "seam/test_hub.py"),
    *("benchmarks/mia_bench/test_assets.py", "judges/mmie_score/checkpoint/test_source.py"),
    *("seam/test_mmie_models.py", "hub/test_locate.py", "results/report", "test_packaging.py"),
    *("judges/mmie_score", "seam", "results", "judges", "gpu", "preflight", "hub", "runner", "drawing"),
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the files, longest first: ``--dist loadfile`` hands them out in this order."""
    items.sort(key=lambda item: _rank(item.path))


def pytest_collection_finish() -> None:
    """Exempt what collecting has imported from garbage collections, each of which would take half a second."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Libraries report what is never deleted as leaked."""
    gc.unfreeze()


def _rank(path: Path) -> int:
    if not path.is_relative_to(TESTS):
        return len(LONGEST)  # a module with doctests
    name = path.relative_to(TESTS).as_posix()
    matching = (i for i, longest in enumerate(LONGEST) if f"{name}/".startswith(f"{longest}/"))
    return next(matching, len(LONGEST))
