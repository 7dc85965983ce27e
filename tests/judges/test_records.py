"""The JSONL form of a kept reply, and what is said of a line that is none."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.recordings import jsonl, recordings, some_reply

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.judges.cache_store import read_records, to_line

FIELDS = json.loads(to_line(some_reply("1")))


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(recordings, max_size=3))
def test_what_is_written_is_read_again(tmp_path, records):
    assert list(read_records(jsonl(tmp_path / "r.jsonl", *records))) == records


def test_unknown_keys_and_blank_lines_and_a_byte_order_mark_are_nothing(tmp_path):
    path = tmp_path / "r.jsonl"
    more = json.dumps({**FIELDS, "note": [1], "usage": {**FIELDS["usage"], "cached": 3}})
    path.write_bytes(b"\xef\xbb\xbf" + more.encode() + b"\r\n\n  \n" + more.encode())
    assert list(read_records(path)) == [some_reply("1")] * 2


def usage(**changed):
    return {"usage": {**FIELDS["usage"], **changed}}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        pytest.param({"signature": None}, "`signature` is missing or null", id="no signature"),
        pytest.param({"request": "a" * 63}, "`request` is not", id="a short key"),
        pytest.param({"request": "A" * 64}, "`request` is not", id="a key in capitals"),
        pytest.param({"text": ["words"]}, "`text` is a list", id="no text"),
        pytest.param({"model": 4}, "`model` is 4", id="no model"),
        pytest.param({"finish": "filter"}, "`finish` is 'filter'", id="another ending"),
        pytest.param({"usage": None}, "`usage` is missing", id="no usage"),
        pytest.param({"time": 1.5}, "`time` is 1.5", id="half a second"),
        pytest.param({"time": True}, "`time` is a bool", id="true"),
        pytest.param({"time": -1}, "`time` is -1", id="before 1970"),
        pytest.param({"time": 10**18}, "`time` is 1000", id="nanoseconds"),
        pytest.param(usage(input_tokens=-3), "`input_tokens` is -3", id="tokens below nothing"),
        pytest.param(usage(output_tokens="3"), "`output_tokens` is a str", id="tokens in words"),
        pytest.param(usage(cost_usd="1 USD"), "`cost_usd` is a str", id="money in words"),
        pytest.param(usage(cost_usd=float("nan")), "`cost_usd`", id="not a number"),
        pytest.param(usage(cost_usd=10**400), "`cost_usd`", id="all the money there is"),
    ],
)
def test_a_line_that_is_no_reply_is_named_with_its_number(tmp_path, changed, problem):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(FIELDS) + "\n\n" + json.dumps({**FIELDS, **changed}) + "\n")
    with pytest.raises(DataBroken) as caught:
        list(read_records(path))
    assert f"{path}, line 3: {problem}" in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"[]", id="a list"),
        pytest.param(b"{", id="cut off"),
        pytest.param(b'{"signature": "\xff"}', id="not UTF-8"),
        pytest.param(b"[" * 100_000, id="nested without end"),
        pytest.param(b"9" * 5000, id="a number without end"),
    ],
)
def test_a_line_that_is_no_object_is_named_with_its_number(tmp_path, line):
    path = tmp_path / "r.jsonl"
    path.write_bytes(line + b"\n")
    with pytest.raises(DataBroken, match="line 1: "):
        list(read_records(path))
