"""Answers that are saved before they are judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lmms_eval.api.instance import Instance
from lmms_eval.loggers.evaluation_tracker import EvaluationTracker

from mmie_tasks.answers.saved import read_answers
from mmie_tasks.runner.answer_files import RunOutput

DATE = "20260102_030405"


def tracker(folder: Path, date: str = DATE) -> EvaluationTracker:
    """The runner's, of a tested model `m`."""
    tracker = EvaluationTracker(output_path=str(folder))
    tracker.general_config_tracker.log_experiment_args("m", "model=m", None, None, False)
    tracker.date_id = date
    return tracker


def begun(folder: Path, date: str = DATE) -> RunOutput:
    options = {"evaluation_tracker": tracker(folder), "datetime_str": date, "log_samples": True}
    return RunOutput.of_run(options)


def task(responses: Sequence[Sequence[object]]) -> SimpleNamespace:
    """A task as the runner has it after generation; it has generated one answer twice."""
    instances = [
        Instance(
            "generate_until",
            (f"question {n}",),
            0,
            {"task": "t", "doc_id": n, "repeats": 1},
            resps=[*texts],
        )
        for n, texts in enumerate(responses)
    ]
    return SimpleNamespace(
        config=SimpleNamespace(task="t"),
        eval_docs_no_media=[{"id": f"s{n}"} for n in range(len(responses))],
        instances=[*instances, *instances[:1]],
    )


@pytest.mark.parametrize(
    ("responses", "answer"),
    [
        pytest.param(["a cat"], "a cat", id="text"),
        pytest.param([["one", "two"]], ("one", "two"), id="rounds"),
        pytest.param(
            ["first", "second"], "first", id="repeats: the first counts, as in the runner"
        ),
        pytest.param(["lone \ud800"], "lone �", id="no UTF-8"),
    ],
)
def test_saved_answers_are_read_as_the_model_gave_them(
    tmp_path: Path, responses: list[object], answer: object
) -> None:
    begun(tmp_path).save([task([responses])])
    (saved,) = read_answers([tmp_path]).answers
    assert (saved.answer, saved.task, saved.id) == (answer, "t", "s0")
    (path,) = tmp_path.rglob("*_answers_t.jsonl")
    assert path.read_text(encoding="utf-8").count("\n") == 1


def log_samples(folder: Path, count: int, date: str = DATE) -> None:
    """Have the runner log some samples."""
    answer = {"resps": [["a"]], "filtered_resps": ["a"], "target": "", "doc": {}}
    samples: list[dict[str, Any]] = [
        {"doc_id": n, "arguments": [f"question {n}"], "official": {"id": f"s{n}"}, **answer}
        for n in range(count)
    ]
    tracker(folder, date).save_results_samples(task_name="t", samples=samples)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_an_answer_in_a_runs_log_and_in_its_answers_file_counts_once(
    tmp_path: Path, count: int
) -> None:
    begun(tmp_path).save([task([["a"], ["a"]])])
    if count:
        log_samples(tmp_path, count)
    saved = read_answers([tmp_path])
    assert sorted(answer.id for answer in saved.answers) == ["s0", "s1"]
    assert saved.notes == ()


def test_the_newest_run_counts_whether_it_ended_or_not(tmp_path: Path) -> None:
    log_samples(tmp_path, 1)
    begun(tmp_path, "20260103_000000").save([task([["newer"]])])
    begun(tmp_path, "20260101_000000").save([task([["older"]])])
    saved = read_answers([tmp_path])
    assert [answer.answer for answer in saved.answers] == ["newer"]
    assert len(saved.notes) == 2
    log_samples(tmp_path, 1, "20260104_000000")
    assert [answer.answer for answer in read_answers([tmp_path]).answers] == ["a"]
