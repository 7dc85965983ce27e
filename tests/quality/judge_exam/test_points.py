"""``mmie-tasks judge-exam --method BENCHMARK``: points for each answer in a benchmark's own
prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.judge_server import Body, JudgeServer
from support.mia_judge import prompt_of
from support.mmie_data import draw
from support.mmie_judge import WORDS, content_of, gives
from support.opening_data import PROMPTS, reply
from support.opening_folder import QUALITY, judged_answer, points_by, write_opening
from support.transformers_5 import needs_transformers_5
from support.verdict_files import pair

from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK
from mmie_tasks.core.choice import parse_choice
from mmie_tasks.judging.session import JudgingSession
from mmie_tasks.quality.judge_exam.command import run
from mmie_tasks.quality.judge_exam.methods import giving_points
from mmie_tasks.quality.judge_exam.verdict_set import Pair, PairVerdict

FAIR = points_by(lambda answer: answer.quality)

Exam = Callable[..., str]


@pytest.fixture
def exam(exam_of: Callable[..., str], server: JudgeServer) -> Exam:
    server.says(FAIR)
    return partial(exam_of, method="mmie")


def judgements(
    server: JudgeServer, environment: dict[str, str], *pairs: Pair
) -> tuple[PairVerdict, ...]:
    choice = parse_choice(f"openai:judge-model,base_url={server.url}", "")
    judge = JudgingSession(environment=environment).open(choice)
    return giving_points("mmie", BENCHMARK.judge_request).ask(judge, pairs, "").judgements


def test_each_answer_is_sent_once_in_the_benchmarks_template_with_its_pictures(
    exam: Exam, server: JudgeServer, folder: Path
) -> None:
    exam()
    assert len(server.asked) == 24
    assert all(
        str(content_of(body)[0]).startswith("Rate the tale.### Question\nquestion 0")
        for body in server.asked
    )
    pictures = [picture for body in server.asked for picture in judged_answer(body).pictures]
    assert len(pictures) == len({*pictures}) == len(list(folder.rglob("*.jpg")))


def test_the_prompt_of_opening_gives_points_too_and_answers_may_be_named_jsonl(
    exam: Exam, server: JudgeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_opening(tmp_path / "opening")
    for path in folder.glob("gen_outputs/*/*.json"):
        path.rename(path.with_suffix(".jsonl"))
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))

    def by_quality(body: Body) -> str:
        (text,) = (part["text"] for part in body["messages"][1]["content"] if QUALITY in str(part))
        return reply(int(text.partition(QUALITY)[2][0]))

    server.says(by_quality)
    printed = json.loads(
        exam("--json", opening=folder, method="opening", judge_args=f"prompts={PROMPTS}")
    )
    assert printed["grade"]["agreement"]["value"] == 100
    assert {body["messages"][0]["role"] for body in server.asked} == {"system"}


@pytest.mark.slow
def test_answers_are_judged_through_the_batch_api(
    folder: Path, environment: dict[str, str], judge_words: str
) -> None:
    with JudgeServer(FAIR) as server:
        server.batch.polls = 0
        judge = f"openai:judge-model,base_url={server.url},batch=true,prompts={judge_words}"
        printed = run([judge, "--folder", str(folder), "--method", "mmie", "--json"], environment)
        assert len(server.batch.batches) == 1
    assert json.loads(str(printed))["grade"]["agreement"]["value"] == 100


def test_an_answer_of_several_pairs_is_judged_once(
    exam: Exam, server: JudgeServer, tmp_path: Path
) -> None:
    folder = write_opening(tmp_path / "twice")
    people = folder / "Interleaved_Arena" / "judge_modelAB_results.json"
    rows = json.loads(people.read_text())
    sides = {"A": "B", "B": "A"}
    swapped = [
        {
            **row,
            "model_A": row["model_B"],
            "model_B": row["model_A"],
            "winner": sides[row["winner"]],
        }
        for row in rows
    ]
    people.write_text(json.dumps(rows + swapped))
    grade = json.loads(exam("--json", opening=folder))["grade"]
    assert (grade["asked"], grade["agreement"]["value"]) == (24, 100)
    assert len(server.asked) == 24


def test_equal_points_are_half_and_their_share_is_in_the_grade(
    exam: Exam, server: JudgeServer
) -> None:
    server.says(lambda body: gives(4) if "question 0101" in json.dumps(body) else FAIR(body))
    grade = json.loads(exam("--json"))["grade"]
    assert (grade["agreement"]["value"], grade["undecided"]["value"]) == (75, 50)
    assert [share["value"] for share in grade["by_subset"].values()] == [50, 100]


def test_a_pair_without_points_for_both_answers_has_no_verdict(
    exam: Exam, server: JudgeServer
) -> None:
    server.says(lambda body: "I like it." if f"{QUALITY}6 in" in json.dumps(body) else FAIR(body))
    output = json.loads(exam("--json"))
    assert output["grade"]["asked"] == 12
    assert output["grade"]["judged"] == 6
    assert output["grade"]["agreement"]["value"] == 100
    assert {reason.partition(":")[0] for reason in output["without_verdict"]} == {"unparsed"}
    server.says(FAIR)  # replies that cannot be read are in the cache
    assert json.loads(exam("--json"))["grade"]["judged"] == 6
    assert len(server.asked) == 24


def test_what_the_prompt_does_not_show_is_counted(exam: Exam, tmp_path: Path) -> None:
    folder = write_opening(
        tmp_path / "many", fewest_pictures=3
    )  # of 3 to 6 pictures, MMIE's prompt shows 3
    assert json.loads(exam("--json", opening=folder))["not_shown"] == {"images": 36, "texts": 0}
    assert "The prompt of mmie does not show 36 pictures and 0 texts of the answers." in exam(
        opening=folder
    )
    assert json.loads(exam("--json"))["not_shown"] == {"images": 0, "texts": 0}
    assert "does not show" not in exam()


def test_an_answer_that_the_benchmark_cannot_judge_has_its_reason(
    server: JudgeServer, environment: dict[str, str], tmp_path: Path
) -> None:
    server.says(FAIR)
    image = draw(tmp_path / "a.png")
    broken = tmp_path / "b.png"
    broken.write_bytes(b"no image")
    a, b = (f"{QUALITY}6",), (f"{QUALITY}3",)
    left_out, unreadable, judged = judgements(
        server,
        environment,
        pair(1, question=(image,) * 5, answers=(a, b)),
        pair(2, answers=(a, (broken,))),
        pair(3, answers=(a, b)),
    )
    assert str(left_out.why_not).startswith("left_out: 5 images")
    assert str(unreadable.why_not).startswith("bad_image: ")
    assert (judged.a_wins, judged.is_reversed) == (1, None)
    assert len(server.asked) == 2


def test_method_and_prompt_are_in_the_signature_and_in_the_stored_grade(
    exam: Exam, environment: dict[str, str], tmp_path: Path
) -> None:
    document = json.loads(exam("--json"))
    assert document["method"] == "mmie"
    pattern = (
        r"set:opening\|pairs:12,[0-9a-f]{12}\|method:mmie\|prompt:[0-9a-f]{12},max_tokens=1024"
    )
    assert re.fullmatch(pattern, document["exam"])
    stored = Path(environment["MMIE_TASKS_CACHE"]).glob("judge_exams/*/*.json")
    assert [json.loads(path.read_text())["exam"] for path in stored] == [document["exam"]]
    other_words = {**WORDS, "SA": WORDS["SA"].replace("Rate", "Judge")}
    Path(environment["MMIE_TASKS_CACHE"]).parent.joinpath("other.json").write_text(
        json.dumps(other_words)
    )
    other = exam("--json", judge_args=f"prompts={tmp_path / 'other.json'}")
    assert document["exam"] != json.loads(other)["exam"]


def test_mia_benchs_prompt_grades_a_judge_that_gives_its_marks(
    exam: Exam, server: JudgeServer
) -> None:
    def marks(body: dict[str, Any]) -> str:
        match = re.search(rf"{QUALITY}(\d)", prompt_of(body))
        assert match
        return f"score of component 1: {match[1]}/10, total score: {match[1]}/10. So."

    server.says(marks)
    document = json.loads(exam("--json", method="mia_bench"))
    assert (document["method"], document["grade"]["agreement"]["value"]) == ("mia_bench", 100)
    assert all("question 0" in prompt_of(body) for body in server.asked)


@pytest.mark.slow
@needs_transformers_5
def test_mmie_score_gives_points_in_mmies_prompt_by_default(
    environment: dict[str, str], folder: Path, tmp_path: Path, judge_words: str
) -> None:
    from support import scripted_checkpoint  # imports torch

    checkpoint = scripted_checkpoint.write(tmp_path / "judge")  # always 4 points
    judge = [f"mmie_score:prompts={judge_words}", "--folder", str(folder), "--limit", "2", "--json"]
    output = run(judge, {**environment, "MMIE_SCORE_MODEL": str(checkpoint)})
    assert isinstance(output, str)
    document = json.loads(output)
    assert document["judge"].startswith("judge:mmie_score|")
    assert document["method"] == "mmie"
    grade = document["grade"]
    assert grade["judged"] == 2
    assert grade["agreement"]["value"] == 50
    assert grade["undecided"]["value"] == 100
