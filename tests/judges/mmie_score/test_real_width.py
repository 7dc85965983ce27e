"""The judge at the width of the real model, in fp32, against transformers' own ``generate()``.

Two layers of each kind, real tiles, random weights. In two sizes the text model is smaller than the
real one, which saves three quarters of the time: between the two projections of an MLP, and in the
limit between short and long rotary factors, here 1,024 tokens and not 4,096.
"""

from __future__ import annotations

import bisect
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.judge_creation import create
from support.judge_engines import references
from support.random_checkpoint import REAL_WIDTH, write
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, CheckpointLocation, open_checkpoint
from mmie_tasks.judges.mmie_score.inputs import prompt_length, prompt_of, reply_text
from mmie_tasks.record.reply import JudgeReply

pytestmark = needs_transformers_5

SHAPE = replace(REAL_WIDTH, long_after=1024, text=replace(REAL_WIDTH.text, intermediate_size=1024))
LIMIT = SHAPE.long_after
RUBRIC = "Look at the question and its pictures, then at the answer, and rate it step by step. " * 3
WORDS = ("fold", "the", "paper", "twice", "water", "cut", "slowly", "green", "picture", "and", "it")
SMALL, LARGE = (512, 512), (700, 690)  # pixels: 1 tile, and 4 with a thumbnail
REQUESTS = {  # images, tokens of the prompt (or a few more), tokens of the reply
    "text only": ((), 150, 24),
    "one image": ((SMALL,), 450, 12),
    "two images, across the limit while decoding": ((SMALL, SMALL), LIMIT - 8, 14),
    "above the limit from the start": ((LARGE,), LIMIT + 400, 8),
}


@dataclass(frozen=True)
class Reply:
    """A reply and its numbers."""

    text: str
    prompt_tokens: int
    reply_tokens: int
    ended: bool


@pytest.fixture(scope="module", autouse=True)
def threads() -> Iterator[None]:
    """One share of the cores: more threads slow each other down, and other tests too."""
    before = torch.get_num_threads()
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    written = write(tmp_path_factory.mktemp("real_width") / "checkpoint", SHAPE, seed=7)
    yield written
    shutil.rmtree(written)


@pytest.fixture(scope="module")
def checkpoint(folder: Path) -> Checkpoint:
    return open_checkpoint(CheckpointLocation(folder=folder, name="random"))


@pytest.fixture(scope="module")
def requests(
    checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory
) -> list[JudgeRequest]:
    images = tmp_path_factory.mktemp("images")
    generator = np.random.default_rng(3)
    requests = []
    for number, (sizes, tokens, reply) in enumerate(REQUESTS.values()):
        paths = [images / f"{number}-{n}.png" for n in range(len(sizes))]
        for path, (width, height) in zip(paths, sizes, strict=True):
            noise = generator.integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8)
            Image.fromarray(noise).resize((width, height)).save(path)
        requests.append(_request_of_length(checkpoint, paths, tokens, reply, seed=20 + number))
    return requests


def _request_of_length(
    checkpoint: Checkpoint, paths: Sequence[Path], tokens: int, max_tokens: int, seed: int
) -> JudgeRequest:
    """A request with a prompt of `tokens` tokens, or a few more to end with a whole word."""
    words = random.Random(seed).choices(WORDS, k=tokens)  # noqa: S311 - made-up words

    def with_words(count: int) -> JudgeRequest:
        parts = (RUBRIC, *paths, " ".join(words[:count]))
        return JudgeRequest(parts=parts, max_tokens=max_tokens)

    counts = range(1, tokens)
    count = bisect.bisect_left(
        counts, tokens, key=lambda n: prompt_length(with_words(n), checkpoint)
    )
    return with_words(counts[count])


@pytest.fixture(scope="module")
def expected(checkpoint: Checkpoint, requests: Sequence[JudgeRequest]) -> list[Reply]:
    """Replies of transformers to each request alone."""
    prompts = [
        prompt_of(request.parts, checkpoint, key=key, max_new_tokens=request.max_tokens)
        for key, request in enumerate(requests)
    ]
    replies = []
    for prompt, reference in zip(prompts, references(checkpoint, prompts), strict=True):
        text = reply_text(checkpoint.tokenizer.decode(reference.ids))
        ended = reference.ids[-1] == checkpoint.end_token_id
        replies.append(Reply(text, len(prompt.ids), len(reference.ids), ended))
    return replies


def _replies(folder: Path, requests: Sequence[JudgeRequest], **options: str) -> list[Reply]:
    all_options = {"model": str(folder), "device": "cpu", "dtype": "float32", **options}
    judge = create("mmie_score", all_options, {})
    outcomes = dict(judge.ask(requests))
    judge.close()  # type: ignore[attr-defined]
    replies = [outcomes[index] for index in range(len(requests))]
    assert all(isinstance(reply, JudgeReply) for reply in replies), replies
    return [_reply(reply) for reply in replies if isinstance(reply, JudgeReply)]


def _reply(reply: JudgeReply) -> Reply:
    usage = reply.usage
    return Reply(reply.text, usage.input_tokens, usage.output_tokens, reply.finish == "stop")


def test_the_prompts_are_below_above_and_across_the_limit(expected: list[Reply]) -> None:
    short, image, across, above = expected
    assert short.prompt_tokens < 160
    assert 450 <= image.prompt_tokens < 460
    assert across.prompt_tokens < LIMIT - 1
    assert across.prompt_tokens + across.reply_tokens > LIMIT + 2
    assert above.prompt_tokens > LIMIT
    assert [reply.ended for reply in expected] == [True, False, False, False]


def test_requests_together_have_the_replies_that_they_have_alone(
    folder: Path, requests: list[JudgeRequest], expected: list[Reply]
) -> None:
    assert _replies(folder, requests) == expected
