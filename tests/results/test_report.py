"""What a report says, without a browser."""

import base64
import hashlib
import json
import os
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from PIL import Image
from support.judgements import replied
from support.logged_runs import mia_lines, milebench_lines, mmie_lines, write_run
from support.report_page import HOSTILE, page_of
from support.report_runs import run, sample

from mmie_tasks.cli import load_command
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.segment import Segment
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.report_charts import COLOURS, charts
from mmie_tasks.results.run import open_runs

report = load_command("report")


def words_of(page, begin="<main>", end="</main>"):
    """The words of a part of a page."""
    part = page.partition(begin)[2].partition(end)[0]
    return " ".join(unescape(re.sub("<[^>]*>", " ", part)).split())


def ids_of(page):
    return re.findall(r'<details class="sample" id="[^"/]*/([^"]*)"', page)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The report of the runs ``good`` and ``bad`` in the folder above it, by the command."""
    folder = tmp_path_factory.mktemp("runs")
    for name, skill in (("good", 0.8), ("bad", 0.3)):
        write_run(folder / name, "mmie", mmie_lines(30, skill=skill, answers=name))
        write_run(folder / name, "milebench", milebench_lines(3, skill=skill, answers=name))
        write_run(folder / name, "mia_bench", mia_lines(16, skill=skill, answers=name))
    target = folder / "new" / "report.html"
    words = [f"A={folder / 'good'}", f"B={folder / 'bad'}", "-o", str(target)]
    assert report(words, {}).startswith(f"{target}: ")
    return target


def test_a_report_is_one_file_which_an_error_leaves_as_it_is(written):
    page = written.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<title>Results of A, B</title>" in page
    assert list(written.parent.iterdir()) == [written]
    with pytest.raises(AnswersUnusable):
        report([str(written.with_name("nothing")), "-o", str(written)], {})
    assert written.read_text(encoding="utf-8") == page
    with pytest.raises(SettingWrong, match=r"x\.html"):
        report([str(written.parents[1] / "good"), "-o", str(written / "x.html")], {})


@pytest.mark.parametrize("output", ["report.json", ".", "log.jsonl"])
def test_only_a_page_is_overwritten(tmp_path, output):
    with pytest.raises(SystemExit) as stopped:
        report([str(tmp_path), "-o", str(tmp_path / output)], {})
    assert stopped.value.code == 2


def test_the_first_screen_has_scores_marks_and_judges_and_each_task_its_charts(written):
    page = written.read_text(encoding="utf-8")
    overview = words_of(page, 'id="overview">', "</section>")
    runs = open_runs([str(written.parents[1] / name) for name in ("good", "bad")])
    for task in (task for opened in runs for task in opened.tasks.values()):
        assert f"{task.headline().percent:.2f}" in overview
        assert [mark for mark in paper_marks(task) if mark not in overview] == []
    for words in ("30 of 30", "made-up", "by rule", "pairs", "not the judge's error", "2026-11-21"):
        assert words in overview
    titles = set(re.findall("<figcaption>(.*?) <small>", page))
    bars = {f"By {kind}" for kind in ("component", "type", "dataset", "task", "category", "field")}
    assert bars | {"By component, radar", "By level", "Samples by points"} <= titles
    assert any(title.startswith("Needles") for title in titles)
    assert len(ids_of(page)) == 16 + 30 + len(runs[0].tasks["milebench"].records)


def test_what_went_wrong_is_said_on_the_first_screen():
    one = run("one", [sample("1"), sample("2", signature="judge:b|t:1")], stored={"official": 9.0})
    page = page_of([one, run("two", [sample("1")], notes=("a line is cut off",))])
    overview = words_of(page, 'id="overview">', "</section>")
    for words in (
        "their signatures differ in judge, model, task, t.",
        "1 score unlike those of the results file",
        "results file: 9.00",
        "two a line is cut off",
        "two it lacks 1 sample that other runs have",
    ):
        assert words in overview
    assert "Difference" not in overview


def numbers_of(values):
    """The numbers of a figure, which Plotly may encode."""
    if isinstance(values, list):
        return values
    return list(np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"]).astype(float))


def test_charts_have_the_numbers_of_the_runs():
    samples = [sample("1", 4, 3), sample("2", 2, 2, "b"), sample("3", None, None, "c")]
    for depth in (0, 1):
        facts = {"needle_length": 8.0, "needle_depth": float(depth)}
        samples.append(sample(f"needle {depth}", 4 * depth, facts=facts))
    task = run("<one>", samples).tasks["sketch"]
    categories, points, needles = charts({"<one>": task}, {"<one>": 7})
    assert [chart.title for chart in (categories, points)] == ["By category", "Samples by points"]
    bars, diamonds = json.loads(categories.figure)["data"]
    assert bars["text"] == ["no score", "", ""]  # in the order of the metrics: c, a, b
    assert numbers_of(bars["x"]) == [0, 66.67, 50]
    assert numbers_of(diamonds["x"])[1:] == [58.33, 50]
    assert (bars["name"], bars["marker"]["color"]) == ("&lt;one&gt;", COLOURS[1])
    counts = json.loads(points.figure)["data"][0]
    assert numbers_of(counts["y"]) == [1, 0, 1, 0, 2, 1]
    (heat,) = json.loads(needles.figure)["data"]
    assert [text for (text,) in heat["text"]] == ["0 %<br>of 1", "", "", "", "100 %<br>of 1"]


def test_the_page_has_the_most_disputed_then_the_worst_samples_and_says_so():
    points = ("a", 4, 4), ("b", 1, 1), ("c", 2, 3), ("d", None, None), ("e", 4, 4)
    page = page_of([run("one", [sample(*one) for one in points])], max_samples=3)
    assert ids_of(page) == ["c", "d", "b"]
    assert "3 most disputed, then worst samples of 5: --samples N" in words_of(page)


def test_a_sample_has_its_reason_its_facts_and_the_differing_answers_of_both_runs():
    fields = {"facts": {"big_tiles": 3, "form": "a_b"}, "shares": {"official": {"look": 0.5}}}
    one = run("one", [sample("1", None, 3, answer=(Segment("a kite"),), **fields)])
    words = words_of(page_of([one, run("two", [sample("1", answer=(Segment("a tree"),))])]))
    for text in (
        "official n/a unparsed no number robust 3 of 4, read from 3",
        "look 50.00 n/a",
        "big tiles 3 form a_b",
        "Answer a kite",
        "Answer a tree",
    ):
        assert text in words


# Images.


def image(path):
    Image.effect_noise((192, 192), 80).save(path)
    return path


def pictured(*files):
    """A run with a sample for each image."""
    questions = ((Segment("Look.", str(file)),) for file in files)
    return run("one", [sample(str(n), n, question=one) for n, one in enumerate(questions, 1)])


def embedded(page):
    addresses = json.loads(page.partition('id="images">')[2].partition("</script>")[0])
    assert all(address.startswith("data:image/webp;base64,") for address in addresses)
    return list(addresses)


def test_an_image_is_in_the_page_once_and_all_images_are_limited(tmp_path):
    files = [image(tmp_path / f"{index}.png") for index in range(4)]
    (size,) = map(len, embedded(page_of([pictured(*[files[0]] * 3)])))
    page = page_of([pictured(*files)], image_characters=size + 10)
    assert len(embedded(page)) == 2
    assert "2 images are left out" in words_of(page)
    assert [f'data-image="{index}"' in page for index in (0, 1, 2)] == [True, True, False]


@pytest.mark.parametrize(("is_same", "shown"), [(True, 1), (False, 0)])
def test_an_image_that_has_changed_since_it_was_judged_is_not_shown(tmp_path, is_same, shown):
    file = image(tmp_path / "a.png")
    sha256 = hashlib.sha256(file.read_bytes() if is_same else b"another").hexdigest()
    answer = (Segment(image=str(file), sha256=sha256, prompt="a kite"),)
    page = page_of([run("one", [sample("1", answer=answer)])])
    assert page.count('<img data-image="0"') == shown
    assert ("the file has changed since it was judged" in page) is not is_same
    assert "drawn to: a kite" in words_of(page)


def test_a_file_that_is_no_image_has_a_note(tmp_path):
    cut, pipe = image(tmp_path / "cut.jpg"), tmp_path / "pipe.png"
    cut.write_bytes(cut.read_bytes()[:-800])
    os.mkfifo(pipe)
    page = page_of([pictured(tmp_path / "missing.png", cut, pipe, "a\0\ud83d.png")])
    assert embedded(page) == []
    notes = re.findall("no longer exists|not a readable image", words_of(page))
    assert sorted(notes) == ["no longer exists", *["not a readable image"] * 3]


# Safety.


def everywhere(texts):
    """A run with a sample for each text, in every place of a log."""
    samples = [
        sample(
            text,
            question=(Segment(text, text),),
            gold=(Segment(text),),
            answer=(Segment(text), Segment(image=text, problem=text, prompt=text)),
            judgements=replied(JudgeReply(text=text, model=text)),
            groups={text: (text,), "category": (text,)},
            facts={text: text},
            signature=f"judge:made_up|note:{text}",
        )
        for text in texts
    ]
    return replace(run(texts[0], samples, notes=tuple(texts)), notes=tuple(texts))


def test_no_tag_begins_in_a_text_of_a_log():
    hostile = [*HOSTILE, "<b>\ud83d\0\r\x7f</b>", "]]><![CDATA[<i>"]
    page, harmless = (
        page_of([everywhere(texts)], title=texts[0]).partition("<script>")[0]
        for texts in (hostile, list(map(str, range(len(hostile)))))
    )
    tag = re.compile(r"<[a-z!/]+")
    assert set(tag.findall(page)) == set(tag.findall(harmless))
    assert "script-src &#39;sha256-" in page
    assert re.search("[\0-\x08\x0b-\x1f\ud800-\udfff]", page) is None
