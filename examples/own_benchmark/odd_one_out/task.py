"""Odd one out: of six shapes, labelled A to F, which does not belong? The whole benchmark.

Scored by rule, twice: officially the answer must be the letter and nothing else; the robust reading
takes a sentence that names one letter.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger

from mmie_tasks.answers.saved import NOT_TEXT, failure_of
from mmie_tasks.core import verdict
from mmie_tasks.core.bootstrap import bootstrap_interval
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.verdict import Scored, Unscored, Verdict, verdict_of
from mmie_tasks.hub.images import ImageOpener, check_images
from odd_one_out import __version__

if TYPE_CHECKING:
    from PIL import Image

Doc = Mapping[str, Any]
Row = Mapping[str, Any]

CATEGORIES = ("colour", "shape", "size")
QUESTION = "Which of the six shapes is the odd one out? Answer with its letter only."
VERSION = "1-A"  # the number moves with the scores, the letter otherwise

_FOLDER = Path(__file__).resolve().parent
_OPENER = ImageOpener()  # of this process: what a model could not be shown is not scored
_LETTER = re.compile(r"(?<![\w'])(?!A (?!is\b)[a-z])[A-F](?![\w'])")  # `A circle` names no letter


def official(answer: str, gold: str) -> Verdict:
    """1 point for the letter and nothing else, 0 for every other answer.

    >>> official(" C ", "C").points, official("It is C.", "C").points
    (1.0, 0.0)
    """
    return Scored(float(answer.strip() == gold), answer.strip())


def robust(answer: str, gold: str) -> Verdict:
    """1 point where one letter is named, and it is the right one; 0 for every other answer.

    >>> robust("It is C.", "C").points, robust("It is B or C.", "C").points
    (1.0, 0.0)
    """
    alone = re.fullmatch(r"\W*[A-Fa-f]\W*", answer)
    named = set(_LETTER.findall(answer.upper() if alone else answer))
    return Scored(float(named == {gold}), ", ".join(sorted(named)))


def read(answer: object, gold: str, unseen: str | None = None) -> dict[str, Verdict]:
    """Both readings of an answer, or twice the reason why there is nothing to read."""
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
    """Look at every picture before anything is generated; DataMissing where one is not there."""
    owners = {str(picture(doc["id"])): doc["id"] for doc in docs}
    check_images("odd_one_out", owners, "install `own-benchmark` again")


def doc_to_messages(doc: Doc, _kwargs: object = None) -> list[dict[str, object]]:
    """The picture, then the question, for chat models."""
    return user_turn([*doc_to_visual(doc), QUESTION])


def doc_to_visual(doc: Doc) -> list[Image.Image]:
    """The picture, for models that take words and pictures apart."""
    return [_OPENER.open(doc["id"], lambda: picture(doc["id"]))]


def doc_to_text(_doc: Doc) -> str:
    """The question, for the same."""
    return QUESTION


def process_results(doc: Doc, results: Sequence[object]) -> dict[str, Row]:
    """A row for each number that the sample counts for, and one to score it again."""
    found = read(results[0], doc["gold"], _OPENER.failure(doc["id"]))
    logged = {name: verdict.as_row(one, id=doc["id"]) for name, one in found.items()}
    differs = {"differ": verdict.differ(found["official"], found["robust"])}
    named = {name: doc[name] for name in ("id", "category", "gold")}
    whole = {**named, **logged, **differs, "signature": signature(doc)}
    parts = {f"{name}_{doc['category']}": row for name, row in logged.items()}
    return {"coverage": whole, "differ": differs, **logged, **parts}


def provenance(_doc: Doc) -> str:
    """Task version, readings and data: everything that moves the number; saved with the results."""
    return f"task:odd_one_out@{VERSION}|reader:official+robust|data:sha256:{_data()}"


def signature(doc: Doc) -> str:
    """The same and the version of the package; part of every logged sample."""
    return f"{provenance(doc)}|pkg:own-benchmark@{__version__}"


@cache
def _data() -> str:
    files = sorted(_FOLDER.rglob("*.png")) + sorted(_FOLDER.rglob("samples.json"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def coverage(records: Sequence[Row]) -> float:
    """Scored samples as a fraction of all; says how sure the official mean is."""
    found = [verdict_of(record["official"]) for record in records]
    interval = bootstrap_interval([one.points for one in found if isinstance(one, Scored)])
    sure = f"{interval.low:.3f}-{interval.high:.3f}" if interval else "n/a"
    logger.info(f"odd_one_out: 95 % of official: {sure}; {records[0]['signature']}")
    return verdict.tally(found).coverage


def mean(rows: Sequence[Row]) -> float:
    """Mean points, 0 to 1, over the scored; NaN below the floor of coverage."""
    value = verdict.mean_of(verdict.tally(map(verdict_of, rows))).value
    return float("nan") if value is None else value


def differ(rows: Sequence[Row]) -> float:
    """How many samples the two readings score differently."""
    return float(sum(bool(row["differ"]) for row in rows))
