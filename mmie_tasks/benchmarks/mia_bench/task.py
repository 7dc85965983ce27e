"""The functions that the MIA-Bench YAML names, and the request for a sample and its answer."""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmie_tasks.answers.saved import NOT_TEXT, failure_of
from mmie_tasks.benchmarks.mia_bench import data, metrics, prompts
from mmie_tasks.benchmarks.mia_bench.official import read_official
from mmie_tasks.benchmarks.mia_bench.robust import is_impossible, read_robust
from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.core import __version__
from mmie_tasks.core.coverage import coverage_floor, floor_signature
from mmie_tasks.core.errors import DataBroken, DataMissing, MmieTasksError
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.verdict import Scored, Verdicts
from mmie_tasks.hub.images import ImageOpener, check_images
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judging.deferred import MetricRows
from mmie_tasks.judging.panel import Judged
from mmie_tasks.judging.requests import GradedRequest, JudgeResult
from mmie_tasks.judging.session import BenchmarkJudge, PendingSample
from mmie_tasks.runs.benchmark import ScoreKind
from mmie_tasks.runs.rows import aggregation, plain_score

if TYPE_CHECKING:
    import datasets
    from PIL import Image


Doc = Mapping[str, Any]

VERSION = "2-B"
"""``N-X``: N changes with the scores, X with the interface."""

_PAPER_JUDGE = re.compile(r"\|model:gpt-4o(-\d{4}-\d\d-\d\d)?(\||$)")  # the notebook's alias, dated
_OPENER = ImageOpener()  # of this process: a sample whose image could not be opened is not scored
_NO_IMAGE = "the address does not identify the image file"
_SKIPPED = "error"  # the notebook leaves out an answer that is only this word (cell 11)


@functools.cache
def prompt_maker() -> prompts.PromptMaker:
    """The prompt maker in the installed runner's file, which is read as data and not imported.

    Raises:
        OfficialTextChanged: No such file or function.
    """
    spec = find_spec("lmms_eval")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "tasks" / "mia_bench" / "utils.py"
        if path.is_file():
            return prompts.runner_prompt(path.read_text(encoding="utf-8"))
    raise prompts.OfficialTextChanged("This lmms-eval has no MIA-Bench prompt.")


def check_prompt() -> None:
    """Check that the installed runner has the text that the official prompt is made from.

    Raises:
        DataBroken: It has not.
    """
    try:
        prompts.check(prompt_maker())
    except prompts.OfficialTextChanged as error:
        raise DataBroken(str(error), hint=prompts.HINT) from error


DEFAULT_JUDGE = "openai:gpt-4o-2024-11-20"
JUDGE = BenchmarkJudge("mia_bench", DEFAULT_JUDGE, title="MIA-Bench", check_setup=check_prompt, full_marks=100)


def grade(sample: Sample, result: JudgeResult) -> Verdicts:
    """The official verdict of the first reply and the robust verdict of the last, in percent of full marks."""
    result = _with_needed_replies(sample, result)
    official = result.first_verdict(lambda reply: read_official(sample.categories, reply))
    robust = result.verdict(lambda reply: read_robust(sample, reply))
    parts: dict[ScoreKind, Mapping[str, float]] = {}
    if isinstance(official, Scored):
        parts["official"] = metrics.official_shares(sample, result.replies[0].text)
    if isinstance(robust, Scored):
        parts["robust"] = metrics.robust_shares(sample, result.last_text)
    return Verdicts(official=metrics.in_percent(official), robust=metrics.in_percent(robust), parts=parts)


def _with_needed_replies(sample: Sample, result: JudgeResult) -> JudgeResult:
    """The result; without a second reply if the first is possible, so that it would not be requested again today."""
    first = result.reply
    is_needed = first is not None and first.finish == "stop" and is_impossible(sample, first.text)
    return result if is_needed else replace(result, second_reply=None)


