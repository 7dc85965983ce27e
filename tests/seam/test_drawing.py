"""A writer and a drawer: texts of ``mmie_step``, then ``mmie-tasks score --t2i``."""

from __future__ import annotations

import os
import shlex
from unittest.mock import patch

from support.judge_server import Body, JudgeServer
from support.logged_records import signature_of
from support.mmie_judge import content_of, text_of
from support.mmie_seam import KEY, N, evaluate, results, samples
from support.pictures import MODERATION, drawn
from support.runner import Workplace
from support.tiny_pipeline import write_tiny_pipeline

N_ASKED = 4  # of the samples: two tales and two series of steps; each shows the judge two images
FIRST, SECOND = "A girl in a red coat opens the door.", "Her dog waits outside."
STORY = f"{FIRST}\n[picture]\n{SECOND}\n[picture]\nThey walk.\n[picture]\nEnd."


def writes(body: Body) -> str:
    """The writer: a story where it is told how to ask for images, else a number."""
    return STORY if "[picture]" in str(body["messages"][-1]["content"]) else "42"


def command_of_written_texts(workplace: Workplace) -> list[str]:
    """The command that a writer's run has printed, up to the drawer."""
    with JudgeServer(writes, check=None) as writer:
        model_args = f"model=writer,base_url={writer.url},max_retries=1"
        model = ("--model", "openai", "--model_args", model_args)
        more = (*model, "--predict_only", "--output_path", "texts")
        result = evaluate(workplace, *more, tasks="mmie_step")
        asked = [str(body["messages"][-1]["content"]) for body in writer.asked]
    assert result.status == 0, result.output
    assert sum("exactly 2 steps, each followed by one picture" in text for text in asked) == N_ASKED
    assert sum("[picture]" in text for text in asked) == N_ASKED
    *words, drawer = shlex.split(result.output.splitlines()[-1])
    assert drawer == "DRAWER:MODEL"
    return words


def shown(judge: JudgeServer) -> set[bytes]:
    """The images that a judge got."""
    return {part for body in judge.asked for part in content_of(body) if isinstance(part, bytes)}


def stored(workplace: Workplace) -> set[bytes]:
    """The images that were drawn."""
    return {path.read_bytes() for path in (workplace.folder / "cache").rglob("drawn/**/*.png")}


def test_the_judge_sees_what_one_model_wrote_and_another_drew(
    workplace: Workplace, judge: JudgeServer
) -> None:
    command = command_of_written_texts(workplace)
    pairs = f"base_url={judge.url},prompts=words.json"
    options = ("-o", "out", "--judge", "openai:judge-model", "--judge_args", pairs)
    with JudgeServer(models=("image-model",)) as server:
        server.draws(lambda body: MODERATION if body["prompt"] == SECOND else drawn(body))
        t2i = f"images:image-model,base_url={server.url},size=512x512"
        result = workplace.run(*command, t2i, *options, MMIE_DATA="data", OPENAI_API_KEY=KEY)
    assert result.status == 0, result.output
    checked, drawer, *_ = result.output.splitlines()
    assert checked == f"mmie_step: answers {N} of {N}, images 0 of 0"
    assert drawer.startswith("drawer: images,model=image-model,size=512x512")
    # The judge gets the first image of each, byte for byte, and MSR as text.
    assert sorted(body["prompt"] for body in server.asked) == sorted([FIRST, SECOND] * N_ASKED)
    images = stored(workplace)
    assert len(images) == N_ASKED
    assert images <= shown(judge)
    (tale,) = [text_of(body) for body in judge.asked if "Tale 0 begins" in text_of(body)]
    assert f"{FIRST}\nImage-1: <image>\n{SECOND}\nThey walk.\nEnd.\n" in tale
    assert sum("### Answer\n42\n" in text_of(body) for body in judge.asked) == N - N_ASKED
    check_counts(workplace)
    mark = "reconstruction (step-3), not by the paper's pipeline; 4 pictures not drawn"
    assert mark in result.output
    assert [path.name for path in (workplace.folder / "out").iterdir()] == ["writer + image-model"]


def check_counts(workplace: Workplace) -> None:
    """What was drawn, not drawn and not used is counted; all samples have one signature."""
    logged = samples(workplace, "mmie_step", "out")
    (facts,) = [line["record"]["facts"] for line in logged if line["record"]["id"] == "SA-0"]
    assert (facts["pictures_drawn"], facts["not_drawn"]) == (1, "refused (1)")
    assert facts["unused"] == "images over the limit (1)"
    details = results(workplace)["mmie_tasks"]["mmie_step"]
    assert [details[f"pictures_{name}"] for name in ("drawn", "failed", "unused")] == [N_ASKED] * 3
    (signature,) = {signature_of(line["record"]) for line in logged}
    assert "|answers:step-3,images,model=image-model,size=512x512," in signature


def test_pipelines_of_two_processes_draw_in_the_texts_of_any_task(
    workplace: Workplace, judge: JudgeServer
) -> None:
    with patch.dict(os.environ):  # importing transformers 4 sets variables
        write_tiny_pipeline(workplace.folder / "tiny")
    (workplace.folder / "three.json").write_text(
        '{"SA-0": "A cat.[picture] A dog.[picture]", "PBL-1": "A hen.[picture]", "MSR-2": "7"}',
        encoding="utf-8",
    )
    model_args = "path=three.json,missing=count,t2i=diffusers:tiny;steps=2;size=32x32"
    model = ("--model", "predictions", "--model_args", model_args)
    result = evaluate(workplace, *model, "--output_path", "ranks", url=judge.url, processes=2)
    assert result.status == 0, result.output
    images = stored(workplace)
    assert len(images) == 3
    assert images <= shown(judge)
