"""Answers that exist already are scored by `mmie-tasks score`; one run serves several tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.judge_server import Body, JudgeServer
from support.loopback import error
from support.mmie_judge import by_category
from support.mmie_seam import KEY, TABLE, N, create_workplace, printed, samples
from support.opening_data import PROMPTS, reply
from support.runner import CommandResult, Workplace

NAME = "answers,of;mine.json"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SETTINGS = {"MMIE_DATA": "data", "OPENAI_API_KEY": KEY}
CHECKED = f"mmie: answers {N} of {N}, images 12 of 12"


@pytest.fixture(scope="module")
def judge() -> Iterator[JudgeServer]:
    with JudgeServer(by_category, key=KEY) as server:
        yield server


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A workplace whose answers are in a file with both separators in its name."""
    workplace = create_workplace(tmp_path_factory.mktemp("score"))
    (workplace.folder / "answers.json").rename(workplace.folder / NAME)
    return workplace


def score(
    workplace: Workplace, judge: JudgeServer, *words: str, cache: str = "cache"
) -> CommandResult:
    options = ("--judge", "openai:judge-model", "--judge_args")
    options += (f"base_url={judge.url},prompts=words.json",)
    settings = {**SETTINGS, "XDG_CACHE_HOME": cache}
    return workplace.run("mmie-tasks", "score", *words, "--tasks", "mmie", *options, **settings)


@pytest.fixture(scope="module")
def done(workplace: Workplace, judge: JudgeServer) -> CommandResult:
    result = score(workplace, judge, NAME, "--model", "org/mine")
    assert result.status == 0, result.output
    return result


def test_every_answer_is_judged_and_the_scores_are_those_of_an_evaluation(
    workplace: Workplace, done: CommandResult
) -> None:
    assert TABLE.items() <= printed(done).items(), done.output
    logged = samples(workplace, output="out/org__mine")
    assert len(logged) == N
    assert not any("missing_images" in line["record"]["facts"] for line in logged)


def test_the_answers_are_counted_first_and_the_signature_comes_last(done: CommandResult) -> None:
    first, *others = done.output.splitlines()
    assert first == CHECKED
    assert sum(line == CHECKED for line in others) == 0
    assert "lmms_eval" not in done.output
    assert any(line.startswith("mmie: judge:openai|model:judge-model") for line in others)
    assert "out/org__mine -o report.html" in others[-1]
    assert not done.has_codes


def test_a_task_without_a_score_has_another_status_and_is_judged_again(
    workplace: Workplace, judge: JudgeServer
) -> None:
    output = str(workplace.folder / "my, out")
    judge.says(lambda _body: error(400))
    result = score(workplace, judge, NAME, "-o", output, cache="another")
    judge.says(by_category)
    assert result.status == 1
    assert "no score of `mmie`" in result.output
    assert f"mmie: unscored: refused ({N})" in result.output
    assert f"{N} unscored because: HTTP 400" in result.output
    words = ("mmie-tasks", "rejudge", output, "--failed")
    result = workplace.run(*words, **SETTINGS, XDG_CACHE_HOME="another")
    assert result.status == 0, result.output
    assert TABLE.items() <= printed(result).items(), result.output


def test_what_is_missing_stops_the_command_with_the_way_out(
    workplace: Workplace, judge: JudgeServer
) -> None:
    saved = json.loads((workplace.folder / NAME).read_text(encoding="utf-8"))
    (workplace.folder / "part.json").write_text(json.dumps(saved[1:]), encoding="utf-8")
    lost = json.dumps(saved).replace("-a.png", "-gone.png")
    (workplace.folder / "lost.json").write_text(lost, encoding="utf-8")
    asked = len(judge)
    for name, found, way_out in (
        ("part.json", f"answers {N - 1} of {N}, images 9 of 9", "--missing count"),
        ("lost.json", f"answers {N} of {N}, images 8 of 12", "--images FOLDER"),
    ):
        result = score(workplace, judge, name, "-o", "other")
        assert result.status == 1
        assert f"mmie: {found}" in result.output
        assert way_out in " ".join(result.output.split())
        assert "Traceback" not in result.output
    assert len(judge) == asked
    assert not (workplace.folder / "other").exists()


def called(_body: Body) -> Body:
    """A completion that calls OpenING's function, with 7 points for all metrics."""
    call = {"name": "grade", "arguments": reply(7)}
    message = {"role": "assistant", "content": None, "function_call": call}
    return {"choices": [{"message": message, "finish_reason": "stop"}], "model": "gpt-4o"}


def test_a_run_of_all_benchmarks_prints_a_screen_and_asks_opening_in_the_official_form(
    tmp_path: Path,
) -> None:
    names = ("mmie", "milebench", "mia_bench", "opening")
    folders = {name: EXAMPLES / name for name in names}
    judges = [
        f"{name}=replay:path={folders[name] / 'replies.jsonl'}" for name in ("mmie", "mia_bench")
    ]
    judges[0] += f",prompts={folders['mmie'] / 'prompts.json'}"
    with JudgeServer(called, key=KEY) as server:
        of_opening = f"opening=openai:gpt-4o-2024-11-20,base_url={server.url},prompts={PROMPTS}"
        result = Workplace(folder=tmp_path).run(
            *("mmie-tasks", "score", *(str(folder / "answers") for folder in folders.values())),
            *("--tasks", ",".join(names), "--images", str(folders["mmie"] / "answers")),
            *(word for judge in (*judges, of_opening) for word in ("--judge", judge)),
            **{f"{name.upper()}_DATA": str(folder / "data") for name, folder in folders.items()},
            OPENAI_API_KEY=KEY,
        )
    assert result.status == 0, result.output
    assert result.output.count("\n") <= 60  # `make demo` adds two
    assert "that no sample of" not in result.output
    assert not result.has_codes
    assert printed(result, "OpenING")["official"] == 70
    texts = json.loads(PROMPTS.read_text(encoding="utf-8"))["judge"]
    assert len(server) == 7
    for body in server.asked:
        system, user = body["messages"]
        assert system == {"role": "system", "content": texts["system"]}
        assert user["content"][0]["text"].startswith("INPUT: ")
        assert user["content"][-1]["text"] == texts["ending"]
        assert {part["type"] for part in user["content"]} <= {"text", "image_url"}
        (function,) = body["functions"]
        assert body["function_call"] == {"name": function["name"]}
    assert sum("image_url" in str(body) for body in server.asked) > 1
