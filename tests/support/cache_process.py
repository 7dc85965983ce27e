"""A separate process that sends requests to a cached judge and prints a line per reply."""

import subprocess
import sys
from pathlib import Path

from mmie_tasks.judges.cache import outcomes_of
from support.judges import ScriptedJudge, scripted_request
from support.recordings import cached_judge


def start(path, *texts):
    """Prints ``started``, waits for `go`, then prints ``new`` or ``cached`` with each text."""
    command = [sys.executable, "-m", "support.cache_process", str(path), *texts]
    folder = Path(__file__).parent.parent
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def go(process):
    process.stdin.write("go\n")
    process.stdin.flush()


def main(path, *texts):
    print_line("started")
    sys.stdin.readline()
    requests = [scripted_request(text) for text in texts]
    for index, reply in outcomes_of(cached_judge(ScriptedJudge(), Path(path)), requests):
        print_line(f"{'cached' if reply.cached else 'new'} {texts[index][:20]}")


def print_line(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
