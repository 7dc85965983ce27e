"""What a writer has written survives a kill."""

from __future__ import annotations

import pytest

from mmie_tasks.interleaved.text_files import WrittenText, read_text, save_texts, text_path

TEXT = WrittenText(text="A\n\ud800", tokens={"output_tokens": 3})


def test_a_text_is_read_back_by_its_request_only(tmp_path):
    save_texts({text_path(tmp_path, "request 1 \ud800"): TEXT})
    assert read_text(text_path(tmp_path, "request 1 \ud800")) == TEXT
    assert read_text(text_path(tmp_path, "request 2")) is None


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"text": 1, "tokens": null}', '{"text": "A', "\xff", "9" * 5000]
)
def test_a_file_of_another_form_is_no_text(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_text(content, encoding="latin-1")
    assert read_text(path) is None


def test_a_folder_that_cannot_be_written_is_one_warning_and_no_error(tmp_path, logs):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "folder"
    save_texts({text_path(folder, key): TEXT for key in "ab"})
    assert len(logs) == 1
    assert read_text(text_path(folder, "a")) is None
