"""A file is there whole or not at all."""

import pytest

from mmie_tasks.core.files import atomic_write


def test_a_file_whose_writing_fails_stays_as_it_was(tmp_path):
    target = tmp_path / "new" / "replies.jsonl"
    with atomic_write(target) as part:
        part.write_text("first")
    with pytest.raises(OSError, match="disk"), atomic_write(target) as part:  # noqa: PT012
        part.write_text("half")
        raise OSError("disk full")
    assert [path.read_text() for path in target.parent.iterdir()] == ["first"]
