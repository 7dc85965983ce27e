"""Rate of MMIE-Score's front: ``python -W ignore tests/bench/mmie_score_front.py``.

The front is what CPUs do while GPUs judge: decode images, cut them into tiles, tokenise texts.
Made-up requests in MMIE's proportions, at the real tile size, become inputs of the model; no model
is computed. Measured with one thread, with all threads of one process, and with several processes,
one for each GPU of a machine. Then the requests go with their images through Ray to engines that
only reply: the work of a run's own process. Beside it: what GPUs need. The images are PNG files of
noise, which take longer to decode than photographs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from loguru import logger
from PIL import __version__ as pillow_version

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.judge_workload import REAL_TILE_PX, SIZES, requests
from support.random_checkpoint import TINY_SHAPE, write
from support.ray_engines import ScriptedEngine

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.mmie_score import tiles
from mmie_tasks.judges.mmie_score.checkpoint import CheckpointLocation, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.tokenizer import SlowLlamaTokenizer
from mmie_tasks.judges.mmie_score.generation import FailedPrompt, JudgePrompt
from mmie_tasks.judges.mmie_score.inputs import InputBuilder
from mmie_tasks.judges.mmie_score.ray_engines import RayEngines
from mmie_tasks.judges.mmie_score.request_queue import PromptPreparer, queue_of
from mmie_tasks.record.reply import JudgeReply

GPU_RATE = 20_000 / (2.0 * 3600)  # samples/s: the goal for one H200
GPUS = 8
SIZE = replace(SIZES["real"], shape=replace(TINY_SHAPE, image_px=REAL_TILE_PX))


def builder_of(folder: Path) -> InputBuilder:
    return InputBuilder(open_checkpoint(CheckpointLocation(folder=folder, name="random weights")))


def prepared(
    builder: InputBuilder, judge_requests: Sequence[JudgeRequest]
) -> Iterator[JudgePrompt]:
    """All prompts, as the engine gets them."""
    with closing(
        PromptPreparer(builder, queue_of(judge_requests, range(len(judge_requests))))
    ) as preparer:
        while (prompt := preparer.get(wait=True)) is not None:
            assert not isinstance(prompt, FailedPrompt), prompt.error
            yield prompt


@contextmanager
def timed(spent_s: dict[str, float], name: str, owner: object, function: str) -> Iterator[None]:
    """Add up the time in a function of the product."""
    original: Callable[..., Any] = getattr(owner, function)

    def timed_call(*arguments: object, **options: object) -> object:
        began = time.perf_counter()
        returned = original(*arguments, **options)
        spent_s[name] = spent_s.get(name, 0.0) + time.perf_counter() - began
        return returned

    setattr(owner, function, timed_call)
    try:
        yield
    finally:
        setattr(owner, function, original)


def measure_one_thread(builder: InputBuilder, judge_requests: Sequence[JudgeRequest]) -> None:
    spent_s: dict[str, float] = {}
    with (
        timed(spent_s, "decoding", tiles, "open_bounded"),
        timed(spent_s, "tokenising", SlowLlamaTokenizer, "encode"),
    ):
        began, cpu_began = time.perf_counter(), time.process_time()
        prompts = [builder.prompt(key, request) for key, request in enumerate(judge_requests)]
        seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    spent_s["tiling"] = seconds - sum(spent_s.values())
    mean_tiles = statistics.mean(
        len(prompt.tiles) for prompt in prompts if prompt.tiles is not None
    )
    tokens = statistics.mean(len(prompt.ids) for prompt in prompts)
    images = sum(isinstance(part, Path) for request in judge_requests for part in request.parts)
    count = len(prompts)
    print(
        f"{count} requests: {images / count:.1f} images, {mean_tiles:.1f} tiles and {tokens:,.0f} "
        "tokens on average"
    )
    shares = ", ".join(f"{name} {share / seconds:.0%}" for name, share in sorted(spent_s.items()))
    print_rate("one thread", count, seconds, cpu_s)
    print(f"{'':27}{shares}")


def measure_lengths(builder: InputBuilder, judge_requests: Sequence[JudgeRequest]) -> None:
    began = time.perf_counter()
    for request in judge_requests:
        builder.length(request)
    ms = 1000 * (time.perf_counter() - began) / len(judge_requests)
    print(f"  length of a request, before any is prepared: {ms:.1f} ms")


def measure_processes(folder: Path, judge_requests: Sequence[JudgeRequest], count: int) -> None:
    """Each process prepares its share with all its threads; they begin together."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(count)
    shares = [(folder, judge_requests[number::count]) for number in range(count)]
    with context.Pool(count, share_barrier, (barrier,)) as pool:
        prepared_shares = pool.starmap(prepare_share, shares, chunksize=1)
    seconds = max(share.ended for share in prepared_shares) - min(
        share.began for share in prepared_shares
    )
    name = "1 process" if count == 1 else f"{count} processes"
    print_rate(
        f"{name}, all threads",
        len(judge_requests),
        seconds,
        sum(share.cpu_s for share in prepared_shares),
    )


