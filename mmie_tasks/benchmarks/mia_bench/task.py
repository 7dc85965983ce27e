"""The functions the MIA-Bench YAML names."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger

from mmie_tasks import __version__
from mmie_tasks.answers.saved import NOT_TEXT, failure_of
from mmie_tasks.benchmarks.mia_bench import data as source
from mmie_tasks.benchmarks.mia_bench import metrics, prompts
from mmie_tasks.benchmarks.mia_bench.benchmark import JUDGE, grade
from mmie_tasks.benchmarks.mia_bench.metrics import Grading, Row, summary
from mmie_tasks.benchmarks.mia_bench.robust import is_impossible
from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.core.errors import DataBroken, DataMissing, MmieTasksError
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.verdict import mean_of, tally, verdict_of
from mmie_tasks.hub.images import Opener, require
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judging.deferred import MetricRows
from mmie_tasks.judging.session import CheckedRequest, JudgeResult, PendingSample
from mmie_tasks.runner import official_prompts

if TYPE_CHECKING:
    import datasets
    from PIL import Image


Doc = Mapping[str, Any]

VERSION = "1-A"  # the number moves with the scores, the letter otherwise

_PAPER_JUDGE = re.compile(r"\|model:gpt-4o(-\d{4}-\d\d-\d\d)?(\||$)")  # the notebook's alias, dated
_OPENER = Opener()  # of this process: what a model could not be shown is not scored
_NO_IMAGE = "nothing says which file is its picture"
_SKIPPED = "error"  # an answer that is this word and nothing else is left out (notebook, cell 11)


def check_prompt() -> None:
    """See that the official text can be had from this runner.

    Raises:
        DataBroken: It cannot.
    """
    try:
        prompts.check(official_prompts.mia_bench)
    except prompts.OfficialTextChanged as error:
        raise DataBroken(str(error), hint=prompts.HINT) from error


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:  # noqa: ARG001 - the runner's form
    """The samples in place of the stub the YAML loads.

    Data that is missing or broken stops the run in words: the runner would retry an exception.
    """
    try:
        return source.dataset(os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None


def before_requests(docs: datasets.Dataset) -> None:
    """Look at the header of every image, before anything is generated or judged.

    Raises:
        DataMissing: Files are not there or are no images; says how many and names the first.
    """
    hint = "complete `images/`, or unset `MIA_BENCH_DATA` to download them from the Hub"
    require("MIA-Bench", {doc["image"]: doc["id"] for doc in docs if doc["image"]}, hint)


def doc_to_messages(
    doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> list[dict[str, object]]:
    """The image, then the instruction, as one user turn."""
    return user_turn([_open(doc), doc_to_text(doc, lmms_eval_specific_kwargs)])


def doc_to_text(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The instruction, between ``pre_prompt`` and ``post_prompt`` as in the runner's own task."""
    around = lmms_eval_specific_kwargs or {}
    return f"{around.get('pre_prompt', '')}{doc['instruction']}{around.get('post_prompt', '')}"


def doc_to_visual(doc: Doc) -> list[Image.Image]:
    """The image, opened."""
    return [_open(doc)]


def doc_to_target(doc: Doc) -> str:  # noqa: ARG001 - the runner's form
    """Nothing: an instruction has no gold answer."""
    return ""


def _open(doc: Doc) -> Image.Image:
    return _OPENER.open(doc["id"], lambda: _image(doc))


def _image(doc: Doc) -> Path:
    if not doc["image"]:
        raise DataMissing(f"MIA-Bench, sample {doc['id']}: {_NO_IMAGE}.", hint="number the file")
    return Path(doc["image"])


def process_results(doc: Doc, results: Sequence[object]) -> Mapping[str, object]:
    """The rows of one answer, filled in once it is judged; what is no answer is not judged."""
    sample = Sample.from_doc(doc)
    logged = {
        "image": doc["image"] or None,
        "signature": signature(doc),
        "answer_sha256": _sha256("".join(map(str, results))),
    }
    if (grading := _not_judged(sample, doc, results)) is not None:
        return metrics.rows(sample, grading, {**logged, "replies": []})
    case = PendingSample(
        request=CheckedRequest(
            request=request_of(doc, str(results[0])),
            is_impossible=lambda reply: is_impossible(sample, reply),
        ),
        make_rows=lambda judged: _rows(sample, judged, logged),
        metrics=metrics.certain(sample),
    )
    return JUDGE.submit(case, plain=_plain_score)


