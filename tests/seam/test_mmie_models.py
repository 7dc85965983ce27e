"""MMIE with models that draw, from the Hub, and with other benchmarks beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from support.hub_server import COMMIT
from support.judge_server import JudgeServer
from support.mmie_hub import ARCHIVE, mmie_hub
from support.mmie_judge import content_of, text_of
from support.mmie_seam import TABLE, N, evaluate, printed, samples
from support.runner import Workplace

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TORCHRUN = "python -m torch.distributed.run --standalone --nproc_per_node 2 -m lmms_eval"


def test_the_model_that_draws_is_judged_with_its_drawings(
    place: Workplace, judge: JudgeServer
) -> None:
    install = ("--no-deps", "--no-build-isolation", "--quiet", "--target", "plugins")
    model = str(EXAMPLES / "interleaved_model")
    ran = place.run("python", "-m", "pip", "install", *install, model)
    assert ran.status == 0, ran.output
    options = ("--model", "drawing", "--model_args", "output_dir=drawings")
    ran = evaluate(place, *options, url=judge.url, command=tuple(TORCHRUN.split()))
    assert TABLE.items() <= printed(ran).items(), ran.output
    assert len(judge) == N
    (tale,) = [body for body in judge.asked if "Tale 0 begins" in text_of(body)]
    assert re.search(r"\nPart 1.*\nImage-1: <image>\nPart 2.*\nImage-2: <image>\n", text_of(tale))
    drawings = place.folder / "drawings"
    shown = [drawings / f"mmie-0-{number}.png" for number in (1, 2)]
    pictures = [part for part in content_of(tale) if isinstance(part, bytes)]
    assert pictures[1:] == [path.read_bytes() for path in shown]


def test_saved_generations_are_judged_later_on_another_machine(
    place: Workplace, judge: JudgeServer
) -> None:
    ran = evaluate(place, "--predict_only", MMIE_OTHER_PROMPTS="")
    assert ran.status == 0, ran.output
    options = ("--model", "predictions", "--model_args", "path=out", "--output_path", "scored")
    ran = evaluate(place, *options, url=judge.url)
    assert TABLE.items() <= printed(ran).items(), ran.output


def test_data_comes_from_the_hub_with_its_images_and_nothing_else(
    place: Workplace, judge: JudgeServer
) -> None:
    hub_is = {"HF_HUB_OFFLINE": "0", "HF_DATASETS_OFFLINE": "0", "MMIE_DATA": ""}
    with mmie_hub(N, prefix="MMIE/images/") as hub:
        ran = evaluate(place, url=judge.url, HF_ENDPOINT=hub.url, **hub_is)
        assert TABLE.items() <= printed(ran).items(), ran.output
        assert f"|data:MMIE/MMIE@{COMMIT}" in ran.output
        assert {"data.json", ARCHIVE} <= set(hub.asked_for("GET"))
        assert "overview.json" not in hub.asked_for("GET")


def test_one_run_has_mmie_beside_another_benchmark_and_one_judge_for_both(
    place: Workplace,
) -> None:
    mia, mmie = EXAMPLES / "mia_bench", EXAMPLES / "mmie"
    recordings = f"{mia / 'replies.jsonl'};{mmie / 'replies.jsonl'}"
    ran = evaluate(
        place,
        *("--model", "predictions", "--model_args", f"path={mia / 'answers'};{mmie / 'answers'}"),
        *("--launcher_args", f"name=replay,path={recordings}"),
        tasks="mmie,mia_bench",
        MMIE_DATA=str(mmie / "data"),
        MMIE_OTHER_PROMPTS=str(mmie / "prompts.json"),
        MMIE_OUTPUT_ROOT=str(mmie / "answers"),
        MIA_BENCH_DATA=str(mia / "data"),
    )
    assert printed(ran, "MIA-Bench")["official"] == 71.25, ran.output
    assert printed(ran)["missing_images"] == 0.0
    assert printed(ran)["dropped"] == 1.0
    recorded = (mmie / "replies.jsonl").read_text(encoding="utf-8").splitlines()
    judged = [line for line in samples(place) if line["coverage"]["replies"]]
    assert len(judged) == len(recorded)
    assert all(json.loads(line)["signature"].startswith("judge:made_up") for line in recorded)
