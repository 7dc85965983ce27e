"""The functions the MMIE YAMLs name.

A task says which samples it wants in ``dataset_name``: ``all``, ``sa``, ``pbl``, ``msr`` or ``1k``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger

from mmie_tasks import __version__
from mmie_tasks.benchmarks.mmie import data as source
from mmie_tasks.benchmarks.mmie import metrics
from mmie_tasks.benchmarks.mmie import metrics as totals
from mmie_tasks.benchmarks.mmie import request as asking
from mmie_tasks.benchmarks.mmie import request as settings
from mmie_tasks.benchmarks.mmie.benchmark import JUDGE, grade
from mmie_tasks.benchmarks.mmie.metrics import Row, summary
from mmie_tasks.benchmarks.mmie.request import counted
from mmie_tasks.benchmarks.mmie.sample import Sample
from mmie_tasks.core.bootstrap import bootstrap_interval
from mmie_tasks.core.errors import DataMissing, MmieTasksError, SettingWrong
from mmie_tasks.core.messages import user_turn
from mmie_tasks.hub.images import ImageOpener
from mmie_tasks.judging.deferred import MetricRows
from mmie_tasks.judging.session import CheckedRequest, JudgeResult, PendingSample

if TYPE_CHECKING:
    import datasets
    from PIL import Image


Doc = Mapping[str, Any]

VERSION = "1-A"  # of every task here: the number moves with the scores, the letter otherwise

TASKS = {"all": "mmie", "sa": "mmie_sa", "pbl": "mmie_pbl", "msr": "mmie_msr", "1k": "mmie_1k"}
"""What ``dataset_name`` may say, and the task that says it."""

_MISSING = "MMIE_MISSING_IMAGES"
_OPENER = ImageOpener()  # of this process: what a model could not be shown is not scored


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:
    """The samples in place of the stub the YAML loads.

    Data that is missing or broken stops the run in words: the runner would retry an exception.
    """
    selection = stub.config_name
    try:
        samples = source.dataset(selection, os.environ)
        return samples.add_column("task", [TASKS[selection]] * len(samples))
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None


def look_for_images_in(folder: Path) -> None:
    """Look for the images of answers also below the folder that the run writes to."""
    asking.look_in(folder)


def before_requests(docs: datasets.Dataset) -> None:
    """See that the images of the questions are there, before anything is generated or judged.

    Raises:
        DataMissing: Files are not there, and ``MMIE_MISSING_IMAGES`` does not say ``count``.
        SettingWrong: ``MMIE_MISSING_IMAGES`` says something else.
    """
    asked = os.environ.get(_MISSING) or "stop"
    if asked not in ("stop", "count"):
        hint = f"`export {_MISSING}=count` goes on without the images, and counts them"
        raise SettingWrong(f"`{_MISSING}` is {asked!r}, and can be stop or count.", hint=hint)
    missing = source.missing_images(docs)
    if not missing:
        return
    path, sample_id = next(iter(missing.items()))
    found = f"{len(missing)} images of MMIE's questions are not there. The first, of sample "
    found += f"{sample_id}: `{path}`"
    if asked == "stop":
        hint = f"unpack `images.tar.gz` beside `data.json`, or `export {_MISSING}=count` to go on"
        raise DataMissing(f"{found}.", hint=f"{hint} without them, as the official script does")
    logger.warning(f"{found}. The samples are asked and judged without them, and counted.")


def doc_to_messages(
    doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> list[dict[str, object]]:
    """The question as one user turn, images opened and at their places."""
    before, after = _around(lmms_eval_specific_kwargs)
    parts = [_open(doc, part) if isinstance(part, Path) else part for part in _question(doc)]
    return user_turn([before, *parts, after])


def doc_to_text(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The question for wrappers that take text and images apart.

    ``image_token`` (default ``<image>``) marks an image; ``{n}`` in it counts from 1.
    """
    token = str((lmms_eval_specific_kwargs or {}).get("image_token", "<image>"))
    before, after = _around(lmms_eval_specific_kwargs)
    shown, pieces = 0, []
    for part in _question(doc):
        shown += isinstance(part, Path)
        pieces.append(part if isinstance(part, str) else token.replace("{n}", str(shown)))
    return f"{before}{''.join(pieces)}{after}"


def doc_to_visual(doc: Doc) -> list[Image.Image]:
    """The images of the question, opened, in the order of their places."""
    return [_open(doc, part) for part in _question(doc) if isinstance(part, Path)]


