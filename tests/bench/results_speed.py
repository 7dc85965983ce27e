"""CPU seconds and memory of the commands on logged runs, on runs of 20,000 samples.

``python tests/bench/results_speed.py --old FOLDER`` from the repository root, where the folder is
another checkout: the commands of both run in turns, each in a process of its own, and their ratio
is held to a limit. The runs are generated.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.logged_runs import JUDGE, mmie_lines, write_run

PHOTOS = 40
LINKS = 2400  # names of the same photographs, each decoded anew
PHOTO_PX = (1600, 1200)


MEMORY_LIMIT_MIB = 1536
LIMITS = {"table": 1.1, "compare": 0.9, "agreement": 1.1, "report": 0.7}
"""CPU seconds as a share of those of the tree 4f3f6b95, given as ``--old``."""

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Cost:
    """User and system CPU seconds of a process, and its greatest memory in MiB."""

    cpu_s: float
    memory_mib: float


def cost(words: tuple[str, ...], tree: str, folder: Path) -> Cost:
    """Run one command of a checkout in a process of its own; raises if it fails."""
    environment = {**os.environ, "PYTHONPATH": tree, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "mmie_tasks", *words]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(  # in a folder of its own: `-m` takes modules of this one first
            command, stdout=output, stderr=output, env=environment, cwd=folder
        )
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit((folder / "output").read_text(errors="replace"))
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def make(folder: Path, count: int) -> None:
    """Two models of one judge, and another judge of the first; photographs in some."""
    for name, skill, judge, answers in (
        ("a", 0.60, JUDGE, "a"),
        ("b", 0.55, JUDGE, "b"),
        ("other", 0.60, "judge:other|model:somebody", "a"),
    ):
        lines = mmie_lines(count, skill=skill, judge=judge, answers=answers)
        write_run(folder / name, "mmie", lines)
    photos(folder, count)


def photos(folder: Path, count: int) -> None:
    """A log whose samples have photographs that no other sample has, as far as they are shown."""
    first = [photo(folder / f"{index}.jpg") for index in range(PHOTOS)]
    names = itertools.cycle(folder / f"photo-{index}.jpg" for index in range(LINKS))
    for name, target in zip(itertools.islice(names, LINKS), itertools.cycle(first), strict=False):
        name.hardlink_to(target)
    lines = (json.dumps(line) for line in mmie_lines(count, image="PHOTO"))
    pictured = (re.sub('"PHOTO"', lambda _: f'"{next(names)}"', line) for line in lines)
    write_run(folder / "photos", "mmie", map(json.loads, pictured))


def photo(path: Path) -> Path:
    """A large JPEG with much detail."""
    noise = Image.effect_noise((PHOTO_PX[0] // 8, PHOTO_PX[1] // 8), 90)
    noise.resize(PHOTO_PX).convert("RGB").save(path, quality=90)
    return path


def cases(folder: Path) -> dict[str, tuple[str, ...]]:
    """Name of a case to the words after ``mmie-tasks``."""
    a, b, other, photos = (str(folder / name) for name in ("a", "b", "other", "photos"))
    page = str(folder / "report.html")
    return {
        "table, 2 runs": ("table", a, b),
        "compare, 2 models": ("compare", a, b),
        "agreement, 2 judges": ("agreement", f"A={a}", f"B={other}"),
        "report, 1 run": ("report", a, "-o", page),
        "report, photographs": ("report", photos, "-o", page),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=20_000, help="samples of a run")
    parser.add_argument("--old", metavar="FOLDER", help="another checkout to compare with")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each command")
    options = parser.parse_args()
    trees = {"new": str(ROOT)} | ({"old": options.old} if options.old else {})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, options.n)
        print(f"{options.n:,} samples; CPU s, least of {options.rounds}; MiB")
        print(f"{'command':<24}{'new':>7}{'old':>7}{'ratio':>7}{'limit':>7}{'MiB':>7}")
        for case, words in cases(folder).items():
            costs: dict[str, list[Cost]] = {tree: [] for tree in trees}
            for _, tree in itertools.product(range(options.rounds), trees):
                costs[tree].append(cost(words, trees[tree], folder))
            cpu_s = {tree: min(one.cpu_s for one in of_tree) for tree, of_tree in costs.items()}
            old_s = cpu_s.get("old", math.nan)
            ratio, limit = cpu_s["new"] / old_s, LIMITS.get(words[0], math.nan)
            memory = max(one.memory_mib for one in costs["new"])
            is_slow = ratio > limit or memory > MEMORY_LIMIT_MIB
            numbers = f"{cpu_s['new']:>7.1f}{old_s:>7.1f}{ratio:>7.2f}{limit:>7.1f}{memory:>7.0f}"
            print(f"{case:<24}{numbers}{'  TOO MUCH' if is_slow else ''}", flush=True)


if __name__ == "__main__":
    main()
