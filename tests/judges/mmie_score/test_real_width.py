"""The judge at the widths of the real model, in fp32, against transformers' own ``generate()``.

Two layers of each kind, real tiles, the real border of 4,096 tokens, random weights.
"""

from __future__ import annotations

import bisect
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.random_checkpoint import REAL_WIDTH, write
from support.stock_internvl import generate

from mmie_tasks.judges import registry
from mmie_tasks.judges.base import JudgeReply, JudgeRequest
from mmie_tasks.judges.mmie_score import prompt
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, Located, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.weights import load_model
from mmie_tasks.judges.mmie_score.pixels import normalized
from mmie_tasks.judges.mmie_score.preparing import Inputs

BORDER = REAL_WIDTH.long_after
RUBRIC = "Look at the question and its pictures, then at the answer, and rate it step by step. " * 3
WORDS = ("fold", "the", "paper", "twice", "water", "cut", "slowly", "green", "picture", "and", "it")
SMALL, LARGE = (512, 512), (700, 690)  # pixels: 1 tile, and 4 with a thumbnail
ASKED = {  # of each request: pictures, tokens of the prompt or a few more, tokens of the reply
    "text only": ((), 150, 16),
    "one picture": ((SMALL,), 450, 12),
    "two pictures, past the border while decoding": ((SMALL, LARGE), BORDER - 8, 14),
    "above the border from the start": ((SMALL,), BORDER + 60, 8),
}


@dataclass(frozen=True)
class Said:
    """What came of a request."""

    text: str
    prompt_tokens: int
    reply_tokens: int
    ended: bool


@pytest.fixture(scope="module", autouse=True)
def cores_of_ones_own() -> Iterator[None]:
    """Threads that wait for a core slow each other down, and the tests beside this one."""
    before = torch.get_num_threads()
    beside = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // beside))
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = write(tmp_path_factory.mktemp("real_width") / "checkpoint", REAL_WIDTH, seed=7)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def checkpoint(folder: Path) -> Checkpoint:
    return open_checkpoint(Located(folder=folder, name="random"))


@pytest.fixture(scope="module")
def inputs(checkpoint: Checkpoint) -> Inputs:
    return Inputs(facts=checkpoint.facts, tokenizer=checkpoint.tokenizer)


@pytest.fixture(scope="module")
def requests(inputs: Inputs, tmp_path_factory: pytest.TempPathFactory) -> list[JudgeRequest]:
    images = tmp_path_factory.mktemp("images")
    dice = np.random.default_rng(3)
    found = []
    for number, (sizes, tokens, reply) in enumerate(ASKED.values()):
        paths = [images / f"{number}-{n}.png" for n in range(len(sizes))]
        for path, (width, height) in zip(paths, sizes, strict=True):
            noise = dice.integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8)
            Image.fromarray(noise).resize((width, height)).save(path)
        found.append(_filled(inputs, paths, tokens, reply, seed=number))
    return found


def _filled(
    inputs: Inputs, paths: Sequence[Path], tokens: int, max_tokens: int, seed: int
) -> JudgeRequest:
    """A request whose prompt has so many tokens, or as few more as a word has."""
    words = random.Random(seed).choices(WORDS, k=tokens)  # noqa: S311 - made-up words

    def with_words(count: int) -> JudgeRequest:
        parts = (RUBRIC, *paths, " ".join(words[:count]))
        return JudgeRequest(parts=parts, max_tokens=max_tokens)

    counts = range(1, tokens)
    count = bisect.bisect_left(counts, tokens, key=lambda n: inputs.length(with_words(n)))
    return with_words(counts[count])


@pytest.fixture(scope="module")
def expected(
    checkpoint: Checkpoint, inputs: Inputs, requests: Sequence[JudgeRequest]
) -> list[Said]:
    """What transformers makes of each request alone."""
    model = load_model(checkpoint, device=torch.device("cpu"), dtype=torch.float32)
    found = []
    for key, request in enumerate(requests):
        work = inputs.work(key, request)
        raw = None if work.tiles is None else torch.from_numpy(work.tiles)
        tiles = None if raw is None else normalized(raw, torch.float32)
        (ids,) = generate(
            model, [(work.ids, tiles)], max_new_tokens=work.max_new_tokens, facts=checkpoint.facts
        )
        text = prompt.finish(checkpoint.tokenizer.decode(ids))
        ended = ids[-1] == checkpoint.facts.end_token_id
        found.append(Said(text, len(work.ids), len(ids), ended))
    return found


def _judged(folder: Path, requests: Sequence[JudgeRequest], **options: str) -> list[Said]:
    given = {"model": str(folder), "device": "cpu", "dtype": "float32", **options}
    judge = registry.create("mmie_score", given, {})
    found = dict(judge.ask(requests))
    judge.close()  # type: ignore[attr-defined]
    replies = [found[index] for index in range(len(requests))]
    assert all(isinstance(reply, JudgeReply) for reply in replies), replies
    return [_said(reply) for reply in replies if isinstance(reply, JudgeReply)]


def _said(reply: JudgeReply) -> Said:
    usage = reply.usage
    return Said(reply.text, usage.input_tokens, usage.output_tokens, reply.finish == "stop")


def test_the_requests_lie_on_both_sides_of_the_border_and_across_it(expected: list[Said]) -> None:
    short, picture, across, above = expected
    assert short.prompt_tokens < 160
    assert 450 <= picture.prompt_tokens < 460
    assert across.prompt_tokens < BORDER - 1
    assert across.prompt_tokens + across.reply_tokens > BORDER + 2
    assert above.prompt_tokens > BORDER
    assert [said.ended for said in expected] == [True, False, False, False]


def test_what_is_computed_together_is_what_each_is_alone(
    folder: Path, requests: list[JudgeRequest], expected: list[Said]
) -> None:
    assert _judged(folder, requests) == expected


def test_one_row_at_a_time_says_the_same(
    folder: Path, requests: list[JudgeRequest], expected: list[Said]
) -> None:
    assert _judged(folder, requests[:2], max_rows="1") == expected[:2]