def measure_handing_out(root: Path, judge_requests: Sequence[JudgeRequest], engines: int) -> None:
    """Requests with their images through Ray to engines that reply at once: what the process of the
    run does.
    """
    work = root / "engines"
    work.mkdir()
    pool = RayEngines(limit=None, device="cpu", environment={}, actor_class=ScriptedEngine)
    with closing(pool):
        pool.start({"folder": str(work), "rows": 1000}, number=engines, max_rows=64)
        began, cpu_began = time.perf_counter(), time.process_time()
        outcomes = list(pool.ask(judge_requests, range(len(judge_requests))))
        seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    assert all(isinstance(outcome, JudgeReply) for _, outcome in outcomes), outcomes[0]
    print_rate(f"handed out to {engines} engines", len(judge_requests), seconds, cpu_s)


def print_rate(name: str, samples: int, seconds: float, cpu_s: float) -> None:
    cpu_s /= samples
    print(
        f"  {name:<25}{samples / seconds:5.1f} samples/s, {1000 * cpu_s:.0f} ms of a core each: "
        f"{GPUS} GPUs keep {GPUS * GPU_RATE * cpu_s:.1f} cores busy"
    )


@dataclass(frozen=True, kw_only=True)
class PreparedShare:
    """When the preparation began and ended, on the clock that all processes share, and its time on
    cores.
    """

    began: float
    ended: float
    cpu_s: float


_barrier: Barrier


def share_barrier(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def prepare_share(folder: Path, judge_requests: Sequence[JudgeRequest]) -> PreparedShare:
    builder = builder_of(folder)
    builder.prompt(0, judge_requests[0])  # imports
    _barrier.wait(timeout=120)
    began, cpu_began = time.monotonic(), time.process_time()
    for _ in prepared(builder, judge_requests):
        pass
    return PreparedShare(began=began, ended=time.monotonic(), cpu_s=time.process_time() - cpu_began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--processes", type=int, default=min(GPUS, os.cpu_count() or 1))
    chosen = parser.parse_args()
    logger.remove()
    print(
        f"MMIE-Score's front, tiles of {REAL_TILE_PX} px, {os.cpu_count()} cores, Pillow "
        f"{pillow_version}"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = write(Path(name) / "checkpoint", SIZE.shape, seed=1, ends=False)
        judge_requests = requests(SIZE, chosen.samples, 1, Path(name))
        builder = builder_of(folder)
        builder.prompt(0, judge_requests[0])  # imports
        measure_one_thread(builder, judge_requests)
        measure_lengths(builder, judge_requests)
        for count in sorted({1, min(chosen.processes, chosen.samples)}):
            measure_processes(folder, judge_requests, count)
        os.environ["PYTHONPATH"] = str(
            Path(__file__).resolve().parents[1]
        )  # of the engines' processes
        measure_handing_out(Path(name), judge_requests, 2)
    print(f"  needed: {GPU_RATE:.1f} samples/s for a GPU, {GPUS * GPU_RATE:.0f} for {GPUS}")


if __name__ == "__main__":
    main()
