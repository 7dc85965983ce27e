"""MMIE-Score on transformers gives the official replies, whatever else is in a batch."""

import hashlib
from dataclasses import replace
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import internvl_golden as golden
from support import random_checkpoint
from support.judge_engines import (
    CPU,
    golden_prompts,
    open_folder,
    other_prompts,
    outputs,
    references,
)
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.base import JudgeUnavailable
from mmie_tasks.judges.mmie_score import transformers_engine
from mmie_tasks.judges.mmie_score.inputs import JudgePrompt
from mmie_tasks.judges.mmie_score.native_model import load_model
from mmie_tasks.judges.mmie_score.tiles import read_tiles
from mmie_tasks.judges.mmie_score.transformers_engine import TransformersEngine, normalized

pytestmark = needs_transformers_5

CASES = golden.cases()
PROMPTS = golden_prompts()
EXPECTED = {key: [*case.output_ids] for key, case in enumerate(CASES)}
BORDER = 256  # of the golden checkpoint


@pytest.fixture(scope="module")
def checkpoint():
    return open_folder(golden.CHECKPOINT)


@pytest.fixture(scope="module")
def model(checkpoint):
    return load_model(checkpoint, device=CPU, dtype=torch.float32)


@pytest.mark.parametrize("case", golden.read("preprocess_cases")["images"])
def test_normalized_values_of_pixels_equal_the_official_ones_bit_for_bit(case):
    cut = read_tiles(golden.FOLDER / case["image"], case["tile"])
    values = normalized(torch.from_numpy(cut), torch.float32)
    assert values.is_contiguous()
    assert hashlib.sha256(values.numpy().tobytes()).hexdigest() == case["float32_sha256"]


@pytest.fixture(scope="module")
def expected(checkpoint):
    return references(checkpoint, PROMPTS)


def words(length: int, key: int = 99) -> JudgePrompt:
    """A prompt of so many tokens."""
    random = Random(length)  # noqa: S311 - made-up words
    ids = [1, *(random.randrange(30, 900) for _ in range(length - 1))]
    return JudgePrompt(key=key, ids=ids, max_new_tokens=12)


def test_the_references_have_the_recorded_logits_of_the_official_code(expected):
    for case, reference in zip(CASES, expected, strict=True):
        assert reference.ids == [*case.output_ids]
        for step, name in ((0, case.name), (-1, f"{case.name}/last_step")):
            assert np.abs(reference.logits[step].numpy() - golden.logits()[name]).max() < 1e-4


@pytest.fixture(scope="module")
def mixed(checkpoint):
    """Short and long prompts, and such whose replies cross the border, with their replies."""
    others = [*other_prompts(checkpoint), words(BORDER + 1), words(BORDER + 50)]
    pairs = [*zip(PROMPTS, EXPECTED.values(), strict=True)]
    pairs += zip(others, (one.ids for one in references(checkpoint, others)), strict=True)
    ends = [(len(prompt.ids), len(prompt.ids) + len(output)) for prompt, output in pairs]
    assert sum(end < BORDER for _, end in ends) > 3
    assert sum(start > BORDER for start, _ in ends) > 1
    assert sum(start < BORDER < end - 1 for start, end in ends) > 1
    return pairs


@given(
    mix=st.lists(st.tuples(st.integers(0, 19), st.integers(1, 40)), min_size=1, max_size=14),
    max_rows=st.integers(1, 9),
    round_steps=st.integers(1, 12),
)
@settings(max_examples=8, deadline=None)
def test_any_mix_in_any_order_gives_the_tokens_of_each_request_alone(
    model, checkpoint, mixed, mix, max_rows, round_steps
):
    """Limits cut replies at any token, also at the last one of a round and at the border."""
    engine = TransformersEngine(model, checkpoint, max_rows=max_rows, round_steps=round_steps)
    prompts, expected = [], {}
    for key, (number, limit) in enumerate(mix):
        prompt, output = mixed[number]
        limit = min(limit, prompt.max_new_tokens)
        prompts.append(replace(prompt, key=key, max_new_tokens=limit))
        expected[key] = output[:limit]
    assert outputs(engine, prompts) == expected


