"""Speed of the drawer `images` and of the model `interleaved`:
``python tests/bench/drawing_floor.py``.

The server runs on the loopback interface in another process. It takes a second per picture, draws
20 at once, and answers 429 to further requests; a picture has 512 x 512 pixels and about 400 KB.
With ``max_concurrency=100`` the drawer does not know the 20. The whole model gets as many samples
of MMIE, a picture each, from a writer that takes no time. The bound is the time of the server's
work alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmie_tasks.interleaved.drawer import Picture, PictureRequest
from mmie_tasks.interleaved.registry import open_drawer

TESTS = Path(__file__).resolve().parents[1]
AT_MOST = 20


@contextmanager
def server() -> Iterator[str]:
    """A server in another process; gives its base URL."""
    command = [sys.executable, "-m", "support.judge_server", "--port", "0", "--noise"]
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


def model_seconds(n: int, folder: Path) -> float:
    """The same through the model: its answers to samples of MMIE, with all files that it writes."""
    sys.path.insert(0, str(TESTS))
    from lmms_eval.tasks import TaskManager, get_task_dict
    from support.mmie_data import conversations_folder

    from mmie_tasks.answers.drawn import read_drawn_answer
    from mmie_tasks.runner.interleaved import Interleaved

    # Two of three samples are drawn.
    os.environ |= {
        "MMIE_DATA": str(conversations_folder(folder / "data", n * 3 // 2)),
        "MMIE_TASKS_CACHE": str(folder),
    }
    with server() as url:
        drawer = f"images:any;base_url={url};max_concurrency=100"
        model = Interleaved(lvlm="dummy:response=A scene. [picture]", t2i=drawer)
        task = get_task_dict(["mmie"], TaskManager(model_name="interleaved"), "simple")["mmie"]
        model.task_dict["mmie"] = task.dataset
        task.override_metric(metric_name="bypass")
        task.build_all_requests(rank=0, world_size=1)
        began = time.perf_counter()
        answers = [
            read_drawn_answer(str(answer)) for answer in model.generate_until(task.instances)
        ]
        taken_s = time.perf_counter() - began
    drawn = sum(answer.facts.drawn for answer in answers if answer is not None)
    assert drawn == n, f"{drawn} of {n} pictures"
    return taken_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1000)
    n = parser.parse_args().n
    bound_s = n / AT_MOST
    print(
        f"{n} pictures of 512 x 512 pixels, 1 s each, at most {AT_MOST} at once: at least "
        f"{bound_s:.0f} s"
    )
    for max_concurrency in (20, 100):
        taken_s = seconds(n, max_concurrency)
        print(
            f"  drawer, max_concurrency={max_concurrency:<4} {taken_s:6.1f} s  "
            f"{taken_s / bound_s:.2f} x the bound"
        )
    with tempfile.TemporaryDirectory() as folder:
        taken_s = model_seconds(n, Path(folder))
    print(f"  model `interleaved`          {taken_s:6.1f} s  {taken_s / bound_s:.2f} x the bound")


if __name__ == "__main__":
    main()
