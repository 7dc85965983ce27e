"""Speed of MMIE-Score's engines: ``python -W ignore tests/bench/mmie_score_speed.py``.

A small model of the real architecture with random weights, and made-up requests in MMIE's
proportions: a common rubric, a question, an answer, 1 to 4 images, replies around 150 tokens and a
few of 512. With random weights no reply ends by itself, so its length is its limit. All engines get
the same prompts, on the CPU, in fp32, each in this process. vLLM is measured where it is installed:
``make test-vllm`` makes such an environment. Its figures on a CPU say nothing about a GPU's.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # CPU seconds of this process count

import torch
from loguru import logger

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.judge_engines import CPU, completed, results
from support.judge_workload import SIZES, requests
from support.random_checkpoint import write

from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, CheckpointLocation, open_checkpoint
from mmie_tasks.judges.mmie_score.exact import exact_arithmetic
from mmie_tasks.judges.mmie_score.generation import Engine, JudgePrompt
from mmie_tasks.judges.mmie_score.inputs import InputBuilder
from mmie_tasks.judges.mmie_score.transformers_engine import TransformersEngine
from mmie_tasks.judges.mmie_score.vllm_engine import VllmEngine, supported

MEMORY_BYTES = 4 * 2**30  # of vLLM's cache, half of it


def start_transformers(checkpoint: Checkpoint) -> Engine:
    return TransformersEngine.start(checkpoint, device=CPU, dtype=torch.float32)


def start_vllm(checkpoint: Checkpoint) -> Engine:
    return VllmEngine.start(
        checkpoint, device=CPU, dtype=torch.float32, max_memory_bytes=MEMORY_BYTES
    )


ENGINES: Mapping[str, Callable[[Checkpoint], Engine]] = {
    "transformers": start_transformers,
    "vllm": start_vllm,
}


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What one engine took, without its start, and its tokens by request."""

    start_s: float
    cpu_s: float
    wall_s: float
    outputs: Mapping[int, list[int]]


def measure(
    start: Callable[[Checkpoint], Engine], checkpoint: Checkpoint, prompts: list[JudgePrompt]
) -> Measurement:
    began = time.perf_counter()
    with exact_arithmetic(), closing(start(checkpoint)) as engine:
        results(engine, [replace(prompts[0], max_new_tokens=2)])  # one-time set-up
        start_s = time.perf_counter() - began
        wall_began, cpu_began = time.perf_counter(), time.process_time()
        replies = results(engine, prompts)
        cpu_s, wall_s = time.process_time() - cpu_began, time.perf_counter() - wall_began
    outputs = {key: completed(reply).output for key, reply in replies.items()}
    return Measurement(start_s=start_s, cpu_s=cpu_s, wall_s=wall_s, outputs=outputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--size", choices=("reduced", "tiny"), default="reduced")
    chosen = parser.parse_args()
    logger.remove()
    torch.set_num_threads(1)
    size = SIZES[chosen.size]
    with tempfile.TemporaryDirectory() as name:
        folder = write(Path(name) / "checkpoint", size.shape, seed=1, ends=False)
        checkpoint = open_checkpoint(CheckpointLocation(folder=folder, name="random weights"))
        builder = InputBuilder(checkpoint)
        made_up = requests(size, chosen.samples, 1, Path(name), compress_level=0)
        prompts = [builder.prompt(key, request) for key, request in enumerate(made_up)]
        prompts.sort(key=lambda prompt: -len(prompt.ids))  # as the judge does
        print(
            f"MMIE-Score with random weights, {checkpoint.weight_bytes / 2e9:.2f} B of them, fp32, "
            f"one thread, torch {torch.__version__}: {len(prompts)} requests, prompts of "
            f"{sum(len(prompt.ids) for prompt in prompts) / len(prompts):.0f} tokens on average"
        )
        first: Measurement | None = None
        for engine, start in ENGINES.items():
            if engine == "vllm" and (problem := supported(CPU)):
                print(f"  {engine:<13} not run: {problem}")
                continue
            measured = measure(start, checkpoint, prompts)
            first = first or measured
            tokens = sum(map(len, measured.outputs.values()))
            same = sum(measured.outputs[key] == output for key, output in first.outputs.items())
            print(
                f"  {engine:<13}{measured.cpu_s:8.1f} CPU s {tokens / measured.cpu_s:8.0f} tokens/"
                f"CPU s {first.cpu_s / measured.cpu_s:6.2f} x{measured.wall_s:8.1f} s, started in "
                f"{measured.start_s:.0f} s; {same} of {len(prompts)} replies as the first engine's",
                flush=True,
            )


if __name__ == "__main__":
    main()