def _not_judged(sample: Sample, doc: Doc, results: Sequence[object]) -> Grading | None:
    """What comes of an answer that no judge is shown; None for every other.

    The official script leaves out an answer that is the word `_SKIPPED` and nothing else; an empty
    answer it judges.
    """
    answer = results[0] if len(results) == 1 else None
    if not isinstance(answer, str):
        return metrics.ungraded("not_text", f"{len(results)} answers instead of one text")
    if answer.startswith(NOT_TEXT):
        return metrics.ungraded("not_text", answer.removeprefix(NOT_TEXT).strip()[:80])
    if failure := failure_of(answer):
        return metrics.ungraded("no_answer", failure)
    unseen = _OPENER.failure(sample.id) or (None if doc["image"] else _NO_IMAGE)
    if unseen:
        return metrics.ungraded("bad_image", unseen)
    if answer == _SKIPPED:
        return metrics.ungraded("no_answer", f"the official script skips the answer `{_SKIPPED}`")
    return None


def request_of(doc: Doc, answer: str) -> JudgeRequest:
    """What the judge is asked about an answer: the official text, then the image."""
    sample = Sample.from_doc(doc)
    text = prompts.official(
        official_prompts.mia_bench(sample.instruction, sample.components, sample.weights, answer)
    )
    parts = prompts.parts(text, Path(doc["image"]))
    return JudgeRequest(parts=parts, max_tokens=prompts.MAX_TOKENS)


def _rows(sample: Sample, judged: JudgeResult, logged: Mapping[str, object]) -> MetricRows:
    replies = [reply for reply in (judged.reply, judged.second_reply) if reply is not None]
    grading = grade(sample, judged)
    return metrics.rows(sample, grading, {**logged, "replies": [asdict(r) for r in replies]})


def _plain_score(rows: MetricRows) -> Mapping[str, object]:
    """The official total as a plain fraction of 1, for ``--baseline``; nothing where unscored."""
    points = rows["official"].get("score")
    return {"score": points / 100} if isinstance(points, float) else {}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def provenance(doc: Doc) -> str:
    """Task version, prompt, readings and data, in one line. Nothing of the judge."""
    return (
        f"prompt:official,max_tokens={prompts.MAX_TOKENS}|reader:official+robust"
        f"|task:mia_bench@{VERSION}|data:{doc['data']}"
    )


def signature(doc: Doc) -> str:
    """Everything that moves the number; a judge other than the paper's is marked as such.

    Raises:
        SettingWrong: The judge that was chosen cannot be opened.
    """
    judge = JUDGE.signature()
    paper = "yes" if _PAPER_JUDGE.search(judge) else "no"
    return f"{judge}|paper_judge:{paper}|{provenance(doc)}|pkg:{__version__}"


def coverage(records: Sequence[Row]) -> float:
    """Samples with an official score, in percent of all; prints the run's summary."""
    logger.info(f"MIA-Bench\n{summary(records)}")
    rows = [row for record in records if isinstance(row := record["official"], dict)]
    return 100 * tally(map(verdict_of, rows)).coverage


def robust_coverage(rows: Sequence[Row]) -> float:
    """Samples with a robust score, in percent of all."""
    return 100 * sum(bool(row["scored"]) for row in rows) / len(rows)


def differ(rows: Sequence[Row]) -> float:
    """How many samples the official and the robust reading score differently."""
    return float(sum(bool(row["differ"]) for row in rows))


def mean(rows: Sequence[Row]) -> float:
    """Mean percent of full marks over the scored samples; NaN below the floor of coverage."""
    found = mean_of(tally(map(verdict_of, rows))).value
    return float("nan") if found is None else found


def count(rows: Sequence[Row]) -> float:
    """How many samples have no official score for this reason."""
    return float(len(rows))


def plain_mean(scores: Sequence[float]) -> float:
    """Mean of the plain scores, 0 to 1."""
    return sum(scores) / len(scores)
