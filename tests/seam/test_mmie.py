"""MMIE through lmms-eval itself, on small generated folders, with a loopback judge."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.judge_server import JudgeServer
from support.mmie_judge import by_category, content_of, gives, text_of
from support.mmie_seam import (
    KEY,
    TABLE,
    JudgedRun,
    N,
    create_workplace,
    evaluate,
    printed,
    results,
    samples,
)
from support.runner import Workplace

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def judged_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgedRun]:
    """A run with default settings of MMIE, its categories and a sample of it."""
    workplace = create_workplace(tmp_path_factory.mktemp("mmie"))
    tasks = "mmie,mmie_sa,mmie_pbl,mmie_msr,mmie_1k"
    with JudgeServer(by_category, key=KEY) as judge:
        result = evaluate(workplace, url=judge.url, tasks=tasks)
        yield JudgedRun(workplace=workplace, judge=judge, result=result)


def test_a_judge_server_gets_the_official_request_and_its_replies_give_the_table(
    judged_run: JudgedRun,
) -> None:
    workplace, judge, result = judged_run.workplace, judged_run.judge, judged_run.result
    assert TABLE.items() <= printed(result).items(), result.output
    (tale,) = [body for body in judge.asked if "Tale 0 begins" in text_of(body)]
    assert text_of(tale) == (
        "Rate the tale.### Question\nTale 0 begins.\nImage-0: <image>\n\n### Answer\nThen a.\n"
        "Image-1: <image>\nThen b.\nImage-2: <image>\n\n### Feedback\n"
    )
    pictures = [part for part in content_of(tale) if isinstance(part, bytes)]
    folder = workplace.folder
    shown = ("data/images/0.png", "drawn/0-a.png", "drawn/0-b.png")
    assert pictures == [(folder / name).read_bytes() for name in shown]
    (total,) = [body for body in judge.asked if "How much is 2 and 2" in text_of(body)]
    assert "### Correct Answer\nIt is 4\n" in text_of(total)
    logged = samples(workplace)
    assert all("### Score" in json.dumps(line["record"]["judgements"]) for line in logged)
    assert [line["record"]["facts"].get("truncated") for line in logged] == [1, 1, None] * 2
    message = results(workplace)
    signature = message["configs"]["mmie"]["metadata"]["signature"]
    for part in ("judge:openai|model:judge-model|t:0", "|paper_judge:no|", "|prompt:other:"):
        assert part in signature
    assert signature in result.output
    assert message["usage"]["by_source"]["judge"]["n_api_calls"] == N
    assert KEY not in result.output + json.dumps(logged)


def test_the_categories_are_tasks_and_so_is_a_sample_of_a_thousand(judged_run: JudgedRun) -> None:
    percent = {"MMIE SA": 50.0, "MMIE PBL": 66.67, "MMIE MSR": 100.0, "MMIE 1K": 72.22}
    assert {alias: printed(judged_run.result, alias)["official"] for alias in percent} == percent
    assert len(judged_run.judge) == N  # other requests for a sample are served from the cache


def test_an_exported_run_can_be_scored_again_with_the_same_table(judged_run: JudgedRun) -> None:
    workplace, result = judged_run.workplace, judged_run.result
    assert TABLE.items() <= printed(result).items(), result.output
    (log,) = (workplace.folder / "out").rglob("*_samples_mmie.jsonl")
    command = f"mmie-tasks export mmie {log} -o official --model ours"
    exported = workplace.run(*command.split(), MMIE_DATA="data")
    assert "6 samples and 26 images written to `official`." in exported.output, exported.output
    (workplace.folder / "answers.json").unlink()
    options = ("--model", "predictions", "--model_args", "path=official/data.json")
    replayed = ("--launcher_args", "name=replay,prompts=words.json", "--output_path", "again")
    result = evaluate(workplace, *options, *replayed)
    assert TABLE.items() <= printed(result).items(), result.output
    assert len(judged_run.judge) == N
    rows = json.loads((workplace.folder / "official" / "data.json").read_text())
    (row,) = (row for row in rows if row["id"] == samples(workplace)[0]["record"]["id"])
    assert row.keys() >= {"id", "model", "question", "answer", "gt_answer"}
    assert [part["text"] for part in row["answer"]] == ["Then a.", "Then b.", "Then c."]


def test_missing_answers_and_judge_failures_are_counted_and_not_scored_zero(
    workplace: Workplace, judge: JudgeServer
) -> None:
    saved_answers = json.loads((workplace.folder / "answers.json").read_text())
    saved_answers[0]["answer"] = None
    saved_answers[1]["answer"] = "[LMMS_EVAL_REQUEST_FAILED after 3 retries] 503"
    saved_answers[3]["answer"][0]["image"] = "drawn/not-there.png"
    (workplace.folder / "answers.json").write_text(json.dumps(saved_answers))
    judge.says(lambda body: gives("none") if "Tale 4" in text_of(body) else by_category(body))
    counted = ("--model", "predictions", "--model_args", "path=answers.json,missing=count")
    result = evaluate(workplace, *counted, url=judge.url)
    assert "1 of 6 images of answers missing" in result.output
    values = printed(result)
    assert values["coverage"] == 50.0, result.output
    assert "official" not in values
    assert (values["unscored_no_answer"], values["unscored_unparsed"]) == (2.0, 1.0)
    assert values["missing_images"] == 1.0
    assert values["parse_rate"] == 75.0
    assert [line["score"] for line in samples(workplace)].count(None) == 3


def test_images_of_a_drawing_model_on_two_processes_are_judged(
    workplace: Workplace, judge: JudgeServer
) -> None:
    workplace.install(EXAMPLES / "interleaved_model")
    options = ("--model", "drawing", "--model_args", "output_dir=drawings")
    result = evaluate(workplace, *options, url=judge.url, processes=2)
    assert TABLE.items() <= printed(result).items(), result.output
    assert len(judge) == N
    (tale,) = [body for body in judge.asked if "Tale 0 begins" in text_of(body)]
    assert re.search(r"\nPart 1.*\nImage-1: <image>\nPart 2.*\nImage-2: <image>\n", text_of(tale))
    drawings = workplace.folder / "drawings"
    shown = [drawings / f"mmie-0-{number}.png" for number in (1, 2)]
    pictures = [part for part in content_of(tale) if isinstance(part, bytes)]
    assert pictures[1:] == [path.read_bytes() for path in shown]
