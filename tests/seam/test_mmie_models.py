"""MMIE with models that draw, and with other benchmarks beside it."""

from __future__ import annotations

import re
from pathlib import Path

from support.judge_server import JudgeServer
from support.mmie_judge import content_of, text_of
from support.mmie_seam import TABLE, N, evaluate, printed
from support.runner import Workplace

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_answers_of_a_drawing_model_are_judged_with_its_images(
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
