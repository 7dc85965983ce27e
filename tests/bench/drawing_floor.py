"""Speed of the drawer `images`: ``python tests/bench/drawing_floor.py``.

The server runs on the loopback interface in another process. It takes a second per picture, draws 20 at once, and
answers 429 to further requests; a picture has 512 x 512 pixels and about 400 KB. With ``max_concurrency=100`` the
drawer does not know the 20. The bound is the time of the server's work alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmie_tasks.drawing.base import Picture, PictureRequest
from mmie_tasks.drawing.registry import open_drawer

TESTS = Path(__file__).resolve().parents[1]
AT_MOST = 20


@contextmanager
def server() -> Iterator[str]:
    """A server in another process; gives its base URL."""
    command = [sys.executable, "-m", "support.image_server", "--port", "0", "--noise"]
    command += ["--delay_s", "1", "--at_most", str(AT_MOST)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def seconds(n: int, max_concurrency: int) -> float:
    requests = [PictureRequest(prompt=f"scene {index}", seed=index) for index in range(n)]
    with server() as url:
        drawer = open_drawer(f"images:any,base_url={url},max_concurrency={max_concurrency}", {})
        began = time.perf_counter()
        pictures = sum(isinstance(outcome, Picture) for _, outcome in drawer.draw(requests))
        taken_s = time.perf_counter() - began
    assert pictures == n, f"{pictures} of {n} pictures"
    return taken_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1000)
    n = parser.parse_args().n
    bound_s = n / AT_MOST
    print(f"{n} pictures of 512 x 512 pixels, 1 s each, at most {AT_MOST} at once: at least {bound_s:.0f} s")
    for max_concurrency in (20, 100):
        taken_s = seconds(n, max_concurrency)
        print(f"  max_concurrency={max_concurrency:<4} {taken_s:6.1f} s  {taken_s / bound_s:.2f} x the bound")


if __name__ == "__main__":
    main()
