"""Captions: one sentence about a picture. A judge that sees the picture gives 0 to 5 points."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmie_tasks.extend import (
    Benchmark,
    BenchmarkJudge,
    Doc,
    JudgeRequest,
    Metric,
    Scale,
    Scored,
    Unscored,
    Verdict,
)

IMAGES = Path(__file__).parent / "images"
REQUEST = (
    "How well does the sentence describe the picture? Reply with a reason and a last line "
    "`Score: N`, 0 to 5."
)


class Captions(Benchmark):
    """One sentence about a picture."""

    name, title, version = "captions", "Captions", "1-A"
    scale = Scale(full_marks=5, unit="points, 0 to 5", whole=True, percent=lambda mean: 20 * mean)
    metrics = (
        Metric(name="", title="All pictures", kind="headline"),
        Metric.of_group("category", "scene", "Scenes"),
        Metric.of_group("category", "object", "Objects"),
    )
    judge = BenchmarkJudge("captions", "openai:gpt-4o-2024-11-20")
    image_token = ""

    def groups(self, doc: Doc) -> dict[str, str]:
        return {"category": doc["category"]}

    def question(self, doc: Doc, options: Mapping[str, Any]) -> list[str | Path]:
        return [IMAGES / doc["image"], doc["question"]]

    def request(self, doc: Doc, answer: str) -> JudgeRequest:
        text = f"{REQUEST}\n\nSentence: {answer}"
        return JudgeRequest(parts=(text, IMAGES / doc["image"]), max_tokens=300)

    def read(self, reply: str) -> Verdict:
        numbers = re.findall(r"Score:[\s*]*(\d{1,4})", reply)
        return Scored(int(numbers[-1])) if numbers else Unscored("unparsed", "no line `Score: N`")


BENCHMARK = Captions()
doc_to_messages, doc_to_text = BENCHMARK.doc_to_messages, BENCHMARK.doc_to_text
doc_to_visual, process_results = BENCHMARK.doc_to_visual, BENCHMARK.process_results
percent = BENCHMARK.percent
