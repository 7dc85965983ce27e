"""Scores published answers to MileBench again: ``python tests/parity/milebench.py FOLDER``.

FOLDER is a clone of NipElement/V2PE at cba1b13, which has the answers of InternVL models with the
official script's score of each (``eval/milebench/milebench``). Its copy of that script was changed
in one step: an answer that begins with a letter counts as that letter. InternVL2-2B answers with
bare letters, so that the change matters for one answer; InternVL2.5-8B does not, so of its answers
only the datasets without lettered options are compared.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.comparison import Comparison, compared, printed

from mmie_tasks.benchmarks.milebench import metrics
from mmie_tasks.benchmarks.milebench.sample import DATASETS, Sample, rule_of
from mmie_tasks.core.verdict import Scored

KNOWN = {"WikiVQA/32": "the changed step", "DocVQA/131": "an option spelt unlike the gold answer"}
"""Answers of InternVL2-2B whose published score differs, and why."""

ANSWERS = "eval/milebench/milebench"
_OPTIONS = re.compile(r"Choice list: ?\n(.*?)\n(?:Answer with|Your answer)", re.DOTALL)
_LABEL = re.compile(r"^[A-Z]\. ")


def scores(folder: Path, dataset: str) -> Iterator[tuple[str, object, object, bool]]:
    """Id, published and own score of each answer to a dataset, and whether its options have
    letters.
    """
    published = {
        entry["id"]: float(entry["score"])
        for entry in json.loads((folder / dataset / "eval_score.json").read_text("utf-8"))
    }
    for entry in json.loads((folder / dataset / "pred.json").read_text("utf-8")):
        lines = match[1].split("\n") if (match := _OPTIONS.search(entry["question"])) else []
        sample = Sample(
            dataset=dataset,
            sample_id=str(entry["sample_id"]),
            rule=rule_of(dataset, "multi-choice" if lines else "open-ended"),
            instruction="",
            context="",
            images=(),
            gold=str(entry["gt_response"]),
            choices=tuple(_LABEL.sub("", line) for line in lines),
        )
        verdict = metrics.official(sample, entry["pred_response"])
        own = round(verdict.points, 3) if isinstance(verdict, Scored) else verdict
        is_lettered = any(_LABEL.match(line) for line in lines)
        yield sample.id, round(published[sample.sample_id], 3), own, is_lettered


def compared_model(folder: Path, model: str, *, with_letters: bool) -> Comparison:
    """All answers of a model, or those to datasets whose options have no letters."""
    datasets = [name for name in DATASETS if (folder / ANSWERS / model / name).is_dir()]
    cases = [
        (sample_id, theirs, ours)
        for dataset in datasets
        for sample_id, theirs, ours, is_lettered in scores(folder / ANSWERS / model, dataset)
        if with_letters or not is_lettered
    ]
    if not cases:
        raise SystemExit(f"`{folder}` has no `{ANSWERS}/{model}`: not a clone of NipElement/V2PE")
    known = [case for case in cases if case[0] in KNOWN and case[1] != case[2]]
    name = f"scores of answers of {model}"
    name += f", without {', '.join(case[0] for case in known)} (known)" if known else ""
    return compared(name, [case for case in cases if case not in known])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a clone of NipElement/V2PE")
    folder = parser.parse_args().folder
    return printed(
        [
            compared_model(folder, "internvl2_2b", with_letters=True),
            compared_model(folder, "internvl2_5_8b", with_letters=False),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
