"""Grades of judges by ``judge-exam``, on verdicts that OpenING and MMRB2 publish.

The published figures are those of OpenING's paper. MMRB2's own ``compute_accuracy.py`` is run on
the sample judgements of its repository, which prefer A always, and on random ones with gaps.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mmie_tasks.quality.judge_exam import mmrb2, opening
from mmie_tasks.quality.judge_exam.grade import grade_judge
from mmie_tasks.quality.judge_exam.judgement_file import read_judgements
from mmie_tasks.quality.judge_exam.verdict_set import Pair
from parity.comparison import Case, Check, Comparison, Folders, compared

# Agreement as in OpenING's paper, arXiv 2411.18499; preference for the first answer, people's.
OPENING_JUDGES = {
    "GPT-4o": ("gpt-judge_modelAB_results.json", "71.08", "64.1", "52.8"),
    "IntJudge": ("intjudge_rag-judge_modelAB_results.json", "82.42", "52.3", "52.8"),
}
SAMPLE = "evaluate/generate_judgements/outputs/sample_task3_interleaved.json"


def opening_figures(folders: Folders) -> Comparison:
    """Shares in percent, to the decimals of the paper."""
    folder = folders["OPENING_FOLDER"]
    people = opening.load_opening(folder, os.environ)
    cases = []
    for judge, (file, agreement, first_answer, first_answer_people) in OPENING_JUDGES.items():
        result = grade_judge(people, read_judgements(folder / "Interleaved_Arena" / file, people))
        cases += [
            _case(f"{judge}: agreement", agreement, result.agreement.value),
            _case(f"{judge}: first answer", first_answer, result.first_answer.value),
            _case(f"{judge}: people", first_answer_people, result.first_answer_people.value),
        ]
    agreements = " and ".join(
        f"{ours} % for {name.partition(':')[0]}" for name, _, ours in cases[::3]
    )
    return compared(cases, note=f"agreement {agreements}, of {len(people.pairs):,} pairs")


def mmrb2_figures(folders: Folders) -> Comparison:
    """Accuracies in percent, to 10 decimals."""
    folder = folders["MMRB2_FOLDER"]
    people = mmrb2.load_mmrb2(folder, os.environ)
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(
            folder / "benchmark" / "interleaved_response_only.json",
            Path(scratch, "interleaved.json"),
        )
        made_up = Path(scratch, "judgements.json")
        made_up.write_text(json.dumps(random_judgements(people.pairs)), encoding="utf-8")
        cases = []
        for name, file in (("sample", folder / SAMPLE), ("random", made_up)):
            result = grade_judge(people, read_judgements(file, people))
            accuracy = official_accuracy(folder, file, Path(scratch))
            cases.append(_case(f"{name} judgements", accuracy, result.agreement.value))
    return compared(cases, note=f"{len(people.pairs):,} pairs, the sample's and random judgements")


PAGE = {"raters": "94.1", "two raters": "88.2", "more images": "61.1", "unequal images": "288"}
"""Figures of MMRB2's people on the page of ``judge-exam``, in percent; the last are pairs."""


def page_figures(folders: Folders) -> Comparison:
    """The figures of the page, from the sample judgements, which have both orders of each pair."""
    folder = folders["MMRB2_FOLDER"]
    people = mmrb2.load_mmrb2(folder, os.environ)
    result = grade_judge(people, read_judgements(folder / SAMPLE, people))
    images = result.more_images.wrong_for.n, result.more_images.wrong_against.n
    ours = {
        "raters": result.raters.value,
        "two raters": result.rater_pairs.value,
        "more images": 100 * images[0] / sum(images),
        "unequal images": sum(images) / 2,
    }
    return compared([_case(name, PAGE[name], ours[name]) for name in PAGE])


def _case(name: str, theirs: str, ours: float | None) -> Case:
    decimals = len(theirs.partition(".")[2])
    return name, theirs, "none" if ours is None else f"{ours:.{decimals}f}"


def random_judgements(pairs: Sequence[Pair]) -> dict[str, dict[str, list[dict[str, str]]]]:
    """Judgements as MMRB2 writes them; of ten orders one is missing, one has none, one is a tie."""
    made_up = np.random.default_rng(0)
    return {
        pair.id: {
            order: [{"judgement": str(made_up.choice(["A", "B", "tie"], p=[0.45, 0.45, 0.1]))}]
            if made_up.random() < 0.9
            else []
            for order in ("forward", "reverse")
            if made_up.random() < 0.9
        }
        for pair in pairs
    }


def official_accuracy(folder: Path, judgements: Path, scratch: Path) -> str:
    """The accuracy by ``compute_accuracy.py`` in percent; the pairs are ``interleaved.json`` in
    `scratch`.
    """
    script, output = (
        folder / "evaluate/compute_scores/compute_accuracy.py",
        scratch / "accuracy.json",
    )
    options = [f"--predictions={judgements}", f"--benchmark_dir={scratch}", f"--output={output}"]
    subprocess.run(
        [sys.executable, script, "--task=interleaved", *options],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return f"{100 * json.loads(output.read_bytes())['accuracy']:.10f}"


CHECKS = (
    Check(
        "LanceZPF/OpenING",
        "its paper's figures on two judges, from their published verdicts",
        ("OPENING_FOLDER",),
        opening_figures,
    ),
    Check(
        "MMRB2 `compute_accuracy.py`",
        "its accuracy of judgements",
        ("MMRB2_FOLDER",),
        mmrb2_figures,
    ),
    Check(
        "our page `mmie_tasks/quality`",
        "its figures on MMRB2's raters",
        ("MMRB2_FOLDER",),
        page_figures,
    ),
)
