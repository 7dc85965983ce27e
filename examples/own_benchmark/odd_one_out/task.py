"""Odd one out: which of six shapes, A to F, does not belong? Scoring, and the functions that the
task file names.

Scored by rule, twice: for the official score, the answer must be the letter and nothing else; for
the robust score, it may be a sentence that names one letter.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.extend import (
    NOT_TEXT,
    Doc,
    ImageOpener,
    LoggedSample,
    Metric,
    Row,
    RunnerTable,
    Scale,
    Scored,
    Unscored,
    Verdict,
    Verdicts,
    aggregation,
    check_images,
    failure_of,
    log_line,
    run_signature,
    signature_text,
    user_turn,
)

if TYPE_CHECKING:
    from PIL import Image

CATEGORIES = ("colour", "shape", "size")
QUESTION = "Which of the six shapes is the odd one out? Answer with its letter only."
VERSION = "1-B"  # the number moves with the scores, the letter otherwise

SCALE = Scale(full_marks=1, unit="points, 0 or 1", whole=True, percent=lambda mean: 100 * mean)
METRICS = (
    Metric(name="", title="All samples", kind="headline"),
    *(
        Metric(
            name=name,
            title=f"Odd {name}",
            kind="category",
            by="category",
            weights={name: 1.0},
            in_table=True,
        )
        for name in CATEGORIES
    ),
)
TABLE = RunnerTable(metrics=METRICS, scale=SCALE)
percent = aggregation(SCALE)  # the task file names it

_FOLDER = Path(__file__).resolve().parent
_OPENER = ImageOpener()  # remembers which pictures could not be opened
_LETTER = re.compile(r"(?<![\w'])(?!A (?!is\b)[a-z])[A-F](?![\w'])")  # `A circle` names no letter


def official(answer: str, gold: str) -> Verdict:
    """1 point for the letter and nothing else, 0 for every other answer.

    >>> official(" C ", "C").points, official("It is C.", "C").points
    (1.0, 0.0)
    """
    return Scored(float(answer.strip() == gold), answer.strip())


def robust(answer: str, gold: str) -> Verdict:
    """1 point if only the right letter is named, 0 for every other answer.

    >>> robust("It is C.", "C").points, robust("It is B or C.", "C").points
    (1.0, 0.0)
    """
    alone = re.fullmatch(r"\W*[A-Fa-f]\W*", answer)
    named = set(_LETTER.findall(answer.upper() if alone else answer))
    return Scored(float(named == {gold}), ", ".join(sorted(named)))


def read(answer: object, gold: str, unseen: str | None = None) -> dict[str, Verdict]:
    """Both verdicts on an answer, which are the same if there is nothing to read."""
    if unseen is not None:
        why = Unscored("bad_image", unseen)
    elif not isinstance(answer, str) or answer.startswith(NOT_TEXT):
        why = Unscored("not_text", str(answer)[:80])
    elif failure := failure_of(answer):
        why = Unscored("no_answer", failure)
    else:
        return {"official": official(answer, gold), "robust": robust(answer, gold)}
    return {"official": why, "robust": why}


def picture(sample_id: str) -> Path:
    """The file with a sample's shapes."""
    return _FOLDER / "images" / f"{sample_id}.png"


def check_data(docs: Sequence[Doc]) -> None:
    """Check every picture before anything is generated; raises DataMissing if one is missing."""
    owners = {str(picture(doc["id"])): doc["id"] for doc in docs}
    check_images("odd_one_out", owners, "install `own-benchmark` again")


def doc_to_messages(doc: Doc, _kwargs: object = None) -> list[dict[str, object]]:
    """The picture, then the question, for chat models."""
    return user_turn([*doc_to_visual(doc), QUESTION])


def doc_to_visual(doc: Doc) -> list[Image.Image]:
    """The picture, for models that take text and pictures separately."""
    return [_OPENER.open(doc["id"], lambda: picture(doc["id"]))]


def doc_to_text(_doc: Doc) -> str:
    """The question, for the same models."""
    return QUESTION


def process_results(doc: Doc, results: Sequence[object]) -> dict[str, Row]:
    """A row for each line of the runner's table, and the record that scores the sample again."""
    scores = read(results[0], doc["gold"], _OPENER.failure(doc["id"]))
    verdicts = Verdicts(official=scores["official"], robust=scores["robust"])
    fields = {name: doc[name] for name in ("category", "gold")}
    record = log_line.sample_record(doc["id"], verdicts, signature(doc), sample_fields=fields)
    groups = {"category": (doc["category"],)}
    return TABLE.rows(LoggedSample.graded(doc["id"], verdicts, groups), record)


def provenance(_doc: Doc) -> str:
    """Everything that moves the score: task version, readers and data. Saved with the results."""
    task, data = f"odd_one_out@{VERSION}", f"sha256:{_data()}"
    return signature_text(task=task, reader="official+robust", data=data)


def signature(doc: Doc) -> str:
    """The same with what `mmie_tasks` adds; part of every logged sample."""
    return run_signature(provenance(doc), environment=os.environ)


@cache
def _data() -> str:
    files = sorted(_FOLDER.rglob("*.png")) + sorted(_FOLDER.rglob("samples.json"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
