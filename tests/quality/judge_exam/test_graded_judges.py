"""Which stored grades a run's judges have."""

from __future__ import annotations

import json
import os

import pytest
from support.report_runs import run, sample
from support.stored_exams import document, write_exam

from mmie_tasks.quality.judge_exam.graded_judges import GradedJudge, StoredGrades
from mmie_tasks.results.annotation import judge_lines

GPT = "judge:openai|model:gpt-4o-2024-11-20|t:0"
QWEN = "judge:openai|model:Qwen/Qwen3-VL|t:0|host:gpu7"
SCORE = "judge:mmie_score|model:MMIE-Score@12ab|dtype:bfloat16"
LOGGED = "|paper_judge:no|prompt:official|task:sketch@1-A"


def judges(environment: dict[str, str], *signatures: str) -> tuple[GradedJudge, ...]:
    samples = [
        sample(str(index), signature=signature) for index, signature in enumerate(signatures)
    ]
    return StoredGrades(environment).judges_of(run("one", samples).tasks["sketch"])


def percents(environment: dict[str, str], signature: str) -> list[float | None]:
    (judge,) = judges(environment, signature)
    return [exam.agreement for exam in judge.exams]


@pytest.mark.parametrize("logged", ["", LOGGED, "|replayed:0123456789ab" + LOGGED])
def test_a_run_has_the_grade_of_its_judge_or_of_the_one_whose_replies_it_replays(
    environment: dict[str, str], logged: str
) -> None:
    write_exam(environment, GPT, 60.0)
    assert percents(environment, GPT + logged) == [60]


@pytest.mark.parametrize("more", ["|host:gpu7", "|max:500", "|detail:low", "-mini"])
def test_the_same_model_on_another_server_or_with_other_settings_is_ungraded(
    environment: dict[str, str], more: str
) -> None:
    write_exam(environment, GPT, 60.0)
    assert percents(environment, GPT + more + LOGGED) == []


def test_each_judge_of_a_panel_has_its_own_grade(environment: dict[str, str]) -> None:
    write_exam(environment, GPT, 60.0)
    write_exam(environment, SCORE, 55.0, method="sketch")
    panel = judges(environment, f"{GPT}|{QWEN}|{SCORE}{LOGGED}")
    assert [judge.short_text for judge in panel] == [
        "agreement with people 60.00 %",
        "ungraded",
        "agreement with people 55.00 %",
    ]
    assert judge_lines([*panel, *panel]) == (
        (
            "Judge of Sketch: gpt-4o-2024-11-20 agrees with people on 60.00 [55.00, 65.00] % of "
            "100 pairs (OpenING, comparing)."
        ),
        (
            "Judge of Sketch: Qwen/Qwen3-VL is ungraded (mmie-tasks judge-exam "
            "openai:Qwen/Qwen3-VL,base_url=... --folder ...)."
        ),
        (
            "Judge of Sketch: MMIE-Score@12ab agrees with people on 55.00 [50.00, 60.00] % of 100 "
            "pairs (OpenING, by Sketch's prompt)."
        ),
    )


def test_of_many_exams_two_are_shown_the_one_with_the_benchmarks_own_prompt_first(
    environment: dict[str, str],
) -> None:
    write_exam(environment, GPT, 61.0, "a", title="Others: pairs of recipes", pairs=4302)
    write_exam(environment, GPT, 62.0, "b", method="compare")
    write_exam(environment, GPT, 90.0, "c", method="another_benchmark")
    assert percents(environment, GPT + LOGGED) == [61, 62]
    equal = write_exam(environment, GPT, 63.0, "d", method="sketch", judged=150)
    assert percents(environment, GPT + LOGGED) == [63, 61]
    write_exam(environment, GPT, 64.0, "e", method="sketch", judged=140)
    assert percents(environment, GPT + LOGGED) == [63, 61]
    later = write_exam(environment, GPT, 65.0, "f", method="sketch", judged=150)
    os.utime(later, (2e9, 2e9))
    assert percents(environment, GPT + LOGGED) == [65, 61]
    os.utime(equal, (3e9, 3e9))
    assert percents(environment, GPT + LOGGED) == [63, 61]


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        pytest.param(
            GPT + LOGGED,
            " (mmie-tasks judge-exam openai:gpt-4o-2024-11-20 --folder ...)",
            id="openai",
        ),
        pytest.param(
            SCORE + LOGGED, " (mmie-tasks judge-exam mmie_score --folder ...)", id="mmie-score"
        ),
        pytest.param(GPT + "|replayed:0123456789ab" + LOGGED, "", id="recorded-replies"),
        pytest.param(
            "judge:openai|model:a b;c|t:0",
            " (mmie-tasks judge-exam 'openai:a b;c' --folder ...)",
            id="a-name-that-needs-quotes",
        ),
    ],
)
def test_an_ungraded_judge_is_called_so_with_the_command_that_grades_it(
    environment: dict[str, str], signature: str, text: str
) -> None:
    [judge] = judges(environment, signature)
    assert judge.text == f"{judge.judge} is ungraded{text}"


def test_a_benchmark_scored_by_rule_has_no_judge(environment: dict[str, str]) -> None:
    assert judges(environment, "task:milebench@1-A|prompt:official") == ()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param("", "not a grade", id="empty"),
        pytest.param(document(QWEN, 60.0), "of another judge", id="of-another-judge"),
        pytest.param(document(GPT, 60.0, judged=0), "not a grade", id="without-verdicts"),
    ],
)
def test_a_file_that_is_no_grade_is_ignored_with_one_warning_that_names_it(
    environment: dict[str, str], logs: list[str], content: object, problem: str
) -> None:
    path = write_exam(environment, GPT, 60.0).with_name("bad.json")
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    grades = StoredGrades(environment)
    task_run = run("one", [sample("1", signature=GPT + LOGGED)]).tasks["sketch"]
    first, second = grades.judges_of(task_run), grades.judges_of(task_run)
    assert [exam.agreement for exam in first[0].exams] == [60]
    assert first == second
    [warning] = logs
    assert str(path) in warning
    assert problem in warning
