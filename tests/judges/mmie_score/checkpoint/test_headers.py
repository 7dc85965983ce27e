"""Safetensors files that are cut, broken or lie about their size; nothing large is allocated."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tiny_checkpoint import INTERNVL, SHARDS, TinyCheckpoint, safetensors_file

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import CheckpointLocation, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.files import (
    MAX_HEADER_BYTES,
    read_header,
    read_headers,
)

GOOD = (INTERNVL / "checkpoint" / SHARDS[3]).read_bytes()


def entry(shape=(2,), start=0, end=4, dtype="BF16"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def error_of(path, content):
    path.write_bytes(content)
    with pytest.raises(JudgeMisconfigured) as caught:
        read_header(path)
    assert f"`{path}`" in str(caught.value)
    return str(caught.value)


def test_tensors_are_read_in_their_order_with_type_shape_and_size(path):
    header = {"b": entry((3, 1), 4, 16, "F32"), "__metadata__": {"format": "pt"}, "a": entry()}
    path.write_bytes(safetensors_file(header, bytes(16)))
    first, second = read_header(path)
    assert (first.name, first.dtype, first.shape, first.n_bytes) == ("a", "BF16", (2,), 4)
    assert (second.name, second.shape, second.n_bytes) == ("b", (3, 1), 12)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "is cut off, or its header is broken", id="empty"),
        pytest.param(GOOD[:7], "header too small", id="cut-in-the-length"),
        pytest.param(GOOD[:100], "invalid header length", id="cut-in-the-header"),
        pytest.param(GOOD[:-1], "is cut off, or its header is broken", id="cut-in-the-data"),
        pytest.param(GOOD + b"\0", "file not fully covered", id="longer"),
        pytest.param(bytes([*[255] * 8]) + GOOD, "header too large", id="exabytes"),
        pytest.param(b"version https://git-lfs.github.com/spec/v1", "Git LFS", id="lfs-pointer"),
        pytest.param(safetensors_file(b"{"), "is cut off, or its header is broken", id="one-byte"),
        pytest.param(safetensors_file(b"{x"), "is broken", id="no-json"),
        pytest.param(safetensors_file(b"[" * 100_000), "is broken", id="deep"),
        pytest.param(safetensors_file([1]), "invalid type: sequence", id="list"),
        pytest.param(
            safetensors_file(b'{"a": 1, "a": 2}'), "invalid type: integer `1`", id="twice"
        ),
        pytest.param(safetensors_file({"a": 7}), "invalid type: integer `7`", id="no-entry"),
        pytest.param(
            safetensors_file({"a": {"dtype": "BF16"}}), "missing field `shape`", id="fields"
        ),
    ],
)
def test_an_incomplete_file_is_refused(path, content, message):
    assert message in error_of(path, content)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        pytest.param(entry((3,)), "invalid shape, data type, or offset", id="shape-and-place"),
        pytest.param(entry((-2,), 0, -4), "integer `-2`", id="negative"),
        pytest.param(entry((True, 2)), "boolean `true`", id="bool"),
        pytest.param(entry((2.0,)), "floating point `2.0`", id="float"),
        pytest.param(entry((2**62, 2**62), 0, 2**125), "expected usize", id="huge"),
        pytest.param(entry((2**38,), 0, 2**39), "is cut off", id="gigabytes"),
        pytest.param(entry(start=2, end=6), "invalid offset for tensor `a`", id="gap"),
        pytest.param(entry((4,), dtype="I8"), "'I8'", id="quantized"),
        pytest.param(entry((4,), dtype="F8_E4M3"), "'F8_E4M3'", id="fp8"),
    ],
)
def test_an_impossible_entry_is_refused(path, tensor, message):
    assert message in error_of(path, safetensors_file({"a": tensor}, bytes(4)))


def test_tensors_may_not_overlap(path):
    header = {"a": entry(), "b": entry((2,), 2, 6)}
    assert "invalid offset for tensor `b`" in error_of(path, safetensors_file(header, bytes(6)))


def test_a_header_that_is_too_long_is_refused_unread(path):
    with path.open("wb") as file:  # a sparse file, which needs no space
        file.write((MAX_HEADER_BYTES + 1).to_bytes(8, "little"))
        file.truncate(MAX_HEADER_BYTES + 1024)
    with pytest.raises(JudgeMisconfigured, match="header too large"):
        read_header(path)


def test_a_tensor_in_two_files_is_refused(tmp_path):
    paths = [tmp_path / "1.safetensors", tmp_path / "2.safetensors"]
    for path in paths:
        path.write_bytes(safetensors_file({"a": entry()}, bytes(4)))
    with pytest.raises(JudgeMisconfigured, match="`a` is both in"):
        read_headers(paths)


@pytest.mark.parametrize("shard", SHARDS)
def test_a_truncated_shard_is_named_when_the_checkpoint_is_opened(tmp_path, shard):
    tiny = TinyCheckpoint.copied_to(tmp_path / "checkpoint")
    tiny.truncate(shard)
    with pytest.raises(JudgeMisconfigured, match=f"{shard}` is cut off"):
        open_checkpoint(CheckpointLocation(folder=tiny.folder, name="local folder"))


@given(
    header=st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from(["BF16", "F32", "a"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["a", "dtype", "shape", "data_offsets", "__metadata__"]), inner
            )
        ),
    )
)
def test_any_header_is_read_or_refused(header, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    path.write_bytes(safetensors_file(header))
    try:
        read_header(path)
    except JudgeMisconfigured:
        assert json.dumps(header) != "{}"
