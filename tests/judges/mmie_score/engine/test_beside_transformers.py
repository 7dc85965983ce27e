"""The two engines on a random checkpoint of another size: equal tokens and digits."""

from __future__ import annotations

import pytest
import torch
from support import random_checkpoint
from support.judge_engines import (
    CPU,
    assert_equal_digits,
    completed,
    open_folder,
    other_prompts,
    results,
)
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.mmie_score.engine.attention import SdpaAttention
from mmie_tasks.judges.mmie_score.engine.budget import Placement
from mmie_tasks.judges.mmie_score.loading import load_engine
from mmie_tasks.judges.mmie_score.transformers_engine import TransformersEngine

pytestmark = needs_transformers_5

DIGIT_IDS = [*(range(number, 1000, 11) for number in range(9)), ()]


@pytest.mark.parametrize("shape", ["TINY_SHAPE", "REDUCED"])
def test_both_engines_give_the_same_tokens_and_digits(tmp_path, shape):
    folder = random_checkpoint.write(tmp_path / "judge", getattr(random_checkpoint, shape))
    checkpoint = open_folder(folder, DIGIT_IDS)
    prompts = other_prompts(checkpoint)
    placement = Placement(
        device=CPU,
        dtype=torch.float32,
        attention=SdpaAttention(256),
        attention_reason="a test",
        max_memory_bytes=None,
        max_rows=64,
        graphs=False,
        fixed=False,
    )
    paged = results(load_engine(checkpoint, placement), prompts)
    engine = TransformersEngine.start(checkpoint, device=CPU, dtype=torch.float32)
    for key, result in results(engine, prompts).items():
        reply, other = completed(result), completed(paged[key])
        assert (reply.output, reply.finish) == (other.output, other.finish)
        assert_equal_digits(reply.digits, other.digits)
