"""A fine-tune that was saved unmerged: it is merged exactly, or refused with a message."""

import pytest
import torch
from support.tiny_checkpoint import TinyCheckpoint
from support.unmerged import split

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import CheckpointLocation, open_checkpoint
from mmie_tasks.judges.mmie_score.transformers_engine import load_model

WRAPPED = "language_model.base_model.model.model.layers.{}.mlp.down_proj"
PLAIN = "language_model.model.layers.{}.mlp.down_proj.weight"


@pytest.fixture
def merged_checkpoint(tmp_path):
    return TinyCheckpoint.copied_to(tmp_path / "merged")


@pytest.fixture
def tiny(tmp_path):
    checkpoint = TinyCheckpoint.copied_to(tmp_path / "wrapped")
    checkpoint.store(split(checkpoint.tensors()))
    return checkpoint


def open_tiny(tiny):
    return open_checkpoint(CheckpointLocation(folder=tiny.folder, name="local folder"))


def loaded(tiny):
    return load_model(open_tiny(tiny), device=torch.device("cpu"), dtype=torch.float32).state_dict()


def error_of(tiny):
    with pytest.raises(JudgeMisconfigured) as caught:
        open_tiny(tiny)
    return str(caught.value)


def test_an_unmerged_fine_tune_gives_the_merged_weights(tiny, merged_checkpoint):
    merged, expected = loaded(tiny), loaded(merged_checkpoint)
    assert merged.keys() == expected.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(merged[name], weight, rtol=0, atol=1e-6)


def add_merged(tensors):
    tensors[PLAIN.format(0)] = tensors[f"{WRAPPED.format(0)}.base_layer.weight"].clone()


def other_shape(tensors):
    name = f"{WRAPPED.format(0)}.lora_A.default.weight"
    tensors[name] = tensors[name][:, 1:]


def other_rank(tensors):
    name = f"{WRAPPED.format(0)}.lora_A.default.weight"
    tensors[name] = tensors[name][1:]


def other_adapter(tensors):
    for part in ("lora_A", "lora_B"):
        name = f"{WRAPPED.format(0)}.{part}.default.weight"
        tensors[name.replace("default", "second")] = tensors.pop(name)


@pytest.mark.parametrize("change", [add_merged, other_shape, other_rank, other_adapter])
def test_tensors_that_do_not_fit_together_are_refused(tiny, change):
    tiny.change_tensors(change)
    assert PLAIN.format(0) in error_of(tiny)
