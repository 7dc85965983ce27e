"""The task files: with functions that exist, and at the version the code says."""

import hashlib
import json

import yaml
from support.golden import GOLDEN, vectors

from mmie_tasks.benchmarks.milebench import benchmark
from mmie_tasks.benchmarks.milebench.benchmark import scored_fields
from mmie_tasks.benchmarks.milebench.prompts import PLACEHOLDER, question_content
from mmie_tasks.benchmarks.milebench.sample import DATASETS, MileSample
from mmie_tasks.core.files import task_dir
from mmie_tasks.core.verdict import SCORE_KINDS, Scored

FOLDER = task_dir() / "milebench"


def shared():
    text = (FOLDER / "_milebench_shared").read_text("utf-8")
    return yaml.safe_load(text.replace("!function", ""))


def behaviour():
    """A digest of everything that can move a score: prompts, settings and both readers."""
    golden, lines = vectors("milebench"), [json.dumps(shared()["generation_kwargs"])]
    for case in golden["prompts"]:
        if not case["combine_image"]:
            sample = MileSample.from_annotation(
                case["annotation"],
                dataset=case["dataset"],
                rule="rouge",
                instructions=case["task_instruction"],
            )
            parts = question_content(sample)
            lines.append("".join(p if isinstance(p, str) else PLACEHOLDER for p in parts))
    for case in golden["cases"]:
        sample = MileSample(
            dataset=DATASETS[0],
            sample_id="0",
            rule={"multi_choice": "choice", "rouge": "rouge", "needle": "needle"}[case["scorer"]],
            instruction="",
            context="",
            images=(),
            gold=case["gt_response"],
            choices=tuple(case.get("choice_list") or ()),
        )
        verdicts = benchmark.BENCHMARK.score(scored_fields(sample), case["pred_response"])
        for kind in SCORE_KINDS:
            verdict = verdicts.verdict(kind)
            points = f"{verdict.points:.9f}" if isinstance(verdict, Scored) else verdict.reason
            lines.append(f"{case['id']} {kind} {points}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_the_version_changes_when_a_score_can_change():
    """When this fails: raise the number of `version`, in the YAML too, and note the new digest."""
    noted = json.loads((GOLDEN / "versions.json").read_text(encoding="utf-8"))["milebench"]
    assert {"version": benchmark.BENCHMARK.version, "behaviour": behaviour()} == noted
