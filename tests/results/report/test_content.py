"""What the page of runs of the benchmarks says, without a browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.judgements import replied
from support.logged_runs import mia_lines, milebench_lines, mmie_lines, write_run
from support.people import labels_of, write_labels
from support.report_page import NO_GRADES
from support.report_runs import run, sample
from support.stored_exams import write_exam

from mmie_tasks.quality.annotator import open_annotator
from mmie_tasks.quality.calibrate.correct import correct
from mmie_tasks.record.reply import JudgeReply, Usage
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.segment import Segment
from mmie_tasks.results.commands import open_runs
from mmie_tasks.results.report.page import report_page
from mmie_tasks.runs.marks import paper_marks
from mmie_tasks.runs.run import Run

TASKS = ("mia_bench", "milebench", "mmie")
NOT_SHOWN = "the difference of the runs is not shown: they were not scored alike"
PICTURE = re.compile(r'id="x-picture-\d+">([^<]*)')


def page_of(
    *runs: Run,
    people: Sequence[str] = (),
    population: Any = "larger",
    environment: Mapping[str, str] = NO_GRADES,
    **settings: Any,
) -> str:
    annotator = open_annotator(runs, people, environment, population)
    settings = {"title": "Made up", "made": "2026-11-21 14:00 UTC", **settings}
    page = report_page(runs, annotator, corrected_only=population == "run", **settings)
    page.encode()
    return page


def words_of(html: str) -> str:
    return " ".join(unescape(re.sub("<[^>]*>", " ", html)).split())


def part(page: str, name: str) -> str:
    """The words of a section of the page: the overview or a task."""
    return words_of(page.partition(f'id="{name}"')[2].partition("</section>")[0])


def details_of(page: str, task: int = 0) -> list[str]:
    chunks = re.findall(rf'id="x-chunk-{task}-\d+">([^<]*)', page)
    unpacked = (gzip.decompress(base64.b64decode(chunk)) for chunk in chunks)
    return [detail for text in unpacked for detail in json.loads(text)]


def shown_samples(page: str, task: int = 0) -> list[int]:
    """Indices of the samples with an image."""
    return [n for n, detail in enumerate(details_of(page, task)) if "x-picture-" in detail]


def image(path: Path, side_px: int = 100) -> str:
    Image.effect_noise((side_px, side_px), 80).save(path)
    return str(path)


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


def test_logs_of_the_three_benchmarks_give_a_complete_page(three_benchmarks: list[Run]) -> None:
    page = page_of(*three_benchmarks)
    overview = part(page, "overview")
    for words in (
        "good",
        "bad",
        "not the judge's error",
        "2026-11-21 12:00 (time zone not logged)",
    ):
        assert words in overview
    titles = re.findall(r'<section class="task" id="(\w+)"', page)
    assert titles == ["mia_bench", "milebench", "mmie"]
    for number, (task, count) in enumerate(zip(titles, (40, None, 60), strict=True)):
        assert ("Tokens and cost of the judge" in part(page, task)) == (task != "milebench")
        block = re.search(rf'id="x-task-{number}">([^<]*)', page)
        assert block is not None
        columns = json.loads(block[1])
        lengths = {len(columns[name]) for name in ("ids", "first", "disputed", "runs_differ")}
        assert lengths == {len(details_of(page, number))}
        assert count is None or lengths == {count}
    mmie = details_of(page, 2)[0]
    assert mmie.count("data-picture") == 2 + 2 * (mmie.count("image 1 of the answer:") > 0)
    assert "image 1 of the question: kite.png" in mmie


def test_the_three_benchmarks_have_their_charts(three_benchmarks: list[Run]) -> None:
    page = page_of(*three_benchmarks)
    captions = {
        task: set(
            re.findall(
                "<figcaption>(.*?) <small>",
                page.partition(f'id="{task}"')[2].partition("</section>")[0],
            )
        )
        for task in ("mia_bench", "milebench", "mmie")
    }
    assert {"By component", "By component, radar", "By type"} <= captions["mia_bench"]
    assert {"By dataset", "By level", "By task"} <= captions["milebench"]
    assert any(title.startswith("Needles") for title in captions["milebench"])
    assert captions["mmie"] == {"By category", "By field", "Samples by points, 0 to 6"}


def test_the_first_screen_has_the_samples_the_judge_and_the_marks_of_a_run(
    three_benchmarks: list[Run],
) -> None:
    overview = part(page_of(*three_benchmarks), "overview")
    mmie = overview.partition("MMIE")[2]
    for mark in paper_marks(three_benchmarks[1].tasks["mmie"]):
        assert mark in mmie
    for words in ("60 of 20,103 samples", "60 of 60 made-up ungraded"):
        assert words in mmie
    assert "by rule" in overview.partition("MileBench")[2]


def test_a_graded_judge_has_its_grade_next_to_its_name_and_in_a_line_of_its_own(
    tmp_path: Path,
) -> None:
    environment = {"MMIE_TASKS_CACHE": str(tmp_path)}
    write_exam(environment, "judge:made_up|model:made-up", 71.08)
    made_up, other = (f"judge:made_up|model:{name}" for name in ("made-up", "other"))
    panel = f"{made_up}|{other}|paper_judge:no"
    runs = [run(text[-7:], [sample("1", signature=text)]) for text in (made_up, other, panel)]
    overview = part(page_of(*runs, environment=environment), "overview")
    grade = "agreement with people 71.08 %"
    assert f"made-up {grade} " in overview
    assert "other ungraded" in overview
    assert f"panel of made-up, other (median) made-up: {grade} other: ungraded" in overview
    assert "Judge of Sketch: made-up agrees with people on 71.08" in overview
    assert "Judge of Sketch: other is ungraded." in overview


def test_people_correct_the_headlines_of_the_runs_whose_answers_they_scored(
    three_benchmarks: list[Run], tmp_path: Path
) -> None:
    good, bad = (opened.tasks["mmie"] for opened in three_benchmarks)
    labels = labels_of(good, samples=30, raters=("ann", "bo"))
    people = [write_labels(tmp_path / "people.csv", labels)]
    overview = part(page_of(*three_benchmarks, people=people), "overview")
    correction = correct(good, labels, population="larger")
    score = correction.headline.corrected
    assert score is not None
    assert score.interval is not None
    numbers = f"{score.value:.2f} {score.interval.low:.2f} – {score.interval.high:.2f}"
    worth = f"30 labels by 2 raters; {correction.worth}"
    assert f"good corrected by people {numbers} {worth}" in overview
    assert f"bad corrected by people n/a {correct(bad, labels).headline.why_not}" in overview
    assert overview.count("corrected by people n/a") == 1
    assert "corrected by people hold the judge's error too" in overview


def test_intervals_for_the_runs_samples_leave_corrected_scores_only(
    three_benchmarks: list[Run], tmp_path: Path
) -> None:
    labels = labels_of(three_benchmarks[0].tasks["mmie"], samples=30)
    people = [write_labels(tmp_path / "people.csv", labels)]
    page = page_of(*three_benchmarks, people=people, population="run")
    overview = part(page, "overview")
    assert page.partition("</section>")[0].count('<a href="#mmie"') == 2  # in the bar and the table
    assert "corrected by people" in overview
    assert " of 60" not in overview
    assert "for the samples of these runs only" in overview


def test_hostile_text_anywhere_is_escaped_and_safe() -> None:
    bad = "</script>\x00\ud83d\u202e" * 3
    hostile = sample(
        bad,
        question=(Segment(bad, bad),),
        gold=(Segment(bad),),
        judgements=replied(JudgeReply(text=bad, model=bad)),
        signature=bad,
        category=bad,
        groups={bad: (bad,)},
        properties={bad: bad},
    )
    bad_run = replace(run(bad, [hostile], notes=(bad,)), notes=(bad,), folder=Path(bad))
    page = page_of(bad_run, title=bad)
    assert "</script>␀" not in page + "".join(details_of(page))
    assert page.count("&lt;/script&gt;␀�\u202e") > 10


def test_signatures_and_tokens_are_those_of_the_runs() -> None:
    usage = Usage(input_tokens=10, output_tokens=5, cost_usd=0.25)
    replies = (JudgeReply(text="x", model="m", usage=usage, cached=True),) * 2
    judged = run(
        "one", [sample("1", judgements=replied(*replies)), sample("2", signature="judge:other|t:1")]
    )
    page = page_of(judged, run("two", [sample("1")]))
    words = part(page, "sketch")
    assert "one 2 2 20 10 $0.5000 m (2)" in words
    assert "signature judge:other|t:1" in words_of(details_of(page)[1])
    assert "two it lacks 1 sample that other runs have" in words
    assert f"{NOT_SHOWN}, they differ in judge, model, task, t" in words
    assert "their signatures differ in judge, model, task, t, which affects scores" in words


def test_the_cost_is_unknown_if_that_of_one_reply_is() -> None:
    replies = [JudgeReply(text="x", model="m", usage=Usage(cost_usd=cost)) for cost in (1.0, None)]
    words = part(page_of(run("one", [sample("1", judgements=replied(*replies))])), "sketch")
    assert "one 2 0 0 0 n/a m (2)" in words


def pictured(folder: Path, points: Iterable[float]) -> list[LoggedSample]:
    """Samples with one picture each, all different."""
    return [
        sample(str(index), value, question=(Segment(image=image(folder / f"{index}.png", 192)),))
        for index, value in enumerate(points)
    ]


def test_a_small_budget_shows_the_worst_samples_and_is_noted(tmp_path: Path) -> None:
    one = run("one", pictured(tmp_path, [4, 0, 3, 1]))
    size = len(PICTURE.findall(page_of(one))[0])
    page = page_of(one, budget_characters=int(2.2 * size))
    assert shown_samples(page) == [1, 3]
    assert len(PICTURE.findall(page)) == 2
    assert "2 images left out" in part(page, "sketch")
    assert "left out for lack of space" in details_of(page)[0]


def test_all_tasks_share_one_budget(tmp_path: Path) -> None:
    samples = pictured(tmp_path, [4, 4])
    two = replace(
        run("one", samples),
        tasks={**run("one", samples).tasks, **run("one", samples, task="sketch_x").tasks},
    )
    size = len(PICTURE.findall(page_of(run("one", samples)))[0])
    page = page_of(two, budget_characters=int(2.2 * size))
    assert [len(shown_samples(page, task)) for task in (0, 1)] == [1, 1]


def test_an_image_of_many_samples_is_in_the_page_once(tmp_path: Path) -> None:
    question = (Segment(image=image(tmp_path / "a.png")),)
    page = page_of(run("one", [sample(str(k), 1, question=question) for k in range(30)]))
    assert len(PICTURE.findall(page)) == 1
    assert shown_samples(page) == list(range(30))
