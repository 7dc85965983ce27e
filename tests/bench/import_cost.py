"""How many ms our entry point adds to a start of the runner, and how many the help of a command
takes: ``python tests/bench/import_cost.py``.

Each start is a fresh process. In the first ones the runner itself loads and calls our entry point.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from mmie_tasks.cli import COMMANDS

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


def help_ms(command: str) -> float:
    """The time of ``mmie-tasks COMMAND --help``, with the start of Python."""
    began = time.perf_counter()
    words = [sys.executable, "-m", "mmie_tasks", command, "--help"]
    subprocess.run(words, capture_output=True, check=True, timeout=120)
    return 1000 * (time.perf_counter() - began)


def main() -> None:
    """Print median and extremes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=15)
    starts = parser.parse_args().starts
    print_median("our entry point", [cost_ms() for _ in range(starts)])
    for command in COMMANDS:
        print_median(f"{command} --help", [help_ms(command) for _ in range(starts)])


def print_median(what: str, costs: list[float]) -> None:
    """Print one line."""
    print(
        f"{what}: {statistics.median(costs):.1f} ms "
        f"(median of {len(costs)} starts, {min(costs):.1f} to {max(costs):.1f})"
    )


if __name__ == "__main__":
    main()
