"""How many ms our entry point adds to a start of the runner: ``python tests/bench/import_cost.py``.

Each start is a fresh process in which the runner itself loads and calls our entry point.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

START = """
import time
from importlib.metadata import EntryPoint

load = EntryPoint.load

def timed(entry):
    def manifests():
        began = time.perf_counter()
        found = load(entry)()
        print("ms", 1000 * (time.perf_counter() - began))
        return found
    return manifests if entry.module.startswith("mmie_tasks.") else load(entry)

EntryPoint.load = timed
import lmms_eval.models
"""


def cost_ms() -> float:
    """The cost of one start."""
    ended = subprocess.run(
        [sys.executable, "-c", START], capture_output=True, text=True, check=True, timeout=120
    )
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("ms ")]
    return float(line.removeprefix("ms "))


def main() -> None:
    """Print median and extremes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=15)
    costs = sorted(cost_ms() for _ in range(parser.parse_args().starts))
    print(
        f"our entry point costs {statistics.median(costs):.1f} ms "
        f"(median of {len(costs)} starts, {costs[0]:.1f} to {costs[-1]:.1f})"
    )


if __name__ == "__main__":
    main()
