"""MIA-Bench's request for any question and answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.mmie_data import draw

from mmie_tasks.benchmarks.mia_bench import prompts
from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.mia_bench.request import prompt_maker
from mmie_tasks.core.verdict import Scored
from mmie_tasks.record.record import BadRecord
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.segment import Segment

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "mia_bench"


def test_a_question_that_is_no_sample_is_its_own_only_component_and_its_pictures_have_marks(
    tmp_path: Path,
) -> None:
    one, two, three = (draw(tmp_path / f"{number}.png", number) for number in range(3))
    question = (Segment("Go on.", str(one)),)
    answer = (Segment("First", str(two)), Segment("then", str(three)), Segment("done."))
    request = BENCHMARK.judge_request(question, answer)
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
        BENCHMARK.judge_request((Segment("Why?"),), (segment,))
