"""A process of its own that asks a judge with a cache, and says when each reply is there."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile
from support.telling_judge import TellingJudge, request

LARGEST_FILE = 256 * 1024


def start(path: Path, *texts: str, disk="large") -> subprocess.Popen[str]:
    """It says ``started``, waits for `go`, and says ``asked`` or ``known`` and each text."""
    command = [sys.executable, "-m", "support.asking", str(path), disk, *texts]
    folder = Path(__file__).parent.parent
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def go(process: subprocess.Popen[str]) -> None:
    process.stdin.write("go\n")
    process.stdin.flush()


def main(path: str, disk: str, *texts: str) -> None:
    if disk == "small":
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    say("started")
    sys.stdin.readline()
    requests = [request(text) for text in texts]
    for index, reply in CachedJudge(TellingJudge(), CacheFile(Path(path))).ask(requests):
        say(f"{'known' if reply.cached else 'asked'} {texts[index][:20]}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
