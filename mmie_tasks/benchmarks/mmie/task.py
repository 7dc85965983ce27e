"""The functions that the MMIE YAMLs name.

A YAML selects samples with ``dataset_name``: ``all``, ``sa``, ``pbl``, ``msr`` or ``1k``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger

from mmie_tasks.benchmarks.mmie import data, metrics, prompts
from mmie_tasks.benchmarks.mmie import request as requests
from mmie_tasks.benchmarks.mmie.official import FULL_MARKS, digit_offset, read_official
from mmie_tasks.benchmarks.mmie.robust import read_robust
from mmie_tasks.benchmarks.mmie.sample import Sample
from mmie_tasks.core import __version__
from mmie_tasks.core.coverage import coverage_floor, floor_signature
from mmie_tasks.core.errors import DataMissing, MmieTasksError, choice_setting
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.verdict import Verdicts
from mmie_tasks.hub.images import ImageOpener
from mmie_tasks.judging.deferred import MetricRows
from mmie_tasks.judging.expected import expected_verdict
from mmie_tasks.judging.panel import Judged
from mmie_tasks.judging.requests import GradedRequest, JudgeResult
from mmie_tasks.judging.session import BenchmarkJudge, PendingSample
from mmie_tasks.runs.rows import aggregation, plain_score

if TYPE_CHECKING:
    import datasets
    from PIL import Image


Doc = Mapping[str, Any]

VERSION = "3-C"
"""``N-X`` of every task here: N changes with the scores, X with the interface."""

TASKS = {"all": "mmie", "sa": "mmie_sa", "pbl": "mmie_pbl", "msr": "mmie_msr", "1k": "mmie_1k"}
"""Values of ``dataset_name``, to the tasks that have them."""

WHOLE_TASKS = ("mmie", "mmie_1k")
"""The tasks with samples of every category."""

PAPER_JUDGE = "mmie_score"
"""Name of the judge whose scores the paper reports, as signatures have it."""

JUDGE = BenchmarkJudge("mmie", PAPER_JUDGE, title="MMIE", check_setup=requests.check_setup, full_marks=FULL_MARKS)
_MISSING = "MMIE_MISSING_IMAGES"
_OPENER = ImageOpener()  # of this process: a sample whose image could not be opened is not scored


def grade(result: JudgeResult) -> Verdicts:
    """All verdicts of a reply. The official script also reads a reply that reached its limit."""
    official = result.first_verdict(read_official, read_cut_off=True)
    offset = digit_offset(result.reply.text) if result.reply else None
    expected = expected_verdict(result.reply, offset, official, FULL_MARKS)
    return Verdicts(
        official=official,
        robust=result.first_verdict(read_robust),
        expected=expected.verdict,
        entropy_bits=expected.entropy_bits,
    )


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:
    """The samples, in place of the stub that the YAML loads.

    Missing or broken data ends the process with a message: the runner would retry an exception.
    """
    selection = stub.config_name
    try:
        coverage_floor(os.environ)  # an invalid setting ends the run here, and not after it
        samples = data.dataset(selection, os.environ)
        return samples.add_column("task", [TASKS[selection]] * len(samples))
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None


def check_data(docs: datasets.Dataset) -> None:
    """Check that the images of the questions exist, before anything is generated or judged.

    Raises:
        DataMissing: Files are missing, and ``MMIE_MISSING_IMAGES`` is not ``count``.
        SettingWrong: ``MMIE_MISSING_IMAGES`` is neither ``stop`` nor ``count``.
    """
    hint = f"`export {_MISSING}=count` continues without the images and counts them"
    setting = choice_setting(os.environ, _MISSING, "stop", "count", hint=hint)
    if not (missing := data.missing_images(docs)):
        return
    path, sample_id = next(iter(missing.items()))
    message = f"{len(missing)} images of MMIE's questions are missing. The first, of sample {sample_id}: `{path}`"
    if setting == "stop":
        hint = f"unpack `images.tar.gz` beside `data.json`, or `export {_MISSING}=count` to run"
        raise DataMissing(f"{message}.", hint=f"{hint} without them, as the official script does")
    logger.warning(f"{message}. The samples are generated and judged without them, and counted.")


def doc_to_messages(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> list[dict[str, object]]:
    """The question as one user turn with opened images, in order."""
    before, after = _affixes(lmms_eval_specific_kwargs)
    parts = [_open(doc, part) if isinstance(part, Path) else part for part in _question(doc)]
    return user_turn([before, *parts, after])


def doc_to_text(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The question for wrappers that take text and images separately.

    ``image_token`` (default ``<image>``) marks an image; ``{n}`` in it counts from 1.
    """
    token = str((lmms_eval_specific_kwargs or {}).get("image_token", "<image>"))
    before, after = _affixes(lmms_eval_specific_kwargs)
    count, texts = 0, []
    for part in _question(doc):
        count += isinstance(part, Path)
        texts.append(part if isinstance(part, str) else token.replace("{n}", str(count)))
    return f"{before}{''.join(texts)}{after}"


