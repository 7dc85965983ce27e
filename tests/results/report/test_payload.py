from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.judgements import replied
from support.logged_runs import mia_lines, milebench_lines, mmie_lines, write_run
from support.people import labels_of, write_labels
from support.report_runs import SIGNATURE, run, sample
from support.stored_exams import write_exam

from mmie_tasks.quality.annotator import open_annotator
from mmie_tasks.quality.calibrate.correct import correct
from mmie_tasks.record.reply import JudgeReply, Usage
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.segment import Segment
from mmie_tasks.results.commands import open_runs
from mmie_tasks.results.report.command import payload
from mmie_tasks.results.report.page import render
from mmie_tasks.runs.marks import paper_marks
from mmie_tasks.runs.run import Run

NO_GRADES = {"XDG_CACHE_HOME": "/nowhere"}
NOT_SHOWN = "the difference of the runs is not shown: they were not scored alike"


def payload_of(
    *runs: Run,
    people: Sequence[str] = (),
    population: Any = "larger",
    environment: Mapping[str, str] = NO_GRADES,
    **settings: Any,
) -> Any:
    annotator = open_annotator(runs, people, environment, population)
    settings = {"title": "Made up", "made": "2026-11-21 14:00 UTC", **settings}
    content = payload(runs, annotator, corrected_only=population == "run", **settings)
    json.dumps(content, allow_nan=False, ensure_ascii=False).encode()
    return content


def task_of(*runs: Run, **settings: Any) -> Any:
    (only_task,) = payload_of(*runs, **settings)["tasks"]
    return only_task


def details_of(task_payload: Any) -> list[Any]:
    unpacked = (gzip.decompress(base64.b64decode(chunk)) for chunk in task_payload["chunks"])
    return [detail for text in unpacked for detail in json.loads(text)]


def image(path: Path, side_px: int = 100) -> str:
    Image.effect_noise((side_px, side_px), 80).save(path)
    return str(path)


def shown_samples(task_payload: Any) -> list[int]:
    """Indices of the samples with an image."""
    return [
        index
        for index, detail in enumerate(details_of(task_payload))
        if "x-picture-" in json.dumps(detail)
    ]


