"""Odd one out: of six shapes, labelled A to F, which does not belong?

Scored by rule, twice: officially the answer must be the letter and nothing else; the robust reader
takes a sentence that names one letter.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mmie_tasks.extend import Benchmark, Doc, Metric, Scale, Scored, Verdict, Verdicts, check_images

QUESTION = "Which of the six shapes is the odd one out? Answer with its letter only."
FOLDER = Path(__file__).resolve().parent
_LETTER = re.compile(r"(?<![\w'])(?!A (?!is\b)[a-z])[A-F](?![\w'])")  # `A circle` names no letter


def official(answer: str, gold: str) -> Verdict:
    """1 point for the letter and nothing else, 0 for every other answer.

    >>> official("C", "C").points, official("It is C.", "C").points
    (1.0, 0.0)
    """
    return Scored(float(answer == gold), answer)


def robust(answer: str, gold: str) -> Verdict:
    """1 point where one letter is named, and it is the right one; 0 for every other answer.

    >>> robust("It is C.", "C").points, robust("It is B or C.", "C").points
    (1.0, 0.0)
    """
    alone = re.fullmatch(r"\W*[A-Fa-f]\W*", answer)
    named = set(_LETTER.findall(answer.upper() if alone else answer))
    return Scored(float(named == {gold}), ", ".join(sorted(named)))


def picture(doc: Doc) -> Path:
    """The file with a sample's shapes."""
    return FOLDER / "images" / f"{doc['id']}.png"


class OddOneOut(Benchmark):
    """Six drawn shapes, one of which does not belong."""

    name = "odd_one_out"
    title = "Odd one out"
    version = "1-B"  # the number moves with the scores, the letter otherwise
    scale = Scale(full_marks=1, unit="points, 0 or 1", whole=True, percent=lambda mean: 100 * mean)
    metrics = (
        Metric(name="", title="All samples", kind="headline"),
        Metric.of_group("category", "colour", "Odd colour"),
        Metric.of_group("category", "shape", "Odd shape"),
        Metric.of_group("category", "size", "Odd size"),
    )
    image_token = ""

    def check_data(self, docs: Sequence[Doc]) -> None:
        ids = {str(picture(doc)): doc["id"] for doc in docs}
        check_images("odd_one_out", ids, "install `own-benchmark` again")

    def question(self, doc: Doc, options: Mapping[str, Any]) -> list[str | Path]:
        return [picture(doc), QUESTION]

    def groups(self, doc: Doc) -> dict[str, str]:
        return {"category": doc["category"]}

    def score(self, sample: Doc, answer: str) -> Verdicts:
        gold = sample["gold"]
        return Verdicts(official=official(answer, gold), robust=robust(answer, gold))

    def provenance(self, doc: Doc) -> dict[str, object]:
        return {**super().provenance(doc), "data": f"sha256:{_data()}"}


@cache
def _data() -> str:
    files = sorted(FOLDER.rglob("*.png")) + sorted(FOLDER.rglob("samples.json"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


BENCHMARK = OddOneOut()
doc_to_messages = BENCHMARK.doc_to_messages  # the task file names these functions
doc_to_visual = BENCHMARK.doc_to_visual
doc_to_text = BENCHMARK.doc_to_text
process_results = BENCHMARK.process_results
percent = BENCHMARK.percent