def doc_to_target(doc: Doc) -> str:
    """The words of the gold answer, for the log. The judge is shown them for MSR only."""
    return "\n".join(segment["text"] for segment in doc["gold"] if segment["text"])


def _question(doc: Doc) -> list[str | Path]:
    return asking.question(Sample.from_doc(doc))


def _around(specific: Mapping[str, Any] | None) -> tuple[str, str]:
    around = specific or {}
    return str(around.get("pre_prompt", "")), str(around.get("post_prompt", ""))


def _open(doc: Doc, path: Path) -> Image.Image:
    """The image; a blank where it cannot be opened (see `ImageOpener`)."""
    return _OPENER.open(doc["id"], lambda: path)


def process_results(doc: Doc, results: Sequence[object]) -> Mapping[str, object]:
    """The rows of one answer, filled in once it is judged; what is no answer is not judged."""
    sample = Sample.from_doc(doc)
    asked = asking.ask(sample, results, doc["task"])
    if why := _OPENER.failure(sample.id):
        asked = asking.not_to_judge(asked, "bad_image", why)
    judge = _noted_signature(doc)
    logged = {"signature": judge, "answer": asked.logged}
    if asked.request is None:
        grading = metrics.ungraded(asked.reason, asked.detail)
        return metrics.rows(sample, grading, asked.facts, {**logged, "replies": []})

    def rows_of(judged: JudgeResult) -> MetricRows:
        facts = counted(asked.facts, judged.reply, judge)
        replies = [] if judged.reply is None else [asdict(judged.reply)]
        return metrics.rows(sample, grade(judged), facts, {**logged, "replies": replies})

    question = CheckedRequest(request=asked.request)
    case = PendingSample(request=question, make_rows=rows_of, metrics=metrics.certain(sample))
    return JUDGE.submit(case, plain=_plain_score)


def _noted_signature(doc: Doc) -> str:
    """The signature for the log. Never raises: what is wrong leaves samples unscored elsewhere."""
    try:
        return signature(doc)
    except MmieTasksError as error:
        return f"judge:unknown|why:{str(error).splitlines()[0]}|{provenance(doc)}"


def _plain_score(rows: MetricRows) -> Mapping[str, object]:
    """The official points as a plain fraction of 1, for ``--baseline``; none where unscored."""
    percent = rows["official"].get("score")
    return {"score": percent / 100} if isinstance(percent, float) else {}


def provenance(doc: Doc) -> str:
    """Task version, readings and data, in one line. Nothing of the judge or what it is shown."""
    return f"reader:official+robust|task:mmie@{VERSION}|data:{doc['data']}"


def signature(doc: Doc) -> str:
    """Everything that moves the number; another judge than the paper's is marked as such.

    Raises:
        MmieTasksError: The judge that was chosen cannot be opened.
    """
    judge = JUDGE.signature()
    paper = "yes" if judge.startswith("judge:mmie_score|") else "no"
    return f"{judge}|paper_judge:{paper}|{settings.signature()}|{provenance(doc)}|pkg:{__version__}"


def coverage(records: Sequence[Row]) -> float:
    """Samples with an official score, in percent of all; prints the run's summary."""
    logger.info(f"MMIE\n{summary(records, bootstrap_interval)}")
    return totals.coverage(records)


def percent(rows: Sequence[Row]) -> float:
    """Mean in percent of full marks, rounded as official; NaN below the floor of coverage."""
    return totals.percent(rows)


def points(rows: Sequence[Row]) -> float:
    """Mean points, 0 to 6, rounded as official; NaN below the floor of coverage."""
    return totals.points(rows)


def ci_low(rows: Sequence[Row]) -> float:
    """Lower end of the 95 % bootstrap interval of the mean, in percent of full marks."""
    return totals.ci_low(rows, bootstrap_interval)


def ci_high(rows: Sequence[Row]) -> float:
    """Upper end of the 95 % bootstrap interval of the mean, in percent of full marks."""
    return totals.ci_high(rows, bootstrap_interval)


def share(rows: Sequence[Row]) -> float:
    """Samples of which something holds, in percent of those it can hold of."""
    return totals.share(rows)


def total(rows: Sequence[Row]) -> float:
    """The sum of what is counted."""
    return totals.total(rows)


def plain_mean(scores: Sequence[float]) -> float:
    """Mean of the plain scores, 0 to 1."""
    return totals.plain_mean(scores)
