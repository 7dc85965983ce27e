"""Grades of judges by ``judge-exam``, on verdicts that OpenING publishes.

The published figures are those of its paper.
"""

from __future__ import annotations

import os

from mmie_tasks.quality.judge_exam import opening
from mmie_tasks.quality.judge_exam.grade import grade_judge
from parity.comparison import Case, Check, Comparison, Folders, compared

# Agreement as in OpenING's paper, arXiv 2411.18499; preference for the first answer, people's.
OPENING_JUDGES = {
    "GPT-4o": ("gpt-judge_modelAB_results.json", "71.08", "64.1", "52.8"),
    "IntJudge": ("intjudge_rag-judge_modelAB_results.json", "82.42", "52.3", "52.8"),
}


def opening_figures(folders: Folders) -> Comparison:
    """Shares in percent, to the decimals of the paper."""
    folder = folders["OPENING_FOLDER"]
    people = opening.load_opening(folder, os.environ)
    cases = []
    for judge, (file, agreement, first_answer, first_answer_people) in OPENING_JUDGES.items():
        judgements = opening.read_judgements(folder / "Interleaved_Arena" / file, people)
        result = grade_judge(people, judgements)
        cases += [
            _case(f"{judge}: agreement", agreement, result.agreement.value),
            _case(f"{judge}: first answer", first_answer, result.first_answer.value),
            _case(f"{judge}: people", first_answer_people, result.first_answer_people.value),
        ]
    agreements = " and ".join(
        f"{ours} % for {name.partition(':')[0]}" for name, _, ours in cases[::3]
    )
    return compared(cases, note=f"agreement {agreements}, of {len(people.pairs):,} pairs")


def _case(name: str, theirs: str, ours: float | None) -> Case:
    decimals = len(theirs.partition(".")[2])
    return name, theirs, "none" if ours is None else f"{ours:.{decimals}f}"


CHECKS = (
    Check(
        "LanceZPF/OpenING",
        "its paper's figures on two judges, from their published verdicts",
        ("OPENING_FOLDER",),
        opening_figures,
    ),
)
