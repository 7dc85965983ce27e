"""Answers that exist already are scored by `mmie-tasks score`; one run serves several tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.judge_server import JudgeServer
from support.loopback import error
from support.mmie_judge import by_category
from support.mmie_seam import KEY, TABLE, N, create_workplace, printed, samples
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


def score(workplace: Workplace, judge: JudgeServer, *words: str, pairs: str = "") -> CommandResult:
    options = ("--judge", "openai:judge-model", "--judge_args")
    options += (f"base_url={judge.url},prompts=words.json{pairs}",)
    return workplace.run("mmie-tasks", *words, "--tasks", "mmie", *options, **SETTINGS)


@pytest.fixture(scope="module")
def done(workplace: Workplace, judge: JudgeServer) -> CommandResult:
    result = score(workplace, judge, "score", NAME, "--model", "org/mine")
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


def test_a_task_without_a_score_has_another_status(
    workplace: Workplace, judge: JudgeServer, done: CommandResult
) -> None:
    assert done.status == 0
    judge.says(lambda _body: error(400))
    result = score(workplace, judge, "score", NAME, "-o", "refused", pairs=",cache=off")
    judge.says(by_category)
    assert result.status == 1
    assert "no score of `mmie`" in result.output
    assert f"mmie: unscored: refused ({N})" in result.output
    assert f"{N} unscored because: HTTP 400" in result.output


def test_the_run_is_judged_again_although_its_path_holds_separators(
    workplace: Workplace, judge: JudgeServer
) -> None:
    output = workplace.folder / "my, out"
    assert score(workplace, judge, "score", NAME, "-o", str(output)).status == 0
    words = ("rejudge", str(output), "--failed", "--model_args", "missing=stop")
    result = workplace.run("mmie-tasks", *words, **SETTINGS)
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
        result = score(workplace, judge, "score", name, "-o", "other")
        assert result.status == 1
        assert f"mmie: {found}" in result.output
        assert way_out in " ".join(result.output.split())
        assert "Traceback" not in result.output
    assert len(judge) == asked
    assert not (workplace.folder / "other").exists()


def test_a_run_of_all_benchmarks_prints_a_screen(tmp_path: Path) -> None:
    names = ("mmie", "milebench", "mia_bench", "opening")
    folders = {name: EXAMPLES / name for name in names}
    judges = [f"mia_bench=replay:path={folders['mia_bench'] / 'replies.jsonl'}"]
    for name in ("mmie", "opening"):
        replies, prompts = folders[name] / "replies.jsonl", folders[name] / "prompts.json"
        judges.append(f"{name}=replay:path={replies},prompts={prompts}")
    result = Workplace(folder=tmp_path).run(
        *("mmie-tasks", "score", *(str(folder / "answers") for folder in folders.values())),
        *("--tasks", ",".join(names), "--images", str(folders["mmie"] / "answers")),
        *(word for judge in judges for word in ("--judge", judge)),
        **{f"{name.upper()}_DATA": str(folder / "data") for name, folder in folders.items()},
    )
    assert result.status == 0, result.output
    assert result.output.count("\n") <= 60  # `make demo` adds two
    assert "that no sample of" not in result.output
    assert not result.has_codes
