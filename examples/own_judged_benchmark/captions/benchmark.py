"""Captions: one sentence about a picture. A judge that sees the picture gives 0 to 5 points."""

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mmie_tasks.extend import (
    Benchmark,
    BenchmarkJudge,
    Doc,
    GradedRequest,
    ImageOpener,
    Judged,
    JudgeRequest,
    JudgeResult,
    Line,
    LoggedSample,
    Metric,
    PendingSample,
    Row,
    RunnerTable,
    Scale,
    Scored,
    Segments,
    Unscored,
    Verdict,
    Verdicts,
    aggregation,
    failure_of,
    log_line,
    run_signature,
    signature_text,
)

REQUEST = (
    "How well does the sentence describe the picture? Reply with a reason and a last line "
    "`Score: N`, 0 to 5."
)
JUDGE = BenchmarkJudge("captions", "openai:gpt-4o-2024-11-20")
OPENER = ImageOpener()  # remembers which pictures could not be opened
SCALE = Scale(full_marks=5, unit="points, 0 to 5", whole=True, percent=lambda points: 20 * points)
METRICS = (
    Metric(name="", title="All pictures", kind="headline"),
    *(
        Metric(
            name=name,
            title=f"{name.title()}s",
            kind="category",
            by="category",
            weights={name: 1.0},
            in_table=True,
        )
        for name in ("scene", "object")
    ),
)
TABLE = RunnerTable(metrics=METRICS, scale=SCALE)
percent = aggregation(SCALE)  # the task file names it


def read_reply(reply: str) -> Verdict:
    """The number after the last ``Score:`` of a judge's reply."""
    numbers = re.findall(r"Score:[\s*]*(\d{1,4})", reply)
    if not numbers:
        return Unscored("unparsed", "no line `Score: N`")
    points = int(numbers[-1])
    if points > SCALE.full_marks:
        return Unscored("off_scale", numbers[-1])
    return Scored(points, numbers[-1])


def grade(result: JudgeResult) -> Verdicts:
    """Both verdicts on a reply. A paper's own script would give the official one."""
    return Verdicts(official=result.first_verdict(read_reply), robust=result.verdict(read_reply))


def picture(doc: Doc) -> Path:
    """The picture of a sample."""
    return Path(__file__).parent / "images" / str(doc["image"])


def doc_to_visual(doc: Doc) -> list[Any]:
    """The picture for the tested model; the text of `doc_to_text` follows it."""
    return [OPENER.open(doc["id"], lambda: picture(doc))]


def process_results(doc: Doc, results: Sequence[str]) -> Mapping[str, object]:
    """The rows of one answer, filled in once it is judged; an answer that failed is not judged."""

    def make_rows(judged: Judged) -> dict[str, Row]:
        images = {"images": [str(picture(doc))]}
        record = log_line.sample_record(
            doc["id"], judged, signature(doc), sample_fields=doc, request_fields=images
        )
        groups = {"category": (doc["category"],)}
        return TABLE.rows(LoggedSample.graded(doc["id"], judged.verdicts, groups), record)

    if failure := failure_of(results[0]):
        return make_rows(Judged(verdicts=Verdicts.unscored("no_answer", failure)))
    if unseen := OPENER.failure(doc["id"]):
        return make_rows(Judged(verdicts=Verdicts.unscored("bad_image", unseen)))
    request = request_for(results[0], [picture(doc)])
    return JUDGE.submit(PendingSample(request=request, make_rows=make_rows, metrics=TABLE.names))


def request_for(sentence: str, pictures: Sequence[Path]) -> GradedRequest:
    """The request to the judge, and the reader of its reply."""
    parts: tuple[str | Path, ...] = (f"{REQUEST}\n\nSentence: {sentence}", *pictures)
    return GradedRequest(request=JudgeRequest(parts=parts, max_tokens=300), grade=grade)


def judge_request(question: Segments, answer: Segments, _line: Line | None) -> GradedRequest:
    """The request for any question and answer; the line is a logged sample's."""
    pictures = [part for part in log_line.parts(question + answer) if isinstance(part, Path)]
    return request_for("\n".join(segment.text for segment in answer if segment.text), pictures)


def signature(doc: Doc) -> str:
    """Everything that can move the score."""
    return run_signature(JUDGE.signature(), provenance(doc), environment=os.environ)


def provenance(_doc: Doc) -> str:
    """The same without the judge; the number in the version moves with the scores."""
    return signature_text(task="captions@1-A", prompt="official", data=1)


BENCHMARK = Benchmark(
    name="captions",
    title="Captions",
    scale=SCALE,
    metrics=METRICS,
    read_line=partial(log_line.sample, full_marks=SCALE.full_marks, groups=("category",)),
    reread=partial(log_line.reread, grade=grade, full_marks=SCALE.full_marks),
    judge=JUDGE,
    judge_request=judge_request,
    provenance=provenance,
    signature=signature,
)
