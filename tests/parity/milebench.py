"""Published answers to MileBench, scored again.

NipElement/V2PE has the answers of InternVL models with a score of each. Its copy of the official
script was changed in one step: an answer that begins with A, B, C or D counts as that letter.
InternVL2-2B answers with bare letters, so that the change matters for one answer. InternVL2.5-8B
writes the option after the letter, so of its published scores only those of questions without
lettered options are comparable. The official script itself, from a clone of MileBench, is run on
all answers of both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from rouge import Rouge

from mmie_tasks.benchmarks.milebench.benchmark import BENCHMARK, scored_fields
from mmie_tasks.benchmarks.milebench.sample import DATASETS, MileSample, rule_of
from mmie_tasks.core.verdict import Scored, Verdict
from parity.comparison import Case, Check, Comparison, Folders, compared
from parity.official_code import definitions
from parity.sources import ANSWERS

MODELS = {"InternVL2-2B": "internvl2_2b", "InternVL2.5-8B": "internvl2_5_8b"}

KNOWN = {
    "WikiVQA/32": "the changed step of the script that made the published scores",
    "DocVQA/131": "an option spelt unlike the gold answer in the published question, so that the "
    "answer is unscored here, and an exception in the official script",
}
"""Answers of InternVL2-2B whose published score differs, and why."""

UNSCORED = "unscored"

_OPTIONS = re.compile(r"Choice list: ?\n(.*?)\n(?:Answer with|Your answer)", re.DOTALL)
_LABEL = re.compile(r"^[A-Z]\. ")


@dataclass(frozen=True, slots=True)
class Answer:
    """A published answer.

    Attributes:
        sample: The question as far as scoring needs it.
        text: The model's words.
        is_lettered: Whether the question's options have letters.
        published: Its published score.
    """

    sample: MileSample
    text: str
    is_lettered: bool
    published: float


def datasets_at_hand(folder: Path) -> list[str]:
    """The datasets with published answers of a model; a partial clone may lack some."""
    return [name for name in DATASETS if (folder / name / "pred.json").is_file()]


@cache
def answers(folder: Path) -> Sequence[Answer]:
    """All published answers of a model."""
    return [one for name in datasets_at_hand(folder) for one in _answers(folder / name, name)]


def _answers(folder: Path, dataset: str) -> Iterator[Answer]:
    scores = json.loads((folder / "eval_score.json").read_text("utf-8"))
    published = {entry["id"]: float(entry["score"]) for entry in scores}
    for entry in json.loads((folder / "pred.json").read_text("utf-8")):
        lines = match[1].split("\n") if (match := _OPTIONS.search(entry["question"])) else []
        sample = MileSample(
            dataset=dataset,
            sample_id=str(entry["sample_id"]),
            rule=rule_of(dataset, "multi-choice" if lines else "open-ended"),
            instruction="",
            context="",
            images=("",) * entry["question"].count("<image>"),
            gold=str(entry["gt_response"]),
            choices=tuple(_LABEL.sub("", line) for line in lines),
        )
        is_lettered = any(map(_LABEL.match, lines))
        yield Answer(sample, entry["pred_response"], is_lettered, published[sample.sample_id])


def _official(answer: Answer) -> Verdict:
    return BENCHMARK.score(scored_fields(answer.sample), answer.text).official


def _points(verdict: Verdict, digits: int) -> object:
    return round(verdict.points, digits) if isinstance(verdict, Scored) else UNSCORED


# Published scores


def published_scores(folders: Folders, model: str, *, lettered: bool) -> Comparison:
    """The published score of each answer, to its 3 decimals."""
    folder = folders["V2PE_FOLDER"] / ANSWERS / MODELS[model]
    cases = [
        (answer.sample.id, round(answer.published, 3), _points(_official(answer), 3))
        for answer in answers(folder)
        if lettered or not answer.is_lettered
    ]
    missing = set(DATASETS) - set(datasets_at_hand(folder))
    note = f"not at hand: {', '.join(sorted(missing))}" if missing else ""
    return compared(cases, known=KNOWN if lettered else None, note=note)


def published_means(folders: Folders, model: str, *, lettered: bool) -> Comparison:
    """The published mean of each dataset, to 9 decimals, and the sum of points, to 6, and number of
    answers of each level of images in it.
    """
    folder = folders["V2PE_FOLDER"] / ANSWERS / MODELS[model]
    cases: list[Case] = []
    means: list[tuple[float, float]] = []
    known: dict[str, str] = {}
    for dataset in datasets_at_hand(folder):
        of_dataset = [one for one in answers(folder) if one.sample.dataset == dataset]
        if any(answer.is_lettered for answer in of_dataset) and not lettered:
            continue
        published = json.loads((folder / dataset / "eval.json").read_text("utf-8"))
        mean = published.get("Accuracy", published.get("Rouge-L f"))
        points, n = _sum(of_dataset)
        means.append((mean, points / n))
        cases.append((dataset, round(mean, 9), round(points / n, 9)))
        for level, (total, count) in published["image_quantity_level-Result"].items():
            points, n = _sum([a for a in of_dataset if a.sample.level == level.lower()])
            theirs, ours = (round(total, 6), count), (round(points, 6), n)
            cases.append((f"{dataset}, {level}", theirs, ours))
        for sample in (answer.sample for answer in of_dataset if answer.sample.id in KNOWN):
            names = (dataset, f"{dataset}, {sample.level.capitalize()}")
            known |= dict.fromkeys(names, f"see {sample.id} above")
    theirs, ours = (100 * fmean(column) for column in zip(*means, strict=True))
    note = f"mean of the {len(means)} datasets: {theirs:.2f} there, {ours:.2f} here"
    return compared(cases, known=known if lettered else None, note=note)


def _sum(of_group: Sequence[Answer]) -> tuple[float, int]:
    """Sum of points and number of the scored answers."""
    verdicts = [_official(answer) for answer in of_group]
    points = [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]
    return sum(points), len(points)


# The official script


def official_scores(folders: Folders, model: str) -> Comparison:
    """The official script's score of each answer, to 9 decimals, one answer at a time: an exception
    ends the script.
    """
    scorer = _scorer(folders["MILEBENCH_FOLDER"] / "evaluate.py")
    of_model = answers(folders["V2PE_FOLDER"] / ANSWERS / MODELS[model])
    theirs = [_official_score(scorer, answer) for answer in of_model]
    ours = [_points(_official(answer), 9) for answer in of_model]
    names = [answer.sample.id for answer in of_model]
    moved = [
        answer
        for answer, score in zip(of_model, theirs, strict=True)
        if score != UNSCORED and round(float(str(score)), 3) != round(answer.published, 3)
    ]
    changed = _scorer(folders["V2PE_FOLDER"] / "eval/milebench/evaluate.py")
    explained = sum(_official_score(changed, answer) == answer.published for answer in moved)
    note = (
        f"exceptions there, unscored here: {theirs.count(UNSCORED)}; not the published score: "
        f"{len(moved):,}, of which the changed script in the clone gives {explained:,}"
    )
    return compared(list(zip(names, theirs, ours, strict=True)), note=note)


def _scorer(script: Path) -> Any:
    source = script.read_text(encoding="utf-8")
    names = {"re": re, "np": np, "Rouge": Rouge, "print": lambda *_: None}
    return definitions(source, "Eval", **names)["Eval"]()


def _official_score(scorer: Any, answer: Answer) -> object:
    """As in the script's ``main``."""
    sample = answer.sample
    prediction = {"sample_id": 0, "gt_response": sample.gold, "pred_response": answer.text}
    instance = {"images_path": [], "choice_list": list(sample.choices)}
    core = {"data": [{"sample_id": 0, "image_quantity_level": "", "task_instance": instance}]}
    try:
        if sample.rule == "choice":
            _, result, _ = scorer.evaluate_multichoice([prediction], core)
        elif sample.rule == "rouge":
            result, _ = scorer.evaluate_rouge([prediction], core)
        else:
            needle = sample.rule == "needle"
            result, _ = scorer.evaluate_needle([prediction], core, needle=needle)
    except AssertionError:
        return UNSCORED
    return round(float(result["Accuracy" if "Accuracy" in result else "Rouge-L f"]), 9)


def _checks() -> Iterator[Check]:
    for model, lettered in (("InternVL2-2B", True), ("InternVL2.5-8B", False)):
        which = "" if lettered else ", without lettered options"
        for compares, run in (
            (f"published score of each answer of {model}{which}", published_scores),
            (f"published means of {model}: datasets and levels of images{which}", published_means),
        ):
            of_model = partial(run, model=model, lettered=lettered)
            yield Check("NipElement/V2PE", compares, ("V2PE_FOLDER",), of_model)
    for model in MODELS:
        compares = f"its score of each answer of {model}"
        needs, run = ("V2PE_FOLDER", "MILEBENCH_FOLDER"), partial(official_scores, model=model)
        yield Check("MileBench `evaluate.py`", compares, needs, run)


CHECKS = tuple(_checks())
