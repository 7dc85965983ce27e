"""How far judges' win rates are from people's, and how often corrected intervals hold people's, on
OpenING.

``python tests/bench/judge_bias.py FOLDER`` with the folder of https://github.com/LanceZPF/OpenING,
whose ``Interleaved_Arena/*_modelAB_results.json`` hold verdicts of people, GPT-4o and IntJudge on
the same pairs of interleaved answers (paper: arXiv 2411.18499). Nothing is downloaded.

A model's points on a pair are 100 for a win, 50 for a tie and 0 for a loss. Per judge and model,
random pairs get people's verdict again and again; a corrected interval should hold the model's win
rate by all verdicts of people in 95 % of draws. Ends with status 1 if it does so in less than 93 %
or more than 97 % of draws in the mean over models, or in less than 90 % for a model.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from mmie_tasks.quality.calibrate.estimate import (
    MIN_LABELS,
    CorrectedMean,
    Estimate,
    StratumScores,
    corrected_mean,
)
from mmie_tasks.record.intervals import Floats, stratified_mean

PEOPLE = "judge_modelAB_results.json"
JUDGES = {
    "GPT-4o": "gpt-judge_modelAB_results.json",
    "IntJudge": "intjudge_rag-judge_modelAB_results.json",
}

Winner = Literal["A", "B", "Tie(A)", "Tie(B)"]
POINTS_OF_A: dict[Winner, float] = {"A": 100, "Tie(A)": 50, "Tie(B)": 50, "B": 0}

MEAN_COVERAGE = (93, 97)  # percent
LEAST_COVERAGE = 90


Verdicts = Mapping[tuple[str, str, str], Winner]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelScores:
    """Points of one model by a judge and by people on the same pairs, 0 to 100; shape
    ``(pairs,)``.
    """

    model: str
    judge: Floats
    people: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How often intervals hold the mean by all verdicts of people, in percent, and their mean
    width.
    """

    share: float
    width: float

    @classmethod
    def of(cls, estimates: Sequence[Estimate], truth: float) -> Coverage:
        """Of estimates from different labels."""
        ends = np.array([estimate.interval or (np.nan, np.nan) for estimate in estimates])
        holds = (ends[:, 0] <= truth) & (truth <= ends[:, 1])  # no interval holds nothing
        return cls(
            share=100 * float(holds.mean()), width=float(np.nanmean(ends[:, 1] - ends[:, 0]))
        )


def read(path: Path) -> Verdicts:
    """The verdicts of one file by question and models; a tie names the slightly better answer."""
    rows = json.loads(path.read_bytes())
    verdicts = {
        (row["data_id"], row["model_A"]["name"], row["model_B"]["name"]): row["winner"]
        for row in rows
    }
    assert len(verdicts) == len(rows), f"{path} has two verdicts on a pair"
    return verdicts


def scores_of_models(people: Verdicts, judge: Verdicts, labels: int) -> list[ModelScores]:
    """Points of each model on the pairs that have both verdicts.

    Raises:
        ValueError: A model has fewer pairs than labels.
    """
    points: dict[str, list[tuple[float, float]]] = {}
    for pair in people.keys() & judge.keys():
        by_judge, by_people = POINTS_OF_A[judge[pair]], POINTS_OF_A[people[pair]]
        points.setdefault(pair[1], []).append((by_judge, by_people))
        points.setdefault(pair[2], []).append((100 - by_judge, 100 - by_people))
    fewest = min(map(len, points.values()), default=0)
    if fewest < labels:
        raise ValueError(
            f"A model has {fewest} pairs with both verdicts, and a draw has {labels} labels."
        )
    arrays = {model: np.array(sorted(rows)) for model, rows in sorted(points.items())}
    return [
        ModelScores(model=model, judge=rows[:, 0], people=rows[:, 1])
        for model, rows in arrays.items()
    ]


def agreement(people: Verdicts, judge: Verdicts) -> float:
    """Share of pairs on which both prefer the same answer, a tie counting for the one it names;
    percent.
    """
    shared = people.keys() & judge.keys()
    return (
        100
        * sum(people[pair].strip("Tie()") == judge[pair].strip("Tie()") for pair in shared)
        / len(shared)
    )


