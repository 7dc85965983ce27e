"""MMIE with the paper's judge in the process itself, on a CPU, on tiny checkpoints."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from support import random_checkpoint, scripted_checkpoint
from support.internvl_golden import CHECKPOINT
from support.mmie_seam import N, evaluate, made, printed, results, samples
from support.runner import Ran, Workplace

from mmie_tasks.judges.mmie_score.tokenizer import SlowLlamaTokenizer

TWO = ("torchrun", "--standalone", "--nproc_per_node", "2", "-m", "lmms_eval")
LOADED = "Loading MMIE-Score"
FREED = "Freed of the tested model `StubChat`: `models`."


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return made(tmp_path)


def judged(place: Workplace, *more: str, model: Path = CHECKPOINT, **others: str) -> Ran:
    return evaluate(place, *more, MMIE_SCORE_MODEL=str(model), MMIE_TASKS_JUDGE=" ", **others)


def replies(place: Workplace) -> dict[int, str]:
    return {line["doc_id"]: line["coverage"]["replies"][0]["text"] for line in samples(place)}


def test_the_default_judge_is_the_papers_and_gives_the_table(place: Workplace) -> None:
    ran = judged(place, model=scripted_checkpoint.write(place.folder / "judge"))
    values = printed(ran)
    assert values["official"] == 66.67, ran.output  # 4 of 6 points for each
    assert (values["points"], values["points_4"]) == (4.0, float(N))
    assert (values["coverage"], values["parse_rate"]) == (100.0, 100.0)
    assert values["over_4096"] == 0.0
    signature = results(place)["configs"]["mmie"]["metadata"]["signature"]
    assert signature.startswith("judge:mmie_score|model:MMIE-Score@")
    assert "|paper_judge:yes|" in signature
    logged = samples(place)[0]["coverage"]["replies"][0]
    assert logged["text"] == "### Score: 4"
    assert logged["usage"]["input_tokens"] > 50
    assert logged["usage"]["cost_usd"] == 0.0

    again = judged(place, model=place.folder / "judge")
    assert printed(again) == values, again.output
    assert LOADED in ran.output
    assert LOADED not in again.output  # every reply is in the cache


def test_a_judge_that_says_nothing_readable_leaves_the_samples_without_a_score(
    place: Workplace,
) -> None:
    ran = judged(place, "--launcher_args", "name=mmie_score,cache=off")
    values = printed(ran)
    assert math.isnan(values["official"]), ran.output
    assert (values["coverage"], values["unscored_unparsed"]) == (0.0, float(N))
    first = replies(place)
    assert all(first.values())

    shutil.rmtree(place.folder / "out")
    one_by_one = judged(place, "--launcher_args", "name=mmie_score,cache=off", MMIE_TASKS_SYNC="1")
    assert replies(place) == first, one_by_one.output


def test_two_processes_have_a_judge_each(place: Workplace) -> None:
    model = scripted_checkpoint.write(place.folder / "judge", reply="### Score: 5")
    ran = judged(place, model=model, command=TWO)
    assert printed(ran)["official"] == 83.33, ran.output
    assert ran.output.count(LOADED) == 2


@pytest.mark.parametrize(
    ("break_it", "found"),
    [
        pytest.param(lambda folder: shutil.rmtree(folder), "does not exist", id="no-folder"),
        pytest.param(lambda f: (f / "tokenizer.model").unlink(), "tokenizer.model", id="tokenizer"),
        pytest.param(
            lambda f: (f / "model-00002-of-00004.safetensors").unlink(), "model-00002", id="shard"
        ),
    ],
)
def test_a_checkpoint_that_cannot_be_used_stops_the_run_before_the_model(
    place: Workplace, break_it: object, found: str
) -> None:
    folder = place.folder / "judge"
    shutil.copytree(CHECKPOINT, folder)
    break_it(folder)  # type: ignore[operator]
    ran = judged(place, "--model", "stub", model=folder)
    assert ran.status == 1, ran.output
    assert found in ran.output
    assert "hint: " in ran.output
    assert "stub: generating" not in ran.output
    assert "Traceback" not in ran.output


def test_the_tested_model_is_freed_before_the_judge_is_loaded(place: Workplace) -> None:
    ran = judged(place, "--model", "stub", model=scripted_checkpoint.write(place.folder / "judge"))
    assert printed(ran)["official"] == 66.67, ran.output
    freed = ran.output.index(FREED)
    assert ran.output.index("stub: generating") < freed < ran.output.index(LOADED)


def test_a_model_of_real_width_judges_a_run_in_fp32(place: Workplace) -> None:
    model = random_checkpoint.write(place.folder / "judge", random_checkpoint.REAL_WIDTH)
    _end_soon(model)
    ran = judged(place, model=model)
    assert printed(ran)["unscored_unparsed"] == float(N), ran.output
    usages = [line["coverage"]["replies"][0]["usage"] for line in samples(place)]
    assert min(usage["input_tokens"] for usage in usages) > 256  # 256 for each tile
    assert all(0 < usage["output_tokens"] < 1024 for usage in usages)
    assert (
        "|dtype:float32|device:cpu|" in results(place)["configs"]["mmie"]["metadata"]["signature"]
    )
    shutil.rmtree(model)  # half a gigabyte


def _end_soon(folder: Path) -> None:
    """Let ``<|end|>`` be said after some tokens, not after some hundred: its logit swings more."""
    end = SlowLlamaTokenizer.from_folder(folder).id_of("<|end|>")
    name = "language_model.lm_head.weight"
    index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
    shard = folder / index["weight_map"][name]
    tensors = load_file(shard)
    tensors[name][end] *= 10
    save_file(tensors, shard, metadata={"format": "pt"})
