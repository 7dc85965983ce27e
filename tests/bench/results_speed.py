"""Seconds and memory of the commands on logged runs, on runs of 20,000 samples.

``python tests/bench/results_speed.py`` from the repository root. The runs are generated; every
command runs in a process of its own, whose time and greatest memory are measured.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.logged_runs import JUDGE, mmie_lines, write_run

PHOTOS = 40
LINKS = 2400  # names of the same photographs, each decoded anew
PHOTO_PX = (1600, 1200)


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured, the words after ``mmie-tasks``, and the limit in seconds."""

    name: str
    words: tuple[str, ...]
    limit_s: float


MEMORY_LIMIT_MIB = 1536


def cost(words: tuple[str, ...], log: Path) -> tuple[float, float, float, int]:
    """Run one command in a process of its own: seconds, CPU seconds, greatest MiB and status."""
    command = [sys.executable, "-m", "mmie_tasks", *words]
    began = time.perf_counter()
    with log.open("wb") as output:
        actions = [(os.POSIX_SPAWN_DUP2, output.fileno(), stream) for stream in (1, 2)]
        process = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
        _, status, usage = os.wait4(process, 0)
    seconds, cpu_s = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
    return seconds, cpu_s, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)


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


def cases(folder: Path) -> list[Case]:
    """The commands, with the limits they are held to."""
    a, b, other, photos = (str(folder / name) for name in ("a", "b", "other", "photos"))
    page = str(folder / "report.html")
    return [
        Case("report, 1 run", ("report", a, "-o", page), 60),
        Case("report, 2 runs", ("report", a, b, "-o", page), 60),
        Case("report, photographs", ("report", photos, "-o", page), 60),
        Case("agreement, 2 judges", ("agreement", f"A={a}", f"B={other}"), 10),
        Case("compare, 2 models", ("compare", a, b), 10),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=20_000, help="samples of a run")
    count = parser.parse_args().n
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, count)
        print(
            f"{'command':<24}{'samples':>9}{'seconds':>9}{'CPU s':>7}{'limit':>7}{'MiB':>7}  file"
        )
        for case in cases(folder):
            log, page = folder / "output", folder / "report.html"
            page.unlink(missing_ok=True)
            seconds, cpu_s, memory_mib, status = cost(case.words, log)
            size = f"{page.stat().st_size / 1e6:.1f} MB" if page.exists() else ""
            why = log.read_text(errors="replace").strip().splitlines()[-1:] if status else []
            slow = seconds > case.limit_s or memory_mib > MEMORY_LIMIT_MIB
            numbers = (
                f"{count:>9,}{seconds:>9.1f}{cpu_s:>7.1f}{case.limit_s:>7.0f}{memory_mib:>7.0f}"
            )
            remarks = [size, *why, *(["TOO MUCH"] if slow else [])]
            print(f"{case.name:<24}{numbers}  {' '.join(remarks)}")


if __name__ == "__main__":
    main()
