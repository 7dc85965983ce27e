"""MIA-Bench's request for a question and an answer from a log, or from a pair that is no sample of
MIA-Bench.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.judge_server import JudgeServer
from support.mia_judge import full_marks
from support.mmie_data import draw

from mmie_tasks.benchmarks.mia_bench import benchmark, prompts, task
from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.mia_bench.data import dataset
from mmie_tasks.benchmarks.mia_bench.request import prompt_maker
from mmie_tasks.core.verdict import Scored
from mmie_tasks.hub.run_images import ImageOpener
from mmie_tasks.judging.judge import judge_together
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.record.record import BadRecord
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.segment import Segment, Segments

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "mia_bench"


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(full_marks) as running:
        yield running


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: JudgeServer) -> None:
    monkeypatch.setattr(task.BENCHMARK, "opener", ImageOpener())
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MMIE_TASKS_JUDGE", f"openai:judge-model,base_url={server.url}")
    for name in ("MMIE_TASKS_SYNC", "MODEL_VERSION", "JUDGE_MODEL_NAME"):
        monkeypatch.delenv(name, raising=False)


def logged_line(row: int, answer: str) -> dict[str, Any]:
    """The line of a judged answer, as in a log of a run whose prompts have a text before the
    instruction.
    """
    doc = dataset({"MIA_BENCH_DATA": str(EXAMPLE / "data")})[row]
    rows = dict(task.process_results(doc, [answer]).items())
    logged = {
        "filtered_resps": answer,
        "target": "",
        "input": task.doc_to_text(doc, {"pre_prompt": "Look. "}),
    }
    line: dict[str, Any] = json.loads(json.dumps({**logged, **rows}))
    return line


def request_of(
    question: Segments, answer: Segments, line: dict[str, Any] | None = None
) -> GradedRequest:
    return BENCHMARK.judge_request(question, answer, line)


@pytest.mark.parametrize("row", [0, 5])
@pytest.mark.parametrize("answer", ["A boat.\n\n[picture 1]", ""], ids=["text", "empty"])
def test_the_request_for_an_unchanged_sample_is_that_of_the_run(
    row: int, answer: str, server: JudgeServer
) -> None:
    line = logged_line(row, answer)
    assert len(server.asked) == 1
    sample = BENCHMARK.read_line(line)
    request = request_of(sample.question, sample.answer, line)
    [result] = judge_together(benchmark.BENCHMARK.judge.judge(), [request], "")
    assert result.reply is not None
    assert result.reply.cached
    assert len(server.asked) == 1
    assert request.grade(result).official == sample.official


def test_another_answer_keeps_the_components_and_weights_of_the_sample() -> None:
    line = logged_line(0, "A boat.")
    sample = BENCHMARK.read_line(line)
    text, image = request_of(sample.question, (Segment("A kite."),), line).request.parts
    before, after = (
        request_of(sample.question, sample.answer, line).request.parts[0].split("A boat.")
    )  # type: ignore[union-attr]
    assert text == f"{before}A kite.{after}"
    assert all(component in before for component in line["coverage"]["components"])
    assert image == EXAMPLE / "data" / "images" / "0.png"


def test_a_log_of_an_older_version_gives_the_instruction_as_the_model_read_it() -> None:
    line = logged_line(0, "A boat.")
    instruction = line["coverage"].pop("instruction")
    sample = BENCHMARK.read_line(line)
    assert f"Look. {instruction}" in str(
        request_of(sample.question, sample.answer, line).request.parts[0]
    )


def test_a_question_that_is_no_sample_is_its_own_only_component_and_its_pictures_have_marks(
    tmp_path: Path,
) -> None:
    one, two, three = (draw(tmp_path / f"{number}.png", number) for number in range(3))
    question = (Segment("Go on.", str(one)),)
    answer = (Segment("First", str(two)), Segment("then", str(three)), Segment("done."))
    request = request_of(question, answer)
    text, *images = request.request.parts
    assert images == [one, two, three]
    instruction, shown = "Go on.\n[picture 1]", "First\n[picture 2]\nthen\n[picture 3]\ndone."
    official = prompts.official(prompt_maker()(instruction, [instruction], [10], shown))
    assert text == official
    reply = JudgeReply(text="score of component 1: 7/10, total score: 7/10. So.", model="m")
    verdicts = request.grade(JudgeResult(reply=reply))
    assert [
        verdict.points
        for verdict in (verdicts.official, verdicts.robust)
        if isinstance(verdict, Scored)
    ] == [70, 70]
    assert request.is_impossible("score of component 1: 12/10, total score: 12/10. So.")


@pytest.mark.parametrize("segment", [Segment(image="gone.png"), Segment(problem="remote")])
def test_an_image_that_cannot_be_shown_is_an_error(segment: Segment) -> None:
    with pytest.raises(BadRecord, match="bad_image: "):
        request_of((Segment("Why?"),), (segment,))


def test_a_log_without_components_is_an_error() -> None:
    line = logged_line(0, "A boat.")
    del line["coverage"]["components"]
    with pytest.raises(BadRecord, match="the components of the instruction are not in this log"):
        request_of(BENCHMARK.read_line(line).question, (), line)
