"""A writer and a drawer: texts of ``mmie_step``, then ``mmie-tasks score --t2i``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from support.judge_server import Body, JudgeServer
from support.logged_records import signature_of
from support.mmie_judge import by_category, content_of, text_of
from support.mmie_seam import KEY, N, create_workplace, evaluate, results, samples
from support.pictures import MODERATION, drawn
from support.runner import CommandResult, Workplace
from support.tiny_pipeline import write_tiny_pipeline

N_ASKED = 4  # of the samples: two tales and two series of steps; each shows the judge two images
FIRST, SECOND = "A girl in a red coat opens the door.", "Her dog waits outside."
STORY = f"{FIRST}\n[picture]\n{SECOND}\n[picture]\nThey walk.\n[picture]\nEnd."


def writes(body: Body) -> str:
    """The writer: a story where it is told how to ask for images, else a number."""
    return STORY if "[picture]" in str(body["messages"][-1]["content"]) else "42"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workplace, CommandResult]:
    """A workplace with the texts of a writer, and the run that wrote them."""
    workplace = create_workplace(tmp_path_factory.mktemp("drawing"))
    with JudgeServer(writes, check=None) as writer:
        model_args = f"model=writer,base_url={writer.url},max_retries=1"
        model = ("--model", "openai", "--model_args", model_args)
        more = (*model, "--predict_only", "--output_path", "texts")
        result = evaluate(workplace, *more, tasks="mmie_step")
        assert result.status == 0, result.output
        asked = [str(body["messages"][-1]["content"]) for body in writer.asked]
    assert sum("exactly 2 steps, each followed by one picture" in text for text in asked) == N_ASKED
    assert sum("[picture]" in text for text in asked) == N_ASKED
    return workplace, result


@pytest.fixture
def workplace(written: tuple[Workplace, CommandResult]) -> Workplace:
    return written[0]


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    with JudgeServer(by_category, key=KEY) as server:
        yield server


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(models=("image-model",)) as server:
        yield server


def score(
    workplace: Workplace,
    judge: JudgeServer,
    t2i: str,
    output: str,
    *more: str,
    words: tuple[str, ...] = ("score", "texts", "--tasks", "mmie_step"),
    processes: int = 1,
) -> CommandResult:
    options = ("--judge", "openai:judge-model", "--judge_args")
    options += (f"base_url={judge.url},prompts=words.json,cache=off",)
    return workplace.run(
        *("mmie-tasks", *words, "--t2i", t2i, "-o", output, *options, *more),
        processes=processes,
        MMIE_DATA="data",
        OPENAI_API_KEY=KEY,
    )


def shown(judge: JudgeServer) -> set[bytes]:
    """The images that a judge got."""
    return {part for body in judge.asked for part in content_of(body) if isinstance(part, bytes)}


def stored(workplace: Workplace) -> set[bytes]:
    """The images that were drawn."""
    return {path.read_bytes() for path in (workplace.folder / "cache").rglob("drawn/**/*.png")}


def test_a_run_that_writes_prints_how_its_texts_are_drawn_and_scored(
    written: tuple[Workplace, CommandResult], judge: JudgeServer, server: JudgeServer
) -> None:
    workplace, result = written
    program, *words, drawer = shlex.split(result.output.splitlines()[-1])
    assert (program, *words[-1:], drawer) == ("mmie-tasks", "--t2i", "DRAWER:MODEL")
    t2i = f"images:image-model,base_url={server.url},size=48x48"
    result = score(workplace, judge, t2i, "printed", words=tuple(words[:-1]))
    assert result.status == 0, result.output
    assert len(server) == 2 * N_ASKED


def test_the_judge_sees_what_one_model_wrote_and_another_drew(
    workplace: Workplace, judge: JudgeServer, server: JudgeServer
) -> None:
    server.draws(lambda body: MODERATION if body["prompt"] == SECOND else drawn(body))
    t2i = f"images:image-model,base_url={server.url},size=512x512"
    before = stored(workplace)
    result = score(workplace, judge, t2i, "out")
    assert result.status == 0, result.output
    checked, drawer, *_ = result.output.splitlines()
    assert checked == f"mmie_step: answers {N} of {N}, images 0 of 0"
    assert drawer.startswith("drawer: images,model=image-model,size=512x512")
    # The judge gets the first image of each, byte for byte, and MSR as text.
    assert sorted(body["prompt"] for body in server.asked) == sorted([FIRST, SECOND] * N_ASKED)
    images = stored(workplace) - before
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


def test_one_set_of_texts_serves_two_drawers_and_no_image_is_drawn_twice(
    workplace: Workplace, judge: JudgeServer, server: JudgeServer
) -> None:
    for model in ("one", "other", "one"):
        t2i = f"images:model={model},base_url={server.url}"
        result = score(workplace, judge, t2i, "two")
        assert result.status == 0, result.output
    assert [body["model"] for body in server.asked] == ["one"] * 2 * N_ASKED + [
        "other"
    ] * 2 * N_ASKED
    pairs = ["writer + one", "writer + other"]
    assert sorted(path.name for path in (workplace.folder / "two").iterdir()) == pairs
    table = workplace.run("mmie-tasks", "table", "two")
    assert table.status == 0, table.output
    rows = [line.split("|")[1].strip() for line in table.output.splitlines() if "| writer" in line]
    assert sorted(rows) == pairs, table.output
    assert "drawn by our reconstruction" in table.output


def test_a_dead_drawer_ends_the_run_and_what_it_has_drawn_is_kept(
    workplace: Workplace, judge: JudgeServer, server: JudgeServer
) -> None:
    def draw_three(body: Body) -> Body | object:
        return drawn(body) if len(server) <= 3 else MODERATION

    server.draws(draw_three)  # a refusal is not the drawer's death
    t2i = f"images:image-model,base_url={server.url},max_concurrency=1,size=64x64"
    assert score(workplace, judge, t2i, "dead").status == 0
    assert len(server) == 2 * N_ASKED
    asked = len(judge)
    server.key = "another"  # from now on, every request is denied
    result = score(workplace, judge, t2i, "dead")
    assert result.status == 1
    assert "cannot be used" in result.output
    server.models, server.key = None, None
    server.draws(MODERATION)
    fresh = t2i.replace("64x64", "32x32")
    result = score(workplace, judge, fresh, "dead")
    assert result.status == 1
    assert "could not be drawn, the last: HTTP 400" in result.output
    assert len(judge) == asked
    server.draws(drawn)
    count = len(server)
    assert score(workplace, judge, t2i, "again").status == 0
    assert len(server) - count == 2 * N_ASKED - 3


def test_pipelines_of_two_processes_draw_in_the_texts_of_any_task(
    workplace: Workplace, judge: JudgeServer
) -> None:
    with patch.dict(os.environ):  # importing transformers 4 sets variables
        write_tiny_pipeline(workplace.folder / "tiny")
    (workplace.folder / "three.json").write_text(
        '{"SA-0": "A cat.[picture] A dog.[picture]", "PBL-1": "A hen.[picture]", "MSR-2": "7"}',
        encoding="utf-8",
    )
    before = stored(workplace)
    model_args = "path=three.json,t2i=diffusers:tiny;steps=2;size=32x32"
    model = ("--model", "predictions", "--model_args", model_args)
    result = evaluate(workplace, *model, "--output_path", "ranks", url=judge.url, processes=2)
    assert result.status == 0, result.output
    images = stored(workplace) - before
    assert len(images) == 3
    assert images <= shown(judge)


def test_doctor_checks_the_drawer_of_the_same_arguments(
    workplace: Workplace, judge: JudgeServer, server: JudgeServer
) -> None:
    words = ("doctor", "texts", "--tasks", "mmie_step")
    t2i = f"images:image-model,base_url={server.url}"
    fine = score(workplace, judge, t2i, "-", words=words)
    assert "ok       drawer: images,model=image-model" in fine.output
    missing = score(workplace, judge, "diffusers:no_such_folder/x/y", "-", words=words)
    assert "problem  drawer: The pipeline `no_such_folder/x/y` cannot be used" in missing.output
    assert (fine.status, missing.status) == (0, 1), fine.output
    assert len(server) == 0