def doc_to_visual(doc: Doc) -> list[Image.Image]:
    """The images of the question, opened, in order."""
    return [_open(doc, part) for part in _question(doc) if isinstance(part, Path)]


def picture_limit(doc: Doc) -> int:
    """How many pictures of an answer the judge can see; 0 for multi-step reasoning, whose answers are texts.

    The answer ends with the third image of question and answer together (rules D9 and D5 in `prompts`).
    """
    sample = Sample.from_doc(doc)
    in_question = sum(isinstance(part, Path) for part in requests.question_parts(sample))
    return 0 if sample.category == "MSR" else max(0, prompts.IMAGES_AT_END - in_question)


def doc_to_target(doc: Doc) -> str:
    """The text of the gold answer, for the log. The judge gets it for MSR only."""
    return "\n".join(segment["text"] for segment in doc["gold"] if segment["text"])


def _question(doc: Doc) -> list[str | Path]:
    return requests.question_parts(Sample.from_doc(doc))


def _affixes(specific: Mapping[str, Any] | None) -> tuple[str, str]:
    options = specific or {}
    return str(options.get("pre_prompt", "")), str(options.get("post_prompt", ""))


def _open(doc: Doc, path: Path) -> Image.Image:
    """The image; a blank one if it cannot be opened (see `ImageOpener`)."""
    return _OPENER.open(doc["id"], lambda: path)


def process_results(doc: Doc, results: Sequence[object]) -> Mapping[str, object]:
    """The rows of one answer, filled in once it is judged. A missing answer is not judged."""
    sample = Sample.from_doc(doc)
    built = requests.build_request(sample, results, doc["task"])
    if problem := _OPENER.failure(sample.id):
        built = built.withdrawn("bad_image", problem)
    try:
        shown_signature = signature(doc)
    except MmieTasksError as error:  # an unusable judge leaves samples unscored
        shown_signature = f"judge:unknown|why:{str(error).splitlines()[0]}|{provenance(doc)}"
    if built.answer_signature is not None:
        shown_signature += f"|answers:{built.answer_signature}"
    logged = {"signature": shown_signature, "answer": list(built.answer)}
    table = metrics.TABLE if doc["task"] in WHOLE_TASKS else metrics.CATEGORY_TABLE

    def make_rows(judged: Judged) -> MetricRows:
        facts = requests.with_usage(built.facts, judged.result.reply)
        record = {**metrics.record(sample, judged.verdicts, facts), **logged, **judged.fields}
        return table.rows(metrics.graded_sample(sample, judged.verdicts), record)

    if built.request is None:
        return make_rows(Judged(verdicts=Verdicts.unscored(built.reason, built.detail)))
    request = GradedRequest(request=built.request, grade=grade)
    return JUDGE.submit(PendingSample(request=request, make_rows=make_rows, metrics=table.names), plain=plain_score)


def provenance(doc: Doc) -> str:
    """Task version, readers and data revision in one line; without judge and request."""
    return f"reader:official+robust|task:mmie@{VERSION}|data:{doc['data']}"


def signature(doc: Doc) -> str:
    """Everything that can move the score; another judge than the paper's is marked as such.

    Raises:
        MmieTasksError: The chosen judge cannot be opened.
    """
    judge = JUDGE.signature()
    paper = "yes" if judge.startswith(f"judge:{PAPER_JUDGE}|") else "no"
    settings = f"{requests.signature()}|{provenance(doc)}{floor_signature(os.environ)}"
    return f"{judge}|paper_judge:{paper}|{settings}|pkg:{__version__}"


percent = aggregation(metrics.SCALE)
