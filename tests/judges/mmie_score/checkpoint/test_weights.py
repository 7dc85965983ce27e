"""The loaded model against the official outputs: vision and weights."""

import numpy as np
import pytest
import torch
from support.internvl_golden import CHECKPOINT, vision_outputs
from support.tiny_checkpoint import TinyCheckpoint
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import CheckpointLocation, open_checkpoint
from mmie_tasks.judges.mmie_score.native_model import load_model
from mmie_tasks.judges.mmie_score.tiles import read_tiles
from mmie_tasks.judges.mmie_score.transformers_engine import normalized

pytestmark = needs_transformers_5

CPU = torch.device("cpu")
HEAD = "language_model.lm_head.weight"
QKV = "vision_model.encoder.layers.0.attn.qkv.weight"


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Many threads only wait for each other on a model this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def checkpoint():
    return open_checkpoint(CheckpointLocation(folder=CHECKPOINT, name="local folder"))


@pytest.fixture(scope="module")
def model(checkpoint):
    return load_model(checkpoint, device=CPU, dtype=torch.float32)


def pixels(image):
    return normalized(torch.from_numpy(read_tiles(image, 56).copy()), torch.float32)


@pytest.mark.parametrize("image", [pytest.param(path, id=path.stem) for path in vision_outputs()])
def test_image_features_are_the_official_ones(model, image):
    features = model.model.get_image_features(
        pixels(image), vision_feature_layer=-1, vision_feature_select_strategy="default"
    )
    assert np.abs(features.pooler_output.numpy() - vision_outputs()[image]).max() < 5e-5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda t: t.pop(HEAD), f"lacks 1 weights; the first is `{HEAD}`", id="less"),
        pytest.param(
            lambda t: t.update({"mlp2.weight": torch.zeros(1)}), "`mlp2.weight`", id="more"
        ),
        pytest.param(
            lambda t: t.update({"mlp1.0.bias": torch.zeros(255)}), "size mismatch", id="shape"
        ),
        pytest.param(lambda t: t.update({HEAD: t[HEAD][:990]}), "size mismatch", id="row"),
        pytest.param(lambda t: t.update({QKV: t[QKV][:-3]}), "size mismatch", id="fused"),
    ],
)
def test_every_weight_must_have_its_shape_and_no_other_may_exist(tmp_path, change, message):
    tiny = TinyCheckpoint.copied_to(tmp_path / "checkpoint")
    tiny.change_tensors(change)
    checkpoint = open_checkpoint(CheckpointLocation(folder=tiny.folder, name="local folder"))
    with pytest.raises(JudgeMisconfigured) as caught:
        load_model(checkpoint, device=CPU, dtype=torch.float32)
    assert message in str(caught.value)
    assert str(tiny.folder) in str(caught.value)