@pytest.fixture(scope="module")
def crossing(checkpoint):
    """Prompts that end just before the border or after it, and their replies."""
    prompts = [words(length, key=length) for length in range(BORDER - 6, BORDER + 4)]
    replies = references(checkpoint, prompts)
    return prompts, {one.key: reply.ids for one, reply in zip(prompts, replies, strict=True)}


@pytest.mark.parametrize("round_steps", [1, 3, 64])
def test_a_reply_may_cross_the_border_in_any_round(model, checkpoint, crossing, round_steps):
    prompts, replies = crossing
    engine = TransformersEngine(model, checkpoint, round_steps=round_steps)
    assert outputs(engine, [*PROMPTS, *prompts]) == {**EXPECTED, **replies}


def test_rows_that_ended_are_not_computed_any_more(model, checkpoint, monkeypatch):
    calls = Failing(monkeypatch, model)
    limits = (1, 4, 8, 16)
    prompts = [replace(PROMPTS[0], key=n, max_new_tokens=limit) for n, limit in enumerate(limits)]
    outputs(TransformersEngine(model, checkpoint, round_steps=4), prompts)
    assert calls.rows == [4, 2, 1, 1]


def test_another_size_and_two_images_of_13_tiles_give_the_tokens_of_transformers(tmp_path):
    folder = random_checkpoint.write(tmp_path / "random", random_checkpoint.TINY_SHAPE)
    checkpoint = open_folder(folder)
    prompts = other_prompts(checkpoint)
    engine = TransformersEngine.start(checkpoint, device=CPU, dtype=torch.float32)
    expected = references(checkpoint, prompts)
    assert outputs(engine, prompts) == {key: one.ids for key, one in enumerate(expected)}


class Failing:
    """A model whose calls run out of memory with more rows or tokens than these.

    Attributes:
        rows: The number of rows of each call.
    """

    def __init__(self, monkeypatch, model, most_rows=99, most_tokens=9999, after=0) -> None:
        self.rows: list[int] = []
        generate = model.generate

        def failing(**arguments):
            rows, tokens = arguments["input_ids"].shape
            self.rows.append(rows)
            if (rows > most_rows or tokens > most_tokens) and len(self.rows) > after:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore")
            return generate(**arguments)

        monkeypatch.setattr(model, "generate", failing)


@pytest.mark.parametrize("after", [0, 2], ids=["at-once", "in-round-3"])
def test_a_batch_without_memory_is_computed_in_halves(monkeypatch, model, checkpoint, logs, after):
    calls = Failing(monkeypatch, model, most_rows=4, after=after)
    released: list[int] = []
    monkeypatch.setattr(
        transformers_engine, "release_memory", lambda: released.append(len(calls.rows))
    )
    assert outputs(TransformersEngine(model, checkpoint, round_steps=3), PROMPTS) == EXPECTED
    assert calls.rows[after] > 4
    assert calls.rows[-1] <= 4
    assert released[0] == after + 1  # before anything is computed again
    assert any("ran out of memory" in message for message in logs)


def test_a_request_without_memory_costs_no_other_its_reply(monkeypatch, model, checkpoint):
    longest = max(PROMPTS, key=lambda prompt: len(prompt.ids))
    Failing(monkeypatch, model, most_tokens=len(longest.ids) - 1)
    replies = dict(TransformersEngine(model, checkpoint).run(PROMPTS))
    failed = replies.pop(longest.key)
    assert isinstance(failed, JudgeUnavailable)
    assert "Tried to allocate 2 GiB" in str(failed)
    outputs_of_others = {key: reply.output for key, reply in replies.items()}
    assert outputs_of_others | {longest.key: EXPECTED[longest.key]} == EXPECTED
