"""Safetensors files that are cut, broken or of another type."""

import pytest
from support.tiny_checkpoint import INTERNVL, SHARDS, safetensors_file

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint.files import read_headers

GOOD = (INTERNVL / "checkpoint" / SHARDS[3]).read_bytes()


def entry(shape=(2,), start=0, end=4, dtype="BF16"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_tensors_are_read_in_their_order_with_type_shape_and_size(path):
    header = {"b": entry((3, 1), 4, 16, "F32"), "__metadata__": {"format": "pt"}, "a": entry()}
    path.write_bytes(safetensors_file(header, bytes(16)))
    first, second = read_headers([path])
    assert (first.name, first.dtype, first.shape, first.n_bytes) == ("a", "BF16", (2,), 4)
    assert (second.name, second.shape, second.n_bytes) == ("b", (3, 1), 12)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", "cut off", id="empty"),
        pytest.param(GOOD[:-1], "cut off", id="cut-in-the-data"),
        pytest.param(b"version https://git-lfs.github.com/spec/v1", "git lfs pull", id="pointer"),
        pytest.param(safetensors_file({"a": entry((3,))}, bytes(4)), "cut off", id="shape"),
        pytest.param(safetensors_file({"a": entry((4,), dtype="I8")}, bytes(4)), "'I8'", id="int8"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(path, content, words):
    path.write_bytes(content)
    with pytest.raises(JudgeMisconfigured) as caught:
        read_headers([path])
    assert f"`{path}`" in str(caught.value)
    assert words in str(caught.value)
