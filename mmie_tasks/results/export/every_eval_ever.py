"""Records of the database Every Eval Ever.

Its schemas are ``eval.schema.json`` and ``instance_level_eval.schema.json``, version 0.3.0, in
``every_eval_ever/schemas`` of evaleval/every_eval_ever at 9bce413; paths and identifiers follow its
README.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from mmie_tasks.core import __version__
from mmie_tasks.core.verdict import Scored
from mmie_tasks.core.wording import listed
from mmie_tasks.hub.dataset import RepoCommit
from mmie_tasks.record.intervals import LEVEL
from mmie_tasks.record.metrics import Metric, MetricValue
from mmie_tasks.record.sample import SCORE_KINDS, ScoreKind
from mmie_tasks.results.frames import text_of
from mmie_tasks.runs.headline import Headline
from mmie_tasks.runs.run import Run, TaskRun
from mmie_tasks.runs.values import metrics_of, reasons_of, value_of

JsonObject: TypeAlias = dict[str, object]

SCHEMA_VERSION = "0.3.0"
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")

_UNKNOWN = {"deployment_type": "unknown", "model_availability": "unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A task of a run with its headline, and the tested model: ``DEVELOPER/NAME``."""

    run: Run
    task_run: TaskRun
    headline: Headline
    model: str

    @property
    def id(self) -> str:
        """The same id for every export of a run; it changes with judges, readers and data."""
        digest = _digest("\n".join(map(str, self.task_run.signatures))).hex()[:8]
        return f"{self.task_run.task}/{self.model}/{self.run.date}-{digest}"

    def result_id(self, metric: Metric, kind: ScoreKind) -> str:
        """The id of one score: ``...#official_SA``."""
        return f"{self.id}#{_score_name(metric, kind)}"

    @property
    def path(self) -> Path:
        """The aggregate record, below the database's root; its name is a UUID of version 4."""
        name = uuid.UUID(bytes=_digest(self.id)[:16], version=4)
        return Path("data", self.task_run.task, *self.model.split("/"), f"{name}.json")


def _score_name(metric: Metric, kind: ScoreKind) -> str:
    return f"{kind}_{metric.name}".removesuffix("_")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def aggregate_record(evaluation: Evaluation, source: JsonObject) -> JsonObject:
    """The record of a task: ``eval.schema.json``; `source` says who publishes it."""
    developer, _, name = evaluation.model.partition("/")
    version = evaluation.task_run.signatures[0].fields.get("pkg", __version__)
    started = evaluation.run.started
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": evaluation.id,
        **({"evaluation_timestamp": started.isoformat()} if started else {}),
        "retrieved_timestamp": str(int(time.time())),
        "source_metadata": source,
        "model_info": _model_info(evaluation.model, name=name, developer=developer),
        "eval_library": {
            "name": "mmie-tasks",
            "version": version,
            "additional_details": {"runner": "lmms-eval"},
        },
        "evaluation_results": list(_results(evaluation)),
    }


def _model_info(model: str, **more: str) -> JsonObject:
    return {"name": model, "id": model, **more, "additional_details": _UNKNOWN}


def _results(evaluation: Evaluation) -> Iterator[JsonObject]:
    """Every score that people quote: the headline by both readers, and the paper's columns."""
    task_run = evaluation.task_run
    data = task_run.signatures[0].fields.get("data", "unknown")
    dataset = RepoCommit.from_text(data)
    source = {
        "dataset_name": task_run.benchmark.title,
        **({"hf_repo": dataset.repo} if dataset else {}),
        "source_type": "hf_dataset" if dataset else "other",
        "additional_details": {"data": data},
    }
    for metric in metrics_of([task_run]):
        is_headline = metric.kind == "headline"
        for kind in SCORE_KINDS if is_headline else SCORE_KINDS[:1]:
            value = value_of(task_run, metric, kind) if is_headline or metric.in_table else None
            if value is not None and value.percent is not None:
                config = {
                    "metric_id": f"{task_run.task}.{_score_name(metric, kind)}",
                    "metric_name": f"{metric.title}, {kind}",
                    "metric_unit": "percent",
                    "lower_is_better": False,
                    "score_type": "continuous",
                    "min_score": 0,
                    "max_score": 100,
                    **_scoring(task_run),
                }
                yield {
                    "evaluation_result_id": evaluation.result_id(metric, kind),
                    "evaluation_name": task_run.task,
                    "source_data": source,
                    "metric_config": config,
                    "score_details": _score_details(evaluation, value, kind),
                }


def _scoring(task_run: TaskRun) -> JsonObject:
    """The judges and their rule; nothing for a task that is scored by rule."""
    signatures = task_run.signatures
    judges = {str(judge): judge for signature in signatures for judge in signature.each_judge}
    if not judges or task_run.benchmark.judge is None:
        return {}
    scoring = {
        "judges": [
            {"model_info": _model_info(judge.name), "additional_details": {"signature": text}}
            for text, judge in judges.items()
        ],
        "input_prompt": f"not included; {signatures[0].fields.get('prompt', 'unknown')}",
        **({"aggregation_method": "median"} if signatures[0].is_panel else {}),
    }
    return {"llm_scoring": scoring}


def _score_details(evaluation: Evaluation, value: MetricValue, kind: ScoreKind) -> JsonObject:
    uncertainty: JsonObject = {"num_samples": value.scored}
    if value.interval is not None:
        uncertainty["confidence_interval"] = {
            "lower": value.interval.low,
            "upper": value.interval.high,
            "confidence_level": LEVEL,
            "method": "Student's t on the stratified standard error; the error of sampling only",
        }
    details = {
        "samples": str(value.total),
        "unscored samples of the task": listed(reasons_of(evaluation.task_run, kind)),
        "unlike the paper": "; ".join(evaluation.headline.marks),
    }
    known = {name: text for name, text in details.items() if text}
    return {"score": value.percent, "details": known, "uncertainty": uncertainty}


def sample_records(evaluation: Evaluation) -> Iterator[JsonObject]:
    """A record for each sample with official points: ``instance_level_eval.schema.json``.

    The score is in percent of full marks, and correct means full marks. The schema requires a
    number, so samples without points have no record.
    """
    task_run = evaluation.task_run
    scale = task_run.benchmark.scale
    result_id = evaluation.result_id(metrics_of([task_run])[0], "official")
    for sample in task_run.samples:
        if not isinstance(sample.official, Scored):
            continue
        replies = {
            f"reply {number}" if len(sample.replies) > 1 else "reply": reply.text
            for number, reply in enumerate(sample.replies, 1)
        }
        yield {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": evaluation.id,
            "model_id": evaluation.model,
            "evaluation_name": task_run.task,
            "evaluation_result_id": result_id,
            "sample_id": sample.id,
            "interaction_type": "single_turn",
            "input": {
                "raw": text_of(sample.question),
                "reference": [text_of(sample.gold)] if sample.gold else [],
            },
            "output": {"raw": [text_of(sample.answer)]},
            "answer_attribution": [],
            "evaluation": {
                "score": scale.percent(sample.official.points),
                "is_correct": sample.official.points == scale.full_marks,
            },
            "metadata": {kind: ", ".join(of) for kind, of in sample.groups.items()} | replies,
        }
