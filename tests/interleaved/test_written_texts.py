"""What a writer has written survives a kill, and nothing else does."""

from __future__ import annotations

import pytest

from mmie_tasks.interleaved.written_texts import WrittenText, WrittenTexts

KEYS = ["writer", "request 1", "request 2"]
TEXTS = {0: WrittenText(text="A\n\ud800", tokens={"output_tokens": 3}), 1: WrittenText(text="B")}


def test_texts_are_read_back_by_the_same_requests_only(tmp_path):
    with WrittenTexts(tmp_path, KEYS) as texts:
        texts.add({0: TEXTS[0]})
        texts.add({1: TEXTS[1]})
    with WrittenTexts(tmp_path, KEYS) as texts:
        assert texts.read() == TEXTS
    for others in (
        ["other writer", *KEYS[1:]],
        KEYS[:2],
        [*KEYS[:2], "request 3"],
        ["writerrequest 1", "request 2"],
    ):
        with WrittenTexts(tmp_path, others) as texts:
            assert texts.read() == {}


def test_a_line_that_a_kill_cut_off_is_ignored_and_does_not_spoil_the_next(tmp_path):
    with WrittenTexts(tmp_path, KEYS) as texts:
        texts.add({0: TEXTS[0]})
    (file,) = tmp_path.glob("*.jsonl")
    with file.open("a") as stream:
        stream.write('\n{"position": 1, "te')
    with WrittenTexts(tmp_path, KEYS) as texts:
        assert texts.read() == {0: TEXTS[0]}
        texts.add({1: TEXTS[1]})
        assert texts.read() == TEXTS


@pytest.mark.parametrize(
    "line", ["[]", "{}", '{"position": 0, "text": 1, "tokens": null}', "\xff", "9" * 5000]
)
def test_lines_of_another_form_are_ignored(tmp_path, line):
    with WrittenTexts(tmp_path, KEYS) as texts:
        texts.add({1: TEXTS[1]})
    (file,) = tmp_path.glob("*.jsonl")
    file.write_text(f"{line}\n{file.read_text()}", encoding="latin-1")
    with WrittenTexts(tmp_path, KEYS) as texts:
        assert texts.read() == {1: TEXTS[1]}


def test_nothing_is_left_of_a_finished_run(tmp_path):
    with WrittenTexts(tmp_path, KEYS) as texts:
        texts.add(TEXTS)
        texts.delete()
    assert list(tmp_path.iterdir()) == []
    with WrittenTexts(tmp_path, KEYS) as texts:
        assert texts.read() == {}


def test_two_runs_at_once_do_not_share_a_file(tmp_path):
    with WrittenTexts(tmp_path, KEYS) as first, WrittenTexts(tmp_path, KEYS) as second:
        first.add({0: TEXTS[0]})
        second.add({1: TEXTS[1]})
        assert second.read() == {}
        second.delete()
        assert first.read() == {0: TEXTS[0]}


def test_a_folder_that_cannot_be_written_ends_no_run(tmp_path):
    (tmp_path / "file").write_text("")
    with WrittenTexts(tmp_path / "file" / "folder", KEYS) as texts:
        texts.add(TEXTS)
        assert texts.read() == {}
        texts.delete()
