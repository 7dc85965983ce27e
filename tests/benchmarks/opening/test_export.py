"""``mmie-tasks export opening``: what the official summary reads."""

import json

import pytest
from support.opening_data import reply

from mmie_tasks.benchmarks.opening.export import run_export
from mmie_tasks.core.errors import AnswersUnusable


def line(uid, *replies, judges=1):
    verdicts = {"official": {"points": 7}, "robust": {"points": 7}}
    answered = ({"text": text, "model": "m"} for text in replies)
    judgement = {
        "judge": {"judges": [{"judge": "a"}]},
        "result": dict(zip(("reply", "second_reply"), answered, strict=False)),
        "verdicts": verdicts,
    }
    record = {"id": uid, "verdicts": verdicts, "judgements": [judgement] * judges}
    return {"doc_id": 0, "filtered_resps": "a", "record": record}


def run(folder, *lines):
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "20260101_000000_samples_opening.jsonl"
    log.write_text("".join(f"{json.dumps(one)}\n" for one in lines), encoding="utf-8")
    return folder


WRAPPED = json.dumps({"scores": json.loads(reply(7))})


def test_the_replies_that_the_summary_can_read_are_written(tmp_path):
    folder = run(
        tmp_path / "a",
        line("0101001", reply(7)),
        line("0101002", "no", reply(8)),  # asked twice
        line("0101003", WRAPPED),  # the summary drops it
        line("0101004", "7"),  # it would end the summary
        line("0101005"),
    )
    told = run_export([str(folder), "-o", str(tmp_path), "--model", "A"], {})
    assert "3 of 5 samples of A" in told
    entries = json.loads((tmp_path / "gpt-score_results.json").read_text(encoding="utf-8"))
    model = {"id": "0", "name": "A"}
    assert entries == [
        {"data_id": "0101001", "model": model, "score": json.loads(reply(7))},
        {"data_id": "0101002", "model": model, "score": json.loads(reply(8))},
        {"data_id": "0101003", "model": model, "score": json.loads(WRAPPED)},
    ]


def test_a_run_of_several_judges_cannot_be_exported(tmp_path):
    folder = run(tmp_path / "a", line("0101001", reply(7), judges=2))
    with pytest.raises(AnswersUnusable, match="several judges"):
        run_export([str(folder), "-o", str(tmp_path)], {})
