"""The digest of a checkpoint's content."""

from os import SEEK_END, SEEK_SET

import pytest
from support.tiny_checkpoint import SHARDS, TinyCheckpoint, safetensors_file

from mmie_tasks.judges.mmie_score.checkpoint import CheckpointLocation, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.files import (
    DIGEST_BLOCK_BYTES,
    DIGEST_BLOCKS,
    digest_of,
)


def digest(tiny):
    return open_checkpoint(CheckpointLocation(folder=tiny.folder, name="local folder")).digest


@pytest.fixture
def tiny(tmp_path):
    return TinyCheckpoint.copied_to(tmp_path / "checkpoint")


def test_the_same_content_in_another_folder_has_the_same_digest(tiny, tmp_path):
    original = digest(tiny)
    assert len(original) == 12
    assert int(original, 16) >= 0
    assert digest(TinyCheckpoint.copied_to(tmp_path / "elsewhere")) == original


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: t.set_field("max_dynamic_patch", 13), id="config"),
        pytest.param(
            lambda t: t.set_field("legacy", True, "tokenizer_config.json"), id="tokenizer"
        ),
        *(
            pytest.param(
                lambda t, s=shard, p=position: t.flip_byte(s, p), id=f"{shard[:11]}-{position}"
            )
            for shard in SHARDS[::3]
            for position in (-1, -4096)
        ),
    ],
)
def test_other_content_has_another_digest(tiny, change):
    before = digest(tiny)
    change(tiny)
    assert digest(tiny) != before


def large(path, blocks):
    """A file of that many blocks of zeros, as a hole on the disk."""
    size = blocks * DIGEST_BLOCK_BYTES
    header = {"a": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}
    start = safetensors_file(header)
    with path.open("wb") as file:
        file.write(start)
        file.truncate(len(start) + size)
    return len(start)


@pytest.mark.parametrize("blocks", [DIGEST_BLOCKS, DIGEST_BLOCKS + 1, 3 * DIGEST_BLOCKS + 7])
def test_a_large_file_is_sampled_from_its_first_byte_to_its_last(tmp_path, blocks):
    path = tmp_path / "model.safetensors"
    start = large(path, blocks)
    digests = {digest_of([], [path])}
    for position in (start, start + blocks * DIGEST_BLOCK_BYTES // (DIGEST_BLOCKS - 1), -1):
        with path.open("r+b") as file:
            file.seek(position, SEEK_SET if position >= 0 else SEEK_END)
            file.write(b"1")
        digests.add(digest_of([], [path]))
    assert len(digests) == 4
