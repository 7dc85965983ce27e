"""Captions: one sentence about a picture. A judge that sees the picture gives 0 to 5 points."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from mmie_tasks.extend import (
    Benchmark,
    BenchmarkJudge,
    Doc,
    ImageRecord,
    JudgeRequest,
    JudgeResult,
    Metric,
    Scale,
    Scored,
    Unscored,
    Verdict,
    Verdicts,
    aggregation,
)

IMAGES = Path(__file__).parent / "images"
REQUEST = (
    "How well does the sentence describe the picture? Reply with a reason and a last line "
    "`Score: N`, 0 to 5."
)


def read_reply(reply: str) -> Verdict:
    """The number after the last ``Score:`` of a judge's reply."""
    numbers = re.findall(r"Score:[\s*]*(\d{1,4})", reply)
    if not numbers:
        return Unscored("unparsed", "no line `Score: N`")
    points = int(numbers[-1])
    return Scored(points, numbers[-1]) if points <= 5 else Unscored("off_scale", numbers[-1])


class CaptionRecord(ImageRecord):
    """What the log has of a sample."""

    category: Literal["scene", "object"]

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        return {"category": (self.category,)}


class Captions(Benchmark[CaptionRecord]):
    """One sentence about a picture."""

    name = "captions"
    title = "Captions"
    version = "1-A"  # raise the number when scores change
    scale = Scale(full_marks=5, unit="points, 0 to 5", whole=True, percent=lambda mean: 20 * mean)
    metrics = (
        Metric(name="", title="All pictures", kind="headline"),
        Metric.of_group("category", "scene", "Scenes"),
        Metric.of_group("category", "object", "Objects"),
    )
    record = CaptionRecord
    judge = BenchmarkJudge("captions", "openai:gpt-4o-2024-11-20")
    image_token = ""

    def question(self, doc: Doc, options: Mapping[str, Any]) -> list[str | Path]:
        return [IMAGES / doc["image"], doc["question"]]

    def request(self, doc: Doc, answer: str) -> JudgeRequest:
        text = f"{REQUEST}\n\nSentence: {answer}"
        return JudgeRequest(parts=(text, IMAGES / doc["image"]), max_tokens=300)

    def grade(self, record: CaptionRecord, result: JudgeResult) -> Verdicts:
        """Both verdicts on a reply. A paper's own script would give the official one."""
        official, robust = result.first_verdict(read_reply), result.verdict(read_reply)
        return Verdicts(official=official, robust=robust)


BENCHMARK = Captions()
doc_to_messages = BENCHMARK.doc_to_messages  # the task file names these functions
doc_to_visual = BENCHMARK.doc_to_visual
doc_to_text = BENCHMARK.doc_to_text
process_results = BENCHMARK.process_results
percent = aggregation(BENCHMARK.scale)
