"""Files of other tools: what they have is named, and the given Python makes answers of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from mmie_tasks.answers.files import read_answers
from mmie_tasks.core.errors import AnswersUnusable

ANSWERS = {"q1": "B", "q2": "A, \u201cred\u201d"}


def lines(records: Sequence[object]) -> bytes:
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


def batch_line(name: str, answer: str) -> dict[str, object]:
    message = {"role": "assistant", "content": answer, "refusal": None}
    body = {"id": "c", "model": "m", "choices": [{"index": 0, "message": message}]}
    response = {"status_code": 200, "request_id": f"r-{name}", "body": body}
    return {"id": f"b-{name}", "custom_id": name, "response": response, "error": None}


def failed(response: object) -> dict[str, object]:
    return {"id": "b-3", "custom_id": "q3", "response": response, "error": {"message": "no"}}


BATCH = [batch_line(*item) for item in ANSWERS.items()]
REFUSED = failed({"status_code": 400, "request_id": "r", "body": {"error": {"message": "no"}}})
EVALSCOPE = [
    {
        "index": name,
        "model": "m",
        "messages": [{"role": "user", "content": "Which?"}],
        "model_output": {
            "choices": [{"message": {"content": answer, "role": "assistant"}}],
            "error": None,
        },
        "metadata": {"answer": "C"},
    }
    for name, answer in ANSWERS.items()
]
MESSAGES = [
    {
        "custom_id": name,
        "result": {
            "type": "succeeded",
            "message": {"id": "m", "content": [{"type": "text", "text": answer}]},
        },
    }
    for name, answer in ANSWERS.items()
]
ROWS = [
    {"index": name, "question": "Which?", "A": "red", "answer": "C", "prediction": answer}
    for name, answer in ANSWERS.items()
]
WITH_GOLD = [{"id": name, "answer": "C", "prediction": text} for name, text in ANSWERS.items()]
KEYED = {row["index"]: {"origin_prompt": "Which?", **row} for row in ROWS}
TABLE = pd.DataFrame(ROWS)


@pytest.mark.parametrize(
    ("name", "content", "fields"),
    [
        pytest.param("a.jsonl", lines(BATCH), "`custom_id`, `response`", id="batch of OpenAI"),
        pytest.param("a.jsonl", lines([*BATCH, failed(None)]), "`error`", id="failed request"),
        pytest.param("a.jsonl", lines([REFUSED, *BATCH]), "`error`", id="refused request"),
        pytest.param("a.jsonl", lines(MESSAGES), "`result`", id="batch of Anthropic"),
        pytest.param("a.jsonl", lines(EVALSCOPE), "`model_output`", id="evalscope"),
        pytest.param("a.jsonl", lines(ROWS), "`prediction`", id="JSONL"),
        pytest.param("a.jsonl", lines(WITH_GOLD), "`prediction`", id="id, gold answer, prediction"),
        pytest.param("a.json", json.dumps(ROWS).encode(), "`prediction`", id="list"),
        pytest.param(
            "a.json", json.dumps({"count": 2, "data": ROWS}).encode(), "`answer`", id="list in key"
        ),
        pytest.param("a.json", json.dumps(KEYED).encode(), "`origin_prompt`", id="by id"),
        pytest.param("a.jsonl.gz", gzip.compress(lines(BATCH)), "`custom_id`", id="JSONL, gz"),
        pytest.param("a.csv", TABLE.to_csv(index=False).encode(), "`prediction`", id="CSV"),
        pytest.param(
            "a.csv.gz", gzip.compress(TABLE.to_csv(index=False).encode()), "`A`", id="CSV, gz"
        ),
        pytest.param(
            "a.tsv", TABLE.to_csv(index=False, sep="\t").encode(), "`prediction`", id="TSV"
        ),
        pytest.param("a.xlsx", b"", "`question`", id="VLMEvalKit"),
        pytest.param("a.parquet", b"", "`question`", id="Parquet"),
    ],
)
@pytest.mark.parametrize("is_named", [True, False], ids=["file", "folder"])
def test_the_two_lines_of_python_make_answers_of_a_file_of_another_tool(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: bytes,
    fields: str,
    is_named: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "it's" / name
    path.parent.mkdir()
    path.write_bytes(content)
    if path.suffix == ".xlsx":
        TABLE.to_excel(path, index=False)
    elif path.suffix == ".parquet":
        TABLE.to_parquet(path)
    with pytest.raises(AnswersUnusable) as raised:
        read_answers(str(path if is_named else path.parent))
    message, _, code = str(raised.value).partition(":\n\n")
    assert message.startswith(f"{path} holds answers in no supported format; ")
    assert fields in message
    assert ("answers, 1 of 3 have none" in message) == (fields == "`error`")
    assert len(code.splitlines()) == 2
    exec(code, {})  # noqa: S102 - the code that a user is told to run
    answers = read_answers("answers.jsonl").answers
    assert {answer.id: answer.answer for answer in answers} == ANSWERS


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.xlsx", "a.parquet", "a.jsonl.gz", "a.gz"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x1f\x8b\x08", b"\xff\xfe"])
def test_a_damaged_file_of_another_kind_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AnswersUnusable, match="holds answers in no supported format"):
        read_answers(str(tmp_path / name))


def test_a_file_whose_answers_have_no_known_name_has_its_fields_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("number,gpt\n1,B\n", encoding="utf-8")
    with pytest.raises(AnswersUnusable, match="records have `number`, `gpt`"):
        read_answers(str(tmp_path / "a.csv"))
