from __future__ import annotations

import math
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.judge_server import JudgeServer
from support.logged_runs import mia_lines, milebench_lines, mmie_lines, write_run
from support.report_runs import run, sample

import mmie_tasks
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.verdict import Unscored, Verdicts
from mmie_tasks.record.judgement import Judged, Judgement
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.segment import Segment
from mmie_tasks.record.signature import Signature

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "analysis.py"
SCORE_COLUMNS = (
    *("task", "metric", "title", "group", "kind"),
    *("percent", "low", "high", "scored", "total", "left_out", "why_not"),
)
SAMPLE_COLUMNS = [
    *("id", "official", "robust", "official_percent", "robust_percent"),
    *("unscored", "robust_unscored", "unscored_detail", "differ"),
    *("question", "gold", "answer", "answer_images", "answer_digest"),
    *("judge", "reply", "second_reply"),
    *("input_tokens", "output_tokens", "cost_usd", "cached", "signature"),
]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    lines = mmie_lines(90, unscored=0.05, image="a.png", in_proportion=True)
    write_run(tmp_path / "out" / "model", "mmie", lines)
    write_run(tmp_path / "out" / "model", "mia_bench", mia_lines(16))
    write_run(tmp_path / "out" / "model", "milebench", milebench_lines(1))
    return tmp_path / "out"


def test_samples_of_a_run_are_a_table_with_a_row_per_logged_sample(out: Path) -> None:
    frame = mmie_tasks.load_run(out).samples("mmie")
    logged = mmie_tasks.load_run(out).tasks["mmie"].records
    assert list(frame.columns) == [*SAMPLE_COLUMNS, "category", "field"]
    assert list(frame["id"]) == [entry.id for entry in logged]
    unscored = frame[frame["unscored"].notna()]
    assert 0 < len(unscored) < len(frame)
    assert unscored["official"].isna().all()
    assert set(unscored["unscored"]) == {"unparsed"}
    scored = frame.query("official.notna()")
    assert [*scored["unscored"].unique()] == [*frame["second_reply"].unique()] == [None]
    assert frame.loc[frame["official"] == 3, "official_percent"].eq(50).all()
    assert frame.groupby("category").size().to_dict() == {"SA": 23, "PBL": 51, "MSR": 16}
    assert frame["judge"].eq("made-up").all()
    assert frame["reply"].str.startswith("### Feedback").all()
    assert frame["cost_usd"].sum() == pytest.approx(0.003 * len(frame))
    assert frame["answer"].iloc[0].startswith("model-a: ")
    assert frame["answer"].iloc[0].endswith("\n<image>")
    assert frame["answer_images"].iloc[0] == ["a.png"]


def test_a_lone_surrogate_in_any_text_is_a_replacement_character() -> None:
    bad, plain = "a\ud83d", "a\N{REPLACEMENT CHARACTER}"
    content = (Segment(text=bad, image=bad),)
    judged = Judged.by(
        [
            Judgement(
                judge=Signature.parse("judge:made_up"),
                result=JudgeResult(reply=JudgeReply(text=bad, model=bad)),
                verdicts=Verdicts.unscored("unparsed", bad),
            )
        ]
    )
    hostile = sample(
        bad,
        question=content,
        gold=content,
        answer=content,
        groups={bad: (bad,)},
        shares={"official": {bad: 0.5}},
        judgements=judged.judgements,
    )
    frame = run("a", [replace(hostile, official=Unscored("unparsed", bad))]).samples()
    (row,) = frame.to_dict("records")
    named = ("id", "unscored_detail", "judge", "reply", plain)
    assert [row[name] for name in named] == [plain] * len(named)
    assert row["question"] == row["gold"] == row["answer"] == f"{plain}\n<image>"
    assert row["answer_images"] == [plain]
    assert row[f"official_{plain}"] == 50


