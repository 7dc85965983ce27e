"""Compares grades of judges with published figures and with MMRB2's own script, on published
verdicts.

``python tests/bench/judge_exam_oracle.py OPENING MMRB2`` with the folders of
https://github.com/LanceZPF/OpenING (``Interleaved_Arena/`` is enough) and
https://github.com/facebookresearch/MMRB2. Nothing is downloaded. ``compute_accuracy.py`` of MMRB2
is run on the sample judgements of its repository, which prefer A always, and on random ones with
gaps. Ends with status 1 if a figure differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from mmie_tasks.quality.judge_exam import mmrb2, opening
from mmie_tasks.quality.judge_exam.grade import grade
from mmie_tasks.quality.judge_exam.judgements import read_judgements
from mmie_tasks.quality.judge_exam.verdicts import Pair

Figure: TypeAlias = tuple[str, float | None, str]
"""Its name, ours, and what it must be with as many decimals."""

# Agreement as in OpenING's paper, arXiv 2411.18499; preference for the first answer, people's.
OPENING_JUDGES = {
    "GPT-4o": ("gpt-judge_modelAB_results.json", "71.08", "64.1", "52.8"),
    "IntJudge": ("intjudge_rag-judge_modelAB_results.json", "82.42", "52.3", "52.8"),
}
SAMPLE = "evaluate/generate_judgements/outputs/sample_task3_interleaved.json"


def opening_figures(folder: Path) -> Iterator[Figure]:
    people = opening.load_opening(folder, os.environ)
    for judge, (file, agreement, first_answer, first_answer_people) in OPENING_JUDGES.items():
        result = grade(people, read_judgements(folder / "Interleaved_Arena" / file, people))
        yield f"OpenING, {judge}: agreement", result.agreement.value, agreement
        yield f"OpenING, {judge}: first answer", result.first_answer.value, first_answer
        yield (
            f"OpenING, {judge}: first answer, people",
            result.first_answer_people.value,
            first_answer_people,
        )


def mmrb2_figures(folder: Path, scratch: Path) -> Iterator[Figure]:
    shutil.copy(
        folder / "benchmark" / "interleaved_response_only.json", scratch / "interleaved.json"
    )
    people = mmrb2.load_mmrb2(folder, os.environ)
    yield (
        "MMRB2: is it published",
        100.0 * people.source.endswith("(the published verdicts)"),
        "100",
    )
    made_up = scratch / "judgements.json"
    made_up.write_text(json.dumps(random_judgements(people.pairs)))
    result = grade(people, read_judgements(made_up, people))
    yield (
        "MMRB2, random judgements: agreement",
        result.agreement.value,
        official_accuracy(folder, made_up, scratch),
    )
    result = grade(people, read_judgements(folder / SAMPLE, people))
    accuracy = official_accuracy(folder, folder / SAMPLE, scratch)
    yield "MMRB2, sample judgements: agreement", result.agreement.value, accuracy
    yield "MMRB2, sample judgements: coverage", result.coverage, "100"
    yield "MMRB2: rater and label", result.raters.value, "94.1"
    yield "MMRB2: two raters", result.rater_pairs.value, "88.2"
    images = result.more_images.wrong_for.n, result.more_images.wrong_against.n
    yield "MMRB2: more images, people", 100 * images[0] / sum(images), "61.1"
    yield "MMRB2: pairs with unequal images", sum(images) / 2, "288"  # judged in both orders


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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Grades of judges against published figures.")
    parser.add_argument(
        "opening", type=Path, help="folder of OpenING's repository, with Interleaved_Arena/ in it"
    )
    parser.add_argument("mmrb2", type=Path, help="folder of MMRB2's repository")
    options = parser.parse_args(arguments)
    differences = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, value, expected in (
            *opening_figures(options.opening),
            *mmrb2_figures(options.mmrb2, Path(scratch)),
        ):
            text = "none" if value is None else f"{value:.{len(expected.partition('.')[2])}f}"
            print(f"{name:<40}{text:>16}" + ("" if text == expected else f"  not {expected}"))
            differences += text != expected
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