def last_reply(sample: Sample, judged: Judged) -> str | tuple[str, ...]:
    """The text of the judge's last reply, of a panel that of each judge; empty without a reply."""
    texts = tuple(_with_needed_replies(sample, member.result).last_text for member in judged.members)
    return texts if judged.panel is not None else "".join(texts)


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:  # noqa: ARG001 - the runner's signature
    """The samples, in place of the stub that the YAML loads.

    Missing or broken data ends the process with a message: the runner would retry an exception.
    """
    try:
        coverage_floor(os.environ)  # an invalid setting ends the run here, and not after it
        return data.dataset(os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None


def check_data(docs: datasets.Dataset) -> None:
    """Check the header of every image, before anything is generated or judged.

    Raises:
        DataMissing: Files are missing or are no images; gives their number and the first name.
    """
    hint = "complete `images/`, or unset `MIA_BENCH_DATA` to download them from the Hub"
    check_images("MIA-Bench", {doc["image"]: doc["id"] for doc in docs if doc["image"]}, hint)


def doc_to_messages(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> list[dict[str, object]]:
    """The image, then the instruction, as one user turn."""
    return user_turn([_open(doc), doc_to_text(doc, lmms_eval_specific_kwargs)])


def doc_to_text(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The instruction, between ``pre_prompt`` and ``post_prompt`` as in the runner's own task."""
    options = lmms_eval_specific_kwargs or {}
    return f"{options.get('pre_prompt', '')}{doc['instruction']}{options.get('post_prompt', '')}"


def doc_to_visual(doc: Doc) -> list[Image.Image]:
    """The image, opened."""
    return [_open(doc)]


def doc_to_target(doc: Doc) -> str:  # noqa: ARG001 - the runner's signature
    """Empty: an instruction has no gold answer."""
    return ""


def _open(doc: Doc) -> Image.Image:
    def path() -> Path:
        if doc["image"]:
            return Path(doc["image"])
        hint = "number the file, as the benchmark's README says"
        raise DataMissing(f"MIA-Bench, sample {doc['id']}: {_NO_IMAGE}.", hint=hint)

    return _OPENER.open(doc["id"], path)


def process_results(doc: Doc, results: Sequence[object]) -> Mapping[str, object]:
    """The rows of one answer, filled in once it is judged. A missing answer is not judged."""
    sample = Sample.from_doc(doc)
    logged = {
        "image": doc["image"] or None,
        "signature": signature(doc),
        "answer_sha256": hashlib.sha256("".join(map(str, results)).encode(errors="surrogatepass")).hexdigest(),
    }

    def make_rows(judged: Judged) -> MetricRows:
        record = {**metrics.record(sample, judged.verdicts, last_reply(sample, judged)), **logged, **judged.fields}
        return metrics.TABLE.rows(metrics.graded_sample(sample, judged.verdicts), record)

    if (verdicts := _unscored(sample, doc, results)) is not None:
        return make_rows(Judged(verdicts=verdicts))
    request = graded_request(sample, str(results[0]), [Path(doc["image"])])
    pending = PendingSample(request=request, make_rows=make_rows, metrics=metrics.TABLE.names)
    return JUDGE.submit(pending, plain=plain_score)


def _unscored(sample: Sample, doc: Doc, results: Sequence[object]) -> Verdicts | None:
    """The verdicts on an answer that is not sent to the judge; None for every other.

    The official script leaves out an answer that is only the word `_SKIPPED`; it judges an empty
    one.
    """
    answer = results[0] if len(results) == 1 else None
    if not isinstance(answer, str):
        return Verdicts.unscored("not_text", f"{len(results)} answers instead of one text")
    if answer.startswith(NOT_TEXT):
        return Verdicts.unscored("not_text", answer.removeprefix(NOT_TEXT).strip()[:80])
    if failure := failure_of(answer):
        return Verdicts.unscored("no_answer", failure)
    if problem := _OPENER.failure(sample.id) or (None if doc["image"] else _NO_IMAGE):
        return Verdicts.unscored("bad_image", problem)
    if answer == _SKIPPED:
        return Verdicts.unscored("no_answer", f"the official script skips the answer `{_SKIPPED}`")
    return None


def request_of(doc: Doc, answer: str) -> JudgeRequest:
    """The request for an answer: the official text, then the image."""
    return graded_request(Sample.from_doc(doc), answer, [Path(doc["image"])]).request


def graded_request(sample: Sample, answer: str, images: Sequence[Path]) -> GradedRequest:
    """The official text with an answer, then images, as in the notebook (cell 11), and the readers of the reply."""
    text = prompt_maker()(sample.instruction, sample.components, sample.weights, answer)
    return GradedRequest(
        request=JudgeRequest(parts=(prompts.official(text), *images), max_tokens=prompts.MAX_TOKENS),
        is_impossible=functools.partial(is_impossible, sample),
        grade=functools.partial(grade, sample),
    )


def provenance(doc: Doc) -> str:
    """Task version, prompt, readers and data revision in one line; without the judge."""
    return (
        f"prompt:official,max_tokens={prompts.MAX_TOKENS}|reader:official+robust"
        f"|task:mia_bench@{VERSION}|data:{doc['data']}"
    )


def signature(doc: Doc) -> str:
    """Everything that can move the score; another judge than the paper's is marked as such.

    Raises:
        SettingWrong: The chosen judge cannot be opened.
    """
    judge = JUDGE.signature()
    is_elsewhere = "|host:" in judge  # a server that is not the provider's
    is_panel = judge.startswith("panel:")
    paper = "yes" if _PAPER_JUDGE.search(judge) and not is_elsewhere and not is_panel else "no"
    settings = f"{provenance(doc)}{floor_signature(os.environ)}"
    return f"{judge}|paper_judge:{paper}|{settings}|pkg:{__version__}"


percent = aggregation(metrics.SCALE)
