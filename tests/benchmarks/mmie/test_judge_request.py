"""MMIE's request for any question and answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.judge_server import JudgeServer
from support.mmie_data import conversation, draw, folder, in_file_order, segment
from support.mmie_judge import by_category, surround

from mmie_tasks.benchmarks.mmie import benchmark, task
from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK
from mmie_tasks.core.verdict import Scored
from mmie_tasks.judging.judge import judge_together
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.record.record import BadRecord
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.segment import Segment

ROWS = [
    conversation("SA-0", [segment("Begin.", "images/a.png"), segment("", "images/b.png")], "So."),
    conversation("PBL-1", [segment(None, "images/a.png"), segment("")], "So."),
    conversation("MSR-2", "How much?", [segment("7", "images/gone.png"), segment("more")]),
]
STEPS = json.dumps(
    [segment("Step.", "0.png"), segment("", "1.png"), segment(None, "2.png"), segment("Done.")]
)


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(by_category) as running:
        yield running


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: JudgeServer) -> None:
    surround(monkeypatch, tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("MMIE_DATA", str(folder(tmp_path / "data", ROWS)))
    monkeypatch.setenv("MMIE_TASKS_JUDGE", f"openai:judge-model,base_url={server.url}")
    (tmp_path / "data" / "images" / "gone.png").unlink()
    for number in range(3):
        draw(tmp_path / f"{number}.png", number)


def logged_line(row: int, answer: str) -> dict[str, Any]:
    """The line of a judged answer, as in a log."""
    doc = in_file_order(task.process_docs(SimpleNamespace(config_name="all")))[row]
    rows = dict(task.process_results(doc, [answer]).items())
    line: dict[str, Any] = json.loads(json.dumps({"filtered_resps": answer, "target": "", **rows}))
    return line


def pair_request(question: tuple[Segment, ...], answer: tuple[Segment, ...]) -> GradedRequest:
    return BENCHMARK.judge_request(question, answer)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("Plain.", id="text"),
        pytest.param(STEPS, id="steps-with-an-empty-and-an-absent-text"),
    ],
)
def test_the_request_for_question_and_answer_of_a_run_is_the_one_of_the_run(
    answer: str, server: JudgeServer
) -> None:
    line = logged_line(0, answer)
    assert len(server.asked) == 1
    sample = BENCHMARK.read_line(line)
    request = pair_request(sample.question, sample.answer)
    [result] = judge_together(benchmark.BENCHMARK.judge.judge(), [request], "")
    assert result.reply is not None
    assert result.reply.cached
    assert len(server.asked) == 1
    assert request.grade(result).official == sample.official


def test_a_question_that_is_no_sample_gets_the_template_of_situational_analysis() -> None:
    image = Path("0.png").absolute()
    request = pair_request((Segment("Why?"),), (Segment("So:", str(image)), Segment("and so on.")))
    before = "Rate the tale.### Question\nWhy?\n\n### Answer\nSo:\nImage-0: "
    assert request.request.parts == (before, image, "\nand so on.\n\n### Feedback\n")
    result = JudgeResult(reply=JudgeReply(text="### Score\n4", model="m"))
    assert request.grade(result).official == Scored(4.0, "4")


def test_what_the_limit_on_images_cuts_is_counted() -> None:
    images = [
        Segment(f"Step {number}.", str(Path(f"{number}.png").absolute())) for number in (0, 1, 2)
    ]
    request = pair_request((images[0],), (*images, Segment("Done.")))
    assert (request.cut_images, request.cut_texts) == (1, 2)
    uncut = pair_request((images[0],), (*images[:2],))
    assert (uncut.cut_images, uncut.cut_texts) == (0, 0)


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        pytest.param(
            [Segment(image="../x.png", problem="outside")], "bad_image.*outside", id="problem"
        ),
        pytest.param(
            [Segment("a", image="gone.png")], "bad_image: `gone.png`.*no such file", id="gone"
        ),
        pytest.param([Segment(image="words.json")], "bad_image.*words.json", id="no-image"),
    ],
)
def test_an_image_that_cannot_be_shown_is_an_error(segments: list[Segment], message: str) -> None:
    with pytest.raises(BadRecord, match=message):
        pair_request((Segment("Why?"),), tuple(segments))
    with pytest.raises(BadRecord, match=message):
        pair_request(tuple(segments), (Segment("So."),))


def test_a_question_that_the_official_script_leaves_out_is_an_error() -> None:
    image = Segment(image=str(Path("0.png").absolute()))
    with pytest.raises(BadRecord, match="left_out: 5 images"):
        pair_request((image,) * 5, (Segment("So."),))
