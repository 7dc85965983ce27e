"""Splitting requests into files and reading lines, without a server."""

import json
import time
import tracemalloc
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st
from support.judge_asking import settings_of

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.openai.batch_files import Limits, read_result_lines, write_requests
from mmie_tasks.judges.openai.batch_note import BatchNote, Submission
from mmie_tasks.judges.openai.chat_request import chat_body
from mmie_tasks.judges.openai.dialect import PLAIN


def parts(folder, requests, limits):
    """The files made of the requests, and the errors of those in none."""
    waiting, files, broken = dict(requests), [], {}
    while waiting:
        path = folder / "x.jsonl"
        part = write_requests(path, waiting, lambda request: {"text": request.parts[0]}, limits)
        assert part.keys or part.broken
        for key in (*part.keys, *part.broken):
            del waiting[key]
        broken |= part.broken
        if part.keys:
            files.append(path.read_bytes())
    return files, broken


@given(
    texts=st.lists(st.text(max_size=80), max_size=12),
    number=st.integers(1, 5),
    size_bytes=st.integers(120, 700),
)
def test_every_request_is_in_one_file_unless_it_is_too_large(
    tmp_path_factory, texts, number, size_bytes
):
    requests = {
        str(index): JudgeRequest(parts=(text,), max_tokens=1) for index, text in enumerate(texts)
    }
    limits = Limits(requests=number, size_bytes=size_bytes)
    files, broken = parts(tmp_path_factory.mktemp("files"), requests, limits)
    lines = [json.loads(line) for file in files for line in file.split(b"\n") if line]
    assert [line["custom_id"] for line in lines] == [key for key in requests if key not in broken]
    assert all(line["body"]["text"] == requests[line["custom_id"]].parts[0] for line in lines)
    assert all(len(file) <= size_bytes and file.count(b"\n") <= number for file in files)


def peak_bytes(path, requests):
    """The most memory that was in use while a file was written."""
    settings = settings_of()
    tracemalloc.start()
    write_requests(path, requests, lambda request: chat_body(request, settings, PLAIN), Limits())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_the_number_of_images(tmp_path):
    image = tmp_path / "a.png"
    image.write_bytes(bytes(10**6))
    requests = {str(n): JudgeRequest(parts=(str(n), image), max_tokens=1) for n in range(20)}
    two = peak_bytes(tmp_path / "x.jsonl", dict(list(requests.items())[:2]))
    twenty = peak_bytes(tmp_path / "x.jsonl", requests)
    assert twenty < two + 10**6


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["custom_id", "response", "status_code", "body", "error"]), inner
        )
    ),
)


@given(JSON)
def test_any_json_line_is_parsed_or_ignored(value):
    keys = (
        [value["custom_id"]]
        if isinstance(value, dict) and isinstance(value.get("custom_id"), str)
        else []
    )
    assert list(read_result_lines([json.dumps(value).encode()], keys)) in ([], keys)


@given(JSON)
def test_a_note_of_any_json_is_read_or_an_error(tmp_path_factory, value):
    note = BatchNote(tmp_path_factory.mktemp("notes"), server="s", signature="j")
    note.path.write_text(json.dumps(value))
    with suppress(DataBroken):
        assert all(isinstance(entry, Submission) for entry in note.load())


def test_an_entry_whose_batch_the_provider_has_deleted_is_forgotten(tmp_path):
    note = BatchNote(tmp_path, server="s", signature="j")
    for age in (31, 29):
        begun_s = time.time() - age * 86400
        note.put(Submission(keys=("k",), nonce=str(age), begun_s=begun_s, batch="b"))
    assert [entry.nonce for entry in note.load()] == ["29"]