def test_groups_and_components_are_columns(out: Path) -> None:
    opened = mmie_tasks.load_run(str(out))
    assert tuple(opened.tasks) == ("mia_bench", "milebench", "mmie")
    frame = opened.samples("mia_bench")
    indicators = frame["component"].str.get_dummies()
    assert indicators.sum(axis=1).eq(2).all()
    assert frame.loc[indicators["math"] == 0, "official_math"].isna().all()
    assert frame.loc[indicators["math"] == 1, "official_math"].between(0, 100).all()
    milebench = opened.samples("milebench")
    assert milebench["dataset"].nunique() == 29
    assert milebench["judge"].isna().all()
    assert milebench["reply"].isna().all()


def test_a_group_never_hides_another_column() -> None:
    frame = run("a", [sample("1", groups={"reply": ("short",)})]).samples()
    assert frame["group_reply"].to_list() == ["short"]
    assert frame["reply"].isna().all()


def test_a_sample_without_points_is_not_a_number_and_never_zero() -> None:
    frame = run("a", [sample("1", None, robust=4), sample("2", 2)]).samples()
    assert math.isnan(frame["official"][0])
    assert frame["unscored"][0] == "unparsed"
    assert frame["robust_unscored"].isna().all()
    assert frame["differ"].to_list() == [True, False]
    assert frame["official_percent"].mean() == 50


def test_scores_are_those_of_the_results_commands(out: Path) -> None:
    opened = mmie_tasks.load_run(out)
    frame = opened.scores()
    assert tuple(frame.columns) == SCORE_COLUMNS
    task = opened.tasks["mmie"]
    for metric in task.benchmark.metrics[:3]:
        value = task.score(metric, "robust")
        assert value is not None
        name = f"robust_{metric.name}" if metric.name else "robust"
        row = frame[(frame["task"] == "mmie") & (frame["metric"] == name)].iloc[0]
        assert (row["scored"], row["total"]) == (value.scored, value.total)
        assert row["percent"] == value.percent
        assert value.interval is not None
        assert (row["low"], row["high"]) == value.interval
    assert frame["percent"].dtype == float


def test_a_score_that_does_not_exist_has_a_reason() -> None:
    scores = run("a", [sample("1", None), sample("2", 2)]).scores()
    row = scores[scores["metric"] == "official"].iloc[0]
    assert pd.isna(row["percent"])
    assert row["why_not"] == "only 1 of 2 samples have a score"
    assert {scores[column].dtype for column in ("percent", "low", "high")} == {np.dtype(float)}


def test_a_run_is_one_line_and_in_a_notebook_a_small_table(out: Path) -> None:
    opened = mmie_tasks.load_run(out)
    counts = "mia_bench (16 samples), milebench (29 samples), mmie (90 samples)"
    assert repr(opened) == f"<run 'model': {counts}>"
    page = opened._repr_html_()
    assert page.count("<tr") == 1 + 2 * (2 + 2 + 1)  # header; both scores of each headline
    assert all(task in page for task in opened.tasks)
    odd = run("<b>\n", [sample("1", 2)])
    assert "\n" not in repr(odd)
    assert "<b>" not in odd._repr_html_()
    tasks = {f"task_{n}": opened.tasks["mmie"] for n in range(29)}
    many = replace(opened, tasks=tasks)
    assert "task_4 (90 samples), 24 more tasks>" in repr(many)


def test_errors_name_the_tasks_that_a_run_has(out: Path, tmp_path: Path) -> None:
    opened = mmie_tasks.load_run(out)
    with pytest.raises(SettingWrong, match=r"(?s)task `mme`.*`mia_bench`, `milebench`, `mmie`"):
        opened.samples("mme")
    with pytest.raises(SettingWrong, match="has several tasks"):
        opened.samples()
    with pytest.raises(AnswersUnusable, match="does not exist"):
        mmie_tasks.load_run(tmp_path / "nowhere")


def test_the_example_reads_a_run_and_asks_a_judge(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    with JudgeServer("a kite") as server:
        words = [str(EXAMPLE), str(out), f"openai:judge-model,base_url={server.url}"]
        monkeypatch.setattr(sys, "argv", words)
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.endswith("a kite\na kite\n")
    assert all(words in printed for words in ("PBL", "mia_bench", "robust_real"))
    assert [len(body["messages"][0]["content"]) for body in server.asked] in ([2, 1], [1, 2])
