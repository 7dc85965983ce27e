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


def tracker(folder: Path) -> EvaluationTracker:
    """The runner's, of a tested model `m`."""
    tracker = EvaluationTracker(output_path=str(folder))
    tracker.general_config_tracker.log_experiment_args("m", "model=m", None, None, False)
    tracker.date_id = DATE
    return tracker


def begun(folder: Path, **options: Any) -> RunOutput:
    options = {"evaluation_tracker": tracker(folder), "datetime_str": DATE, **options}
    return RunOutput.of_run({"log_samples": True, **options})


def task(
    responses: Sequence[Sequence[object]],
    name: str = "t",
    kind: str = "generate_until",
    id_name: str = "id",
) -> SimpleNamespace:
    """A task as the runner has it after generation; it has generated one answer twice."""
    instances = [
        Instance(
            kind,
            (f"question {n}",),
            0,
            {"task": name, "doc_id": n, "repeats": 1},
            resps=list(texts),
        )
        for n, texts in enumerate(responses)
    ]
    docs = [{id_name: f"s{n}"} for n in range(len(responses))]
    return SimpleNamespace(
        config=SimpleNamespace(task=name),
        eval_docs_no_media=docs,
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


def logged(folder: Path, samples: list[dict[str, Any]]) -> None:
    """Have the runner log some samples."""
    tracker(folder).save_results_samples(task_name="t", samples=samples)


def sample(number: int) -> dict[str, Any]:
    answer = {"resps": [["a"]], "filtered_resps": ["a"], "target": ""}
    answer["official"] = {"id": f"s{number}"}
    return {"doc_id": number, "doc": {}, "arguments": [f"question {number}"], **answer}


@pytest.mark.parametrize("count", [0, 1, 2])
def test_an_answer_in_a_runs_log_and_in_its_answers_file_counts_once(
    tmp_path: Path, count: int
) -> None:
    begun(tmp_path).save([task([["a"], ["a"]])])
    if count:
        logged(tmp_path, [sample(number) for number in range(count)])
    saved = read_answers([tmp_path])
    assert sorted(answer.id for answer in saved.answers) == ["s0", "s1"]
    assert saved.notes == ()


# Several runs in one folder


def test_the_newest_run_counts_whether_it_ended_or_not(tmp_path: Path) -> None:
    logged(tmp_path, [sample(0)])
    begun(tmp_path, datetime_str="20260103_000000").save([task([["newer"]])])
    begun(tmp_path, datetime_str="20260101_000000").save([task([["older"]])])
    saved = read_answers([tmp_path])
    assert [answer.answer for answer in saved.answers] == ["newer"]
    assert len(saved.notes) == 2
    tracker_ = tracker(tmp_path)
    tracker_.date_id = "20260104_000000"
    tracker_.save_results_samples(task_name="t", samples=[sample(0)])
    assert [answer.answer for answer in read_answers([tmp_path]).answers] == ["a"]
