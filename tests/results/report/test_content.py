"""What the page of runs of the benchmarks says, without a browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.judgements import replied
from support.logged_runs import mia_lines, milebench_lines, mmie_lines, write_run
from support.report_runs import run, sample

from mmie_tasks.record.reply import JudgeReply, Usage
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.segment import Segment
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.report.page import report_page
from mmie_tasks.results.run import Run, open_runs

NOT_SHOWN = "the difference of the runs is not shown: they were not scored alike"
PICTURE = re.compile(r'id="x-picture-\d+">([^<]*)')


def page_of(*runs: Run, **settings: Any) -> str:
    page = report_page(runs, **{"title": "Made up", "made": "2026-11-21 14:00 UTC", **settings})
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
    for words in ("60 of 20,103 samples", "60 of 60 made-up"):
        assert words in mmie
    assert "by rule" in overview.partition("MileBench")[2]


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
