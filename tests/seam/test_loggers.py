"""The runner's logger for Weights & Biases on the bundled samples, one of them unscored."""

from __future__ import annotations

from pathlib import Path

from support.runner import Workplace, write
from support.wandb_stand_in import install, logged_tables

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
JUDGED = ("mmie", "mia_bench")
ANSWERS = ";".join(str(EXAMPLES / name / "answers") for name in (*JUDGED, "milebench"))
REPLAY = ";".join(str(EXAMPLES / name / "replies.jsonl") for name in JUDGED)
DATA = {
    "MMIE_DATA": str(EXAMPLES / "mmie" / "data"),
    "MIA_BENCH_DATA": str(EXAMPLES / "mia_bench" / "data"),
    "MILEBENCH_DATA": str(EXAMPLES / "milebench" / "data"),
}
PROMPTS = EXAMPLES / "mmie" / "prompts.json"
FROM_PYTHON = f"""
from lmms_eval.evaluator import simple_evaluate
from lmms_eval.loggers import WandbLogger
results = simple_evaluate(
    model="predictions",
    model_args="path={ANSWERS},images={EXAMPLES}/mmie/answers",
    tasks=["mmie", "mia_bench", "milebench"],
    launcher_args="name=replay,path={REPLAY},prompts={PROMPTS}",
    log_samples=True,
)
logger = WandbLogger(project="demo")
logger.post_init(results)
logger.log_eval_result()
logger.log_eval_samples(results["samples"])
"""


def test_samples_are_logged_and_an_unscored_one_has_no_number(tmp_path: Path) -> None:
    workplace = Workplace(folder=tmp_path)
    install(workplace)
    write(workplace.folder / "evaluation.py", FROM_PYTHON)
    result = workplace.run("python", "evaluation.py", **DATA)
    assert result.status == 0, result.output
    tables = logged_tables(workplace)
    counts = {name.removesuffix("_eval_results"): len(rows) for name, rows in tables.items()}
    assert counts == {"mmie": 11, "mia_bench": 8, "milebench": 58}
    scores = [row["official"] for row in tables["mmie_eval_results"]]
    assert sum(score == score for score in scores) == 9
    coverage = [row["coverage"] for row in tables["mmie_eval_results"]]
    assert (coverage.count(1), coverage.count(0)) == (9, 1)