@pytest.fixture(scope="module")
def three_benchmarks(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    tmp_path = tmp_path_factory.mktemp("runs")
    for name, skill in (("good", 0.8), ("bad", 0.3)):
        picture = image(tmp_path / "kite.png")
        folder = tmp_path / name
        write_run(folder, "mmie", mmie_lines(60, skill=skill, answers=name, image=picture))
        write_run(folder, "milebench", milebench_lines(3, skill=skill, answers=name))
        write_run(folder, "mia_bench", mia_lines(40, skill=skill, answers=name))
    return open_runs([str(tmp_path / "good"), str(tmp_path / "bad")])


def test_logs_of_the_three_benchmarks_give_a_complete_payload(three_benchmarks: list[Run]) -> None:
    content = payload_of(*three_benchmarks)
    assert [one_run["name"] for one_run in content["runs"]] == ["good", "bad"]
    assert "not the judge's error" in content["judge_error"]
    titles = {one_task["title"]: one_task["judged"] for one_task in content["tasks"]}
    assert titles == {"MIA-Bench": True, "MileBench": False, "MMIE": True}
    for one_task in content["tasks"]:
        samples = one_task["samples"]
        count = len(samples["ids"])
        assert {len(samples["first"]), len(samples["disputed"])} == {count}
        assert [len(column) for column in samples["points"]["official"]] == [count, count]
        assert one_task["tables"][0]["kind"] == "headline"
        assert one_task["present"] == [0, 1]
        details = details_of(one_task)
        assert len(details) == count
    mmie = details[0]
    for pieces in (mmie["question"], mmie["gold"], *(of_run["answer"] for of_run in mmie["runs"])):
        assert any(piece.get("image") for piece in pieces)


def test_the_three_benchmarks_have_their_charts(three_benchmarks: list[Run]) -> None:
    charts = {
        one_task["title"]: {chart["id"] for chart in one_task["charts"]}
        for one_task in payload_of(*three_benchmarks)["tasks"]
    }
    assert {"component-bars", "component-radar", "type-bars"} <= charts["MIA-Bench"]
    assert {"dataset-bars", "level-lines", "needles-heat-0", "task-bars"} <= charts["MileBench"]
    assert {"category-bars", "field-bars", "points"} <= charts["MMIE"]
    assert "category-radar" not in charts["MMIE"]  # of three categories


def test_a_summary_holds_the_samples_the_judge_and_the_marks_of_a_run(
    three_benchmarks: list[Run],
) -> None:
    content = payload_of(*three_benchmarks)
    assert content["runs"][0]["started"] == "2026-11-21 12:00 (time zone not logged)"
    summaries = {one_task["task"]: one_task["summaries"][1] for one_task in content["tasks"]}
    marks = list(paper_marks(three_benchmarks[1].tasks["mmie"]))
    expected = {"run": 1, "judge": "made-up", "grades": ["ungraded"], "published": 20_103}
    assert summaries["mmie"] == {**expected, "marks": marks, "corrected": None}
    assert "60 of 20,103 samples" in marks
    assert (summaries["milebench"]["judge"], summaries["milebench"]["grades"]) == ("", [])
    assert task_of(run("one", [sample("1")]))["summaries"][0]["published"] is None


def test_a_graded_judge_has_its_grade_beside_its_name_and_in_a_line_of_its_own(
    tmp_path: Path,
) -> None:
    environment = {"MMIE_TASKS_CACHE": str(tmp_path)}
    write_exam(environment, "judge:made_up|model:made-up", 71.08)
    made_up, other = (f"judge:made_up|model:{name}" for name in ("made-up", "other"))
    panel = f"panel:mean,min_valid=2|{made_up}|{other}|paper_judge:no"
    runs = [run(text[-7:], [sample("1", signature=text)]) for text in (made_up, other, panel)]
    content = payload_of(*runs, environment=environment)
    grade = "agreement with people 71.08 %"
    assert [summary["grades"] for summary in content["tasks"][0]["summaries"]] == [
        [grade],
        ["ungraded"],
        [f"made-up: {grade}", "other: ungraded"],
    ]
    assert content["tasks"][0]["summaries"][2]["judge"] == "panel of made-up, other (mean)"
    assert [line.partition(" [")[0] for line in content["judges"]] == [
        "Judge of Sketch: made-up agrees with people on 71.08",
        "Judge of Sketch: other is ungraded.",
    ]


def test_people_correct_the_headlines_of_the_runs_whose_answers_they_scored(
    three_benchmarks: list[Run], tmp_path: Path
) -> None:
    good, bad = (opened.tasks["mmie"] for opened in three_benchmarks)
    labels = labels_of(good, samples=30, raters=("ann", "bo"))
    content = payload_of(*three_benchmarks, people=[write_labels(tmp_path / "people.csv", labels)])
    by_task = {
        one_task["task"]: [s["corrected"] for s in one_task["summaries"]]
        for one_task in content["tasks"]
    }
    correction = correct(good, labels, population="larger")
    score = correction.headline.corrected
    assert score is not None
    assert score.interval is not None
    first, second = by_task["mmie"]
    ends = (score.value, score.interval.low, score.interval.high)
    assert (first["percent"], first["low"], first["high"]) == pytest.approx(ends, abs=1e-6)
    assert first["notes"] == ["30 labels by 2 raters", correction.worth]
    assert (second["percent"], second["notes"]) == (None, [correct(bad, labels).headline.why_not])
    assert by_task["mia_bench"] == by_task["milebench"] == [None, None]
    assert "corrected by people hold the judge's error too" in content["judge_error"]


def test_intervals_for_the_runs_samples_leave_corrected_scores_only(
    three_benchmarks: list[Run], tmp_path: Path
) -> None:
    labels = labels_of(three_benchmarks[0].tasks["mmie"], samples=30)
    people = [write_labels(tmp_path / "people.csv", labels)]
    page = render(payload_of(*three_benchmarks, people=people, population="run"))
    overview = page.partition('id="overview"')[2].partition("</section>")[0]
    assert overview.count('<th scope="rowgroup"') == 1
    assert "corrected by people" in overview
    assert " of 60" not in overview
    assert "for the samples of these runs only" in overview


def test_hostile_text_anywhere_becomes_json() -> None:
    bad = "</script>\x00\ud83d\u202e" * 3
    reply = JudgeReply(text=bad, model=bad)
    hostile = sample(
        bad,
        question=(Segment(bad, bad),),
        gold=(Segment(bad),),
        judgements=replied(reply),
        signature=bad,
        category=bad,
        groups={bad: (bad,)},
        facts={bad: bad},
    )
    bad_run = replace(run(bad, [hostile], notes=(bad,)), notes=(bad,), folder=Path(bad))
    content = payload_of(bad_run, title=bad)
    assert content["title"] == "</script>␀�\u202e" * 3


def test_signatures_and_spend_are_those_of_the_runs() -> None:
    usage = Usage(input_tokens=10, output_tokens=5, cost_usd=0.25)
    replies = (JudgeReply(text="x", model="m", usage=usage, cached=True),) * 2
    judged = run(
        "one", [sample("1", judgements=replied(*replies)), sample("2", signature="judge:other|t:1")]
    )
    content = task_of(judged, run("two", [sample("1")]))
    assert content["signatures"] == [SIGNATURE, "judge:other|t:1"]
    assert [detail["runs"][0]["signature"] for detail in details_of(content)] == [0, 1]
    spent = {"replies": 2, "cached": 2, "models": {"m": 2}, "input_tokens": 20}
    assert content["spend"] == [[0, {**spent, "output_tokens": 10, "cost_usd": 0.5}]]
    assert content["notes"] == [
        [1, "it lacks 1 sample that other runs have"],
        [None, f"{NOT_SHOWN}, they differ in judge, model, task, t"],
    ]


def test_long_signatures_that_differ_late_are_shown_as_different() -> None:
    shared = "|".join(f"judge:openai|model:{'m' * 300}" for _ in range(9))
    one, two = (f"panel:mean,min_valid=2|{shared}|paper_judge:no|t:{t}|pkg:0.1.0" for t in (0, 1))
    content = payload_of(run("one", [sample("1", signature=one), sample("2", signature=two)]))
    (task,) = content["tasks"]
    assert len(task["signatures"][0]) < len(one)
    assert task["mixed_keys"] == ["t"]
    rows = {row["key"]: row for row in task["signature_rows"]}
    assert list(rows) == ["panel", "judge", "model", "paper_judge", "t", "pkg"]
    assert (rows["t"]["values"], rows["t"]["differs"]) == (["0", "1"], True)
    assert [key for key, row in rows.items() if row["differs"]] == ["t"]
    assert "more characters in the log" in rows["model"]["values"][0]
    assert 'signatures differ in <b class="log-text">t</b>' in render(content)


def test_the_cost_is_unknown_if_that_of_one_reply_is() -> None:
    replies = [JudgeReply(text="x", model="m", usage=Usage(cost_usd=cost)) for cost in (1.0, None)]
    content = task_of(run("one", [sample("1", judgements=replied(*replies))]))
    assert content["spend"][0][1]["cost_usd"] is None


def pictured(folder: Path, points: Iterable[float]) -> list[LoggedSample]:
    """Samples with one picture each, all different."""
    return [
        sample(str(index), value, question=(Segment(image=image(folder / f"{index}.png", 192)),))
        for index, value in enumerate(points)
    ]


def test_a_small_budget_shows_the_worst_samples_and_is_noted(tmp_path: Path) -> None:
    one = run("one", pictured(tmp_path, [4, 0, 3, 1]))
    size = len(payload_of(one)["pictures"][0])
    content = payload_of(one, budget_characters=int(2.2 * size))
    (only_task,) = content["tasks"]
    assert shown_samples(only_task) == [1, 3]
    assert len(content["pictures"]) == 2
    assert [run for run, note in only_task["notes"] if "2 images left out" in note] == [None]
    assert "left out for lack of space" in details_of(only_task)[0]["question"][0]["note"]


def test_all_tasks_share_one_budget(tmp_path: Path) -> None:
    samples = pictured(tmp_path, [4, 4])
    two = replace(
        run("one", samples),
        tasks={**run("one", samples).tasks, **run("one", samples, task="sketch_x").tasks},
    )
    size = len(payload_of(run("one", samples))["pictures"][0])
    content = payload_of(two, budget_characters=int(2.2 * size))
    assert [len(shown_samples(task_payload)) for task_payload in content["tasks"]] == [1, 1]


def test_an_image_of_many_samples_is_in_the_page_once(tmp_path: Path) -> None:
    question = (Segment(image=image(tmp_path / "a.png")),)
    content = payload_of(run("one", [sample(str(k), 1, question=question) for k in range(30)]))
    assert len(content["pictures"]) == 1
    assert shown_samples(content["tasks"][0]) == list(range(30))
