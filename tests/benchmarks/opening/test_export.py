"""``mmie-tasks export opening``: what the official summary reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.opening_data import reply

from mmie_tasks.benchmarks.opening.export import run_export
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong


def line(uid: str, *replies: str, **fields: object) -> dict[str, Any]:
    record = {
        "id": uid,
        "topic": "storybook_creation",
        "official": {"score": 7},
        "replies": [{"text": text, "model": "m"} for text in replies],
        **fields,
    }
    return {"doc_id": 0, "filtered_resps": "a", "coverage": record}


def run(folder: Path, *lines: object, task: str = "opening") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"20260101_000000_samples_{task}.jsonl"
    log.write_text("".join(f"{json.dumps(one)}\n" for one in lines), encoding="utf-8")
    return folder


WRAPPED = json.dumps({"scores": json.loads(reply(7))})


def test_the_replies_that_the_summary_can_read_are_written(tmp_path: Path) -> None:
    first = run(
        tmp_path / "a",
        line("0101001", reply(7)),
        line("0101002", "no", reply(8)),  # asked twice
        line("0101003", WRAPPED),  # the summary drops it
        line("0101004", "7"),  # it would end the summary
        line("0101005"),
    )
    second = run(tmp_path / "b", line("0101001", reply(6)))
    told = run_export(
        [str(first), str(second), "-o", str(tmp_path), "--model", "A", "--model", "B"], {}
    )
    assert "A: 3 of 5 samples; B: 1 of 1 sample" in told
    entries = json.loads((tmp_path / "gpt-score_results.json").read_text(encoding="utf-8"))
    assert [(e["data_id"], e["model"]["id"], e["model"]["name"]) for e in entries] == [
        ("0101001", "0", "A"),
        ("0101002", "0", "A"),
        ("0101003", "0", "A"),
        ("0101001", "1", "B"),
    ]
    assert [e["score"] for e in entries] == list(
        map(json.loads, (reply(7), reply(8), WRAPPED, reply(6)))
    )


def test_a_run_is_named_by_its_folder(tmp_path: Path) -> None:
    folder = run(tmp_path / "my-model", line("0101001", reply(7)))
    run_export([str(folder), "-o", str(tmp_path / "out.json")], {})
    (entry,) = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert entry["model"] == {"id": "0", "name": "my-model"}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        pytest.param([{"doc_id": 0}], "line 1: not a scored sample", id="no record"),
        pytest.param(
            [line("0101001", reply(7), panel={"rule": "mean"})], "several judges", id="a panel"
        ),
        pytest.param(
            [line("0101001", reply(7)), line("0101001", reply(6))],
            "line 2: the second, different replies to 0101001",
            id="two results",
        ),
    ],
)
def test_what_cannot_be_exported_is_named(tmp_path: Path, lines: list[object], words: str) -> None:
    with pytest.raises(AnswersUnusable, match=words):
        run_export([str(run(tmp_path / "a", *lines)), "-o", str(tmp_path)], {})


def test_a_folder_of_another_benchmark_or_of_two_runs_is_an_error(tmp_path: Path) -> None:
    other = run(tmp_path / "other", line("0101001", reply(7)), task="mmie")
    with pytest.raises(AnswersUnusable, match="0 runs of OpenING"):
        run_export([str(other), "-o", str(tmp_path)], {})
    for name in ("a", "b"):
        run(tmp_path / "two" / name, line("0101001", reply(7)))
    with pytest.raises(AnswersUnusable, match="2 runs of OpenING"):
        run_export([str(tmp_path / "two"), "-o", str(tmp_path)], {})


def test_every_run_needs_a_name_if_one_has_one(tmp_path: Path) -> None:
    with pytest.raises(SettingWrong, match="2 runs, but 1 name"):
        run_export(["a", "b", "-o", str(tmp_path), "--model", "A"], {})