def corrections(scores: ModelScores, labels: int, draws: int) -> list[CorrectedMean]:
    """The corrected means with people's verdicts of random pairs."""
    random = np.random.default_rng([labels, len(scores.judge)])
    means = []
    for _ in range(draws):
        labelled = random.choice(len(scores.judge), labels, replace=False)
        means.append(
            corrected_mean(
                [
                    StratumScores(
                        name=scores.model,
                        weight=1,
                        judge=scores.judge,
                        labelled=labelled,
                        people=scores.people[labelled],
                    )
                ]
            )
        )
    return means


def print_table(title: str, models: Sequence[ModelScores], labels: int, draws: int) -> list[float]:
    """Print a judge's table.

    Returns:
        The coverage of the corrected interval of each model, in percent.
    """
    print(f"\n{title}; {draws} draws of {labels} labels")
    print(
        f"{'':<22}{'win rate, %':>17}{'':>7}  "
        f"{'judge alone':<12}{'people alone':>14}{'corrected':>16}  labels"
    )
    names = ("people", "judge", "bias", "holds", "cover", "width", "cover", "width", "worth")
    print(f"{'model':<16}{'pairs':>6}" + "".join(f"{name:>8}" for name in names))
    rows = []
    for scores in models:
        truth, judge = float(scores.people.mean()), float(scores.judge.mean())
        mean = stratified_mean([scores.judge], [1], full_marks=100)
        low, high = mean.interval(0, 100) if mean else (math.nan, math.nan)
        judge_holds = low <= truth <= high
        means = corrections(scores, labels, draws)
        alone = Coverage.of([mean.people for mean in means], truth)
        corrected = Coverage.of([mean.corrected for mean in means], truth)
        worth = float(np.mean([mean.labels_worth for mean in means if mean.labels_worth]))
        numbers = (alone.share, alone.width, corrected.share, corrected.width, worth)
        print(
            f"{scores.model:<16}{len(scores.judge):>6}{truth:>8.1f}{judge:>8.1f}"
            f"{judge - truth:>+8.1f}"
            f"{'yes' if judge_holds else 'no':>8}"
            + "".join(f"{number:>8.1f}" for number in numbers)
        )
        rows.append((abs(judge - truth), judge_holds, *numbers))
    mean = np.mean(rows, axis=0)
    print(
        f"{'mean':<22}{'':>16}{mean[0]:>8.1f}{f'{sum(row[1] for row in rows)} of {len(rows)}':>8}"
        + "".join(f"{number:>8.1f}" for number in mean[2:])
    )
    print(f"largest bias {max(row[0] for row in rows):.1f}")
    return [row[4] for row in rows]


def problems(title: str, coverage: Sequence[float], models: Sequence[ModelScores]) -> list[str]:
    """What is wrong with the coverage of a judge's corrected intervals."""
    (low, high), mean = MEAN_COVERAGE, float(np.mean(coverage))
    wrong = (
        []
        if low <= mean <= high
        else [f"{title}: the mean coverage is {mean:.1f} %, not {low} to {high} %"]
    )
    for scores, share in zip(models, coverage, strict=True):
        if share < LEAST_COVERAGE:
            wrong.append(
                f"{title}: the coverage for {scores.model} is {share:.1f} %, below "
                f"{LEAST_COVERAGE} %"
            )
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Bias of judges on OpenING's verdicts, and corrected intervals."
    )
    parser.add_argument(
        "folder", type=Path, help="of OpenING's repository, with Interleaved_Arena/ in it"
    )
    parser.add_argument(
        "--labels", type=int, default=100, help="people's verdicts per draw; default: %(default)s"
    )
    parser.add_argument(
        "--draws", type=int, default=400, help="per model and judge; default: %(default)s"
    )
    options = parser.parse_args(arguments)
    if options.labels < MIN_LABELS or options.draws < 1:
        parser.error(f"an interval needs {MIN_LABELS} labels, and its coverage one draw")
    arena = options.folder / "Interleaved_Arena"
    wrong = []
    people = read(arena / PEOPLE)
    for title, name in JUDGES.items():
        judge = read(arena / name)
        models = scores_of_models(people, judge, options.labels)
        share = agreement(people, judge)
        header = f"{title}: agrees with people on {share:.2f} % of {len(people)} pairs"
        coverage = print_table(header, models, options.labels, options.draws)
        wrong += problems(title, coverage, models)
    good = "Corrected intervals hold people's win rate as often as they should."
    print("\n" + ("\n".join(wrong) or good))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
