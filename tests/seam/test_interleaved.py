"""``--model interleaved`` through lmms-eval: writers and drawers of every kind, a kill, several
ranks.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from support.judge_server import Body, JudgeServer
from support.logged_records import signature_of
from support.loopback import Sent
from support.mmie_data import conversations_folder
from support.mmie_judge import by_category, content_of, text_of
from support.mmie_seam import N, evaluate, results, samples
from support.pictures import MODERATION, drawn
from support.runner import Workplace
from support.tiny_pipeline import write_tiny_pipeline
from support.tiny_writer import write_tiny_writer

N_DRAWN = 4  # of the samples: two tales and two series of steps
STORY = (
    "A girl in a red coat opens the door.\n[picture]\nHer dog waits outside.\n[picture]\nThey "
    "walk.\n[picture]\nEnd."
)
"""Three markers, of which the judge can see two: the question has a picture."""

FIRST, SECOND = "A girl in a red coat opens the door.", "Her dog waits outside."


def writes(body: Body) -> str:
    """The writer: a story where it is told how to ask for pictures, else a number."""
    return STORY if "[picture]" in last_text(body) else "42"


def last_text(body: Body) -> str:
    """The last text of a chat request."""
    content = body["messages"][-1]["content"]
    return (
        content
        if isinstance(content, str)
        else [part["text"] for part in content if part["type"] == "text"][-1]
    )


def arguments(writer: str, drawer: str, **more: str) -> tuple[str, ...]:
    """The runner's options for a writer and a drawer; ``,`` inside them is written ``;``."""
    pairs = {"lvlm": writer, "t2i": drawer, **more}
    text = ",".join(f"{name}={value.replace(',', ';')}" for name, value in pairs.items())
    return ("--model", "interleaved", "--model_args", text)


def facts(samples: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The facts of each sample, by its id."""
    return {line["record"]["id"]: line["record"]["facts"] for line in samples}


def pictures(cache: Path) -> dict[str, bytes]:
    """The drawn pictures in a cache, by their file names."""
    files = sorted(
        path for path in cache.glob("**/pictures/**/*") if path.suffix in (".png", ".jpg", ".webp")
    )
    return {path.name: path.read_bytes() for path in files}


@pytest.fixture
def writer() -> Iterator[JudgeServer]:
    with JudgeServer(writes, check=None) as server:
        yield server


@pytest.fixture
def drawer() -> Iterator[JudgeServer]:
    with JudgeServer(models=("image-model",)) as server:
        yield server


def chat(writer: JudgeServer) -> str:
    return f"openai:model=writer,base_url={writer.url},max_retries=1"


def images(drawer: JudgeServer, more: str = "") -> str:
    return f"images:model=image-model,base_url={drawer.url}{more}"


def test_the_judge_sees_what_a_writer_wrote_and_a_drawer_drew(
    workplace: Workplace, judge: JudgeServer, writer: JudgeServer, drawer: JudgeServer
) -> None:
    drawer.draws(lambda body: MODERATION if body["prompt"] == SECOND else drawn(body))
    result = evaluate(workplace, *arguments(chat(writer), images(drawer)), url=judge.url)
    assert result.status == 0, result.output
    # Samples with pictures in their answers are asked with the words and the limit, and no others.
    told = [last_text(body) for body in writer.asked]
    assert [sum(words in text for text in told) for words in ("exactly 2 steps", "[picture]")] == [
        N_DRAWN
    ] * 2
    assert sorted(body["prompt"] for body in drawer.asked) == sorted([FIRST, SECOND] * N_DRAWN)
    assert len({body["seed"] for body in drawer.asked}) == 2 * N_DRAWN
    # The judge gets the first picture of each, byte for byte, and MSR as text.
    stored = set(pictures(workplace.folder / "cache").values())
    assert len(stored) == N_DRAWN
    assert stored <= shown(judge)
    (tale,) = [text_of(body) for body in judge.asked if "Tale 0 begins" in text_of(body)]
    assert f"{FIRST}\nImage-1: <image>\n{SECOND}\nThey walk.\nEnd.\n" in tale
    assert sum("### Answer\n42\n" in text_of(body) for body in judge.asked) == N - N_DRAWN
    check_counts(workplace)
    assert (
        "reconstruction (step-2), not by the paper's pipeline; 4 pictures not drawn"
        in result.output
    )
    assert "writer + image-model" in result.output
    assert [path.name for path in (workplace.folder / "out").iterdir()] == ["writer + image-model"]
    # The log of the run is scored again like any other.
    saved = ("--model", "predictions", "--model_args", "path=out", "--output_path", "again")
    again = evaluate(workplace, *saved, url=judge.url)
    assert again.values == result.values, again.output
    assert len(judge) == N


def shown(judge: JudgeServer) -> set[bytes]:
    """The pictures that a judge got."""
    return {part for body in judge.asked for part in content_of(body) if isinstance(part, bytes)}


def check_counts(workplace: Workplace) -> None:
    """What was drawn, not drawn and not used: in a record, in the results file, and the signature
    of all samples.
    """
    fact = facts(samples(workplace))["SA-0"]
    assert (fact["pictures_drawn"], fact["not_drawn"], fact["unused"]) == (
        1,
        "refused (1)",
        "pictures over the limit (1)",
    )
    details = results(workplace)["mmie_tasks"]["mmie"]
    assert [details[f"pictures_{name}"] for name in ("drawn", "failed", "unused")] == [N_DRAWN] * 3
    (signature,) = {signature_of(line["record"]) for line in samples(workplace)}
    assert "|answers:step-2,images,model=image-model,size=512x512" in signature


def test_a_killed_run_repeats_nothing_but_what_was_in_flight(
    workplace: Workplace, judge: JudgeServer, writer: JudgeServer, drawer: JudgeServer
) -> None:
    cache = workplace.folder / "cache" / "mmie-tasks"

    def draw_or_kill(body: Body) -> Body:
        if len(drawer) == 5:  # beside the fourth
            deadline = time.monotonic() + 60
            while len(pictures(cache)) < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
            (pid,) = workplace.pids("fork_server.py")
            os.kill(pid, signal.SIGKILL)
        return drawn(body)

    drawer.draws(draw_or_kill)
    options = arguments(chat(writer), images(drawer, ",max_concurrency=2"))
    result = evaluate(workplace, *options, url=judge.url)
    assert result.status == -signal.SIGKILL
    stored, sent = pictures(cache), len(drawer)
    assert sent - len(stored) in (1, 2, 3)  # two in flight, and one that has just arrived
    assert (len(writer), len(judge)) == (N, 0)
    drawer.draws(drawn)
    result = evaluate(workplace, *options, url=judge.url)
    assert result.status == 0, result.output
    assert "are used" in result.output
    requests = sent + 2 * N_DRAWN - len(stored)
    assert (len(drawer), len(writer)) == (requests, N)  # not one text is written again
    assert stored.items() <= pictures(cache).items()
    assert not list((cache / "written").rglob("*.json"))
    # That run was finished: in the next one all texts are written anew, and nothing is drawn.
    evaluate(workplace, *options, url=judge.url)
    assert (len(drawer), len(writer)) == (requests, 2 * N)


def test_a_run_that_is_killed_while_judging_writes_and_draws_nothing_again(
    workplace: Workplace, judge: JudgeServer, writer: JudgeServer, drawer: JudgeServer
) -> None:
    writer.says(lambda body: f"{writes(body)} {len(writer)}.")  # never the same text twice

    def kill(body: Body) -> Body:
        (pid,) = workplace.pids("fork_server.py")
        os.kill(pid, signal.SIGKILL)
        return body

    judge.says(kill)
    first = arguments(chat(writer), images(drawer))
    assert evaluate(workplace, *first, url=judge.url).status == -signal.SIGKILL
    written, drawings = len(writer), len(drawer)
    assert (written, drawings) == (N, 2 * N_DRAWN)
    judge.says(by_category)
    again = arguments(chat(writer) + ",num_concurrent=3", images(drawer))
    result = evaluate(workplace, *again, "--limit", str(N - 1), url=judge.url)
    assert result.status == 0, result.output
    assert (len(writer), len(drawer)) == (written, drawings)


def test_the_runners_cache_keeps_answers_with_their_pictures(
    workplace: Workplace, writer: JudgeServer, drawer: JudgeServer
) -> None:
    options = (
        *arguments(chat(writer), images(drawer)),
        "--predict_only",
        "--limit",
        "3",
        "--use_cache",
        "answers",
    )
    for _ in range(2):
        result = evaluate(workplace, *options)
        assert result.status == 0, result.output
    assert (len(writer), len(drawer)) == (3, 4)  # of the first run
    logged = [
        path.read_text(encoding="utf-8")
        for path in (workplace.folder / "out").rglob("*_samples_mmie.jsonl")
    ]
    assert [text.count('\\"path\\": ') for text in logged] == [
        8,
        8,
    ]  # each under `resps` and `filtered_resps`


def test_pipelines_of_two_processes_draw_for_the_judge(
    workplace: Workplace, judge: JudgeServer
) -> None:
    with patch.dict(os.environ):  # importing transformers 4 sets variables
        write_tiny_pipeline(workplace.folder / "tiny")
    (workplace.folder / "texts.json").write_text(
        '{"SA-0": "A cat.[picture] A dog.[picture]", "PBL-1": "A hen.[picture]", "MSR-2": "7"}',
        encoding="utf-8",
    )
    drawer = "diffusers:model=tiny,steps=2,size=32x32"
    options = arguments("predictions:path=texts.json", drawer, pictures="painted")
    result = evaluate(workplace, *options, url=judge.url, processes=2)
    assert result.status == 0, result.output
    pngs = {path.read_bytes() for path in (workplace.folder / "painted").rglob("*.png")}
    assert len(pngs) == 3
    assert pngs <= shown(judge)


def test_a_model_of_lmms_eval_writes_with_its_own_weights(
    workplace: Workplace, judge: JudgeServer, drawer: JudgeServer
) -> None:
    with patch.dict(os.environ):  # importing transformers 4 sets variables
        write_tiny_writer(workplace.folder / "writer")
    (workplace.plugins / "decord.py").write_text(
        "VideoReader = cpu = None\n"
    )  # LLaVA needs it for videos only
    lvlm = "llava_hf:pretrained=writer,device_map=cpu,dtype=float32"
    more = ("--gen_kwargs", "max_new_tokens=12", "--device", "cpu")
    options = (*arguments(lvlm, images(drawer)), *more)
    result = evaluate(workplace, *options, url=judge.url)
    assert result.status == 0, result.output
    assert "interleaved: freed of the writer" in result.output, result.output
    drawn = {name: fact["pictures_drawn"] for name, fact in facts(samples(workplace)).items()}
    assert sum(drawn.values()) == len(drawer) >= N_DRAWN
    assert all(bool(count) != name.startswith("MSR") for name, count in drawn.items())


def test_one_writer_with_other_drawers_is_a_row_each_in_one_folder(
    workplace: Workplace, judge: JudgeServer, writer: JudgeServer, drawer: JudgeServer
) -> None:
    other = images(drawer).replace("image-model", "other-model")
    for t2i in (other, images(drawer, ",size=256x256")):
        options = (*arguments(chat(writer), t2i), "--limit", "2")
        result = evaluate(workplace, *options, url=judge.url)
        assert result.status == 0, result.output
    pairs = ["writer + image-model (size=256x256)", "writer + other-model"]
    assert sorted(path.name for path in (workplace.folder / "out").iterdir()) == pairs
    table = workplace.run("mmie-tasks", "table", "out")
    rows = [line.split("|")[1].strip() for line in table.output.splitlines() if "writer +" in line]
    assert sorted(rows) == pairs, table.output
    workplace.run("mmie-tasks", "report", "out", "-o", "report.html")
    report = (workplace.folder / "report.html").read_text(encoding="utf-8")
    assert all(pair in report for pair in pairs)


def test_a_run_that_is_killed_while_writing_repeats_one_portion_at_most(
    workplace: Workplace, writer: JudgeServer, drawer: JudgeServer
) -> None:
    count, portion = 150, 64
    data = conversations_folder(workplace.folder / "more", count)

    def write_or_kill(body: Body) -> str:
        if len(writer) == portion + portion // 2:
            (pid,) = workplace.pids("fork_server.py")
            os.kill(pid, signal.SIGKILL)
        return f"{writes(body)} {len(writer)}."  # never the same text twice

    writer.says(write_or_kill)
    options = (*arguments(chat(writer), images(drawer)), "--predict_only")
    result = evaluate(workplace, *options, MMIE_DATA=str(data))
    assert result.status == -signal.SIGKILL
    sent = len(writer)
    texts = list((workplace.folder / "cache").rglob("written/*/*.json"))
    assert len(texts) == portion
    assert sent - len(texts) <= portion
    result = evaluate(workplace, *options, MMIE_DATA=str(data))
    assert result.status == 0, result.output
    assert len(writer) - sent == count - portion
    assert len(writer) - count <= portion  # what is paid for twice


def test_a_drawer_that_fails_altogether_stops_the_run_and_keeps_the_texts(
    workplace: Workplace, judge: JudgeServer, writer: JudgeServer, drawer: JudgeServer
) -> None:
    denied = Sent(
        content=b'{"error": {"message": "no such model", "code": "model_not_found"}}', status=404
    )
    drawer.draws(denied)
    options = arguments(chat(writer), images(drawer, ",patience=2"))
    result = evaluate(workplace, *options, url=judge.url)
    assert result.status == 1, result.output
    assert "None of the 8 pictures could be drawn" in result.output
    assert (len(writer), len(judge)) == (N, 0)
    assert len(list((workplace.folder / "cache").rglob("written/*/*.json"))) == N
