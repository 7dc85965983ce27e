"""Saved answers are read in every supported format; failures are distinguished from answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.answers.failures import MISSING, NOT_TEXT, failure_of
from mmie_tasks.answers.files import read_answers
from mmie_tasks.answers.saved import SavedAnswer, as_answer
from mmie_tasks.core.errors import AnswersUnusable

LOG = "20260101_120000_samples_mmie.jsonl"


def save(path: Path, value: object) -> Path:
    """As JSON; as JSONL where the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl" and isinstance(value, Sequence):
        text = "".join(json.dumps(line) + "\n" for line in value)
    else:
        text = json.dumps(value)
    path.write_text(text, encoding="utf-8")
    return path


def line(sample_id: str = "SA-0", **fields: object) -> dict[str, object]:
    metric = {"id": sample_id}
    return {"doc_id": 0, "target": "t", "filtered_resps": "said", "official": metric, **fields}


def only(path: Path) -> SavedAnswer:
    (answer,) = read_answers(str(path)).answers
    return answer


def by_id(path: Path, datasets: Sequence[str] = ()) -> dict[str, object]:
    answers = read_answers(str(path), datasets).answers
    return {answer.id: answer.answer for answer in answers}


def test_a_line_of_a_sample_log_has_the_id_of_its_sample(tmp_path: Path) -> None:
    path = save(tmp_path / LOG, [line("DocVQA/131", robust={"id": "DocVQA/131"})])
    assert only(path) == SavedAnswer(
        answer="said",
        format="lmms-eval sample log",
        location=f"{path}, the whole file, `official.id`",
        folder=tmp_path,
        id="DocVQA/131",
        task="mmie",
    )


def test_lines_of_a_sample_log_without_an_id_are_left_out_with_a_note(tmp_path: Path) -> None:
    path = save(tmp_path / LOG, [line(), line(official=1.0), line(official={"id": ""})])
    saved = read_answers(str(path))
    assert [answer.id for answer in saved.answers] == ["SA-0"]
    note = f"{path}: 2 answers were left out: no `id` of the sample"
    assert saved.notes == (note,)


def test_a_sample_log_without_any_id_is_an_error_that_says_so(tmp_path: Path) -> None:
    path = save(tmp_path / LOG, [line(official=1.0)])
    with pytest.raises(AnswersUnusable, match=r"no saved answers. .* no `id` of the sample"):
        read_answers(str(path))


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        pytest.param(line(robust={"id": "SA-1"}), "`official.id` and `robust.id`", id="log"),
        pytest.param({"id": 1, "sample_id": 2, "answer": ""}, "`id` and `sample_id`", id="id"),
        pytest.param({"id": 1, "url": "u", "answer": ""}, "`id` and `url`", id="URL"),
        pytest.param({"id": 1, "answer": "a", "text": "b"}, "`answer` and `text`", id="answer"),
    ],
)
def test_a_record_with_two_ids_or_two_answers_is_an_error_that_names_both_fields(
    tmp_path: Path, record: Mapping[str, object], fields: str
) -> None:
    path = save(tmp_path / LOG, [line(), record])
    with pytest.raises(AnswersUnusable, match=f"line 2: it has {fields}; which"):
        read_answers(str(path))


@pytest.mark.parametrize("name", ["rank_0.audit.jsonl", LOG])
def test_the_number_of_a_row_is_never_offered_as_an_id(tmp_path: Path, name: str) -> None:
    lines = [
        {
            "request_type": "generate_until",
            "task_name": "mmie",
            "doc_id": number,
            "response": "said",
            "content_hash": "0123",
        }
        for number in range(3)
    ]
    with pytest.raises(AnswersUnusable, match="`doc_id`") as raised:
        read_answers(str(save(tmp_path / name, lines)))
    assert "json.dumps" not in str(raised.value)


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        pytest.param({"filtered_resps": ["said"]}, "said", id="wrapped"),
        pytest.param({"resps": ["<think>b</think>B"]}, "<think>b</think>B", id="raw, in a list"),
        pytest.param({"resps": ["first", "again"]}, "first", id="repeats"),
        pytest.param({"filtered_resps": ["a", "b"]}, ("a", "b"), id="rounds"),
        pytest.param(
            {"filtered_resps": ["a", "b"], "resps": ["<t>a", "b"]}, ("<t>a", "b"), id="raw rounds"
        ),
    ],
)
def test_the_raw_answer_of_a_sample_log_is_unwrapped(
    tmp_path: Path, fields: Mapping[str, object], answer: object
) -> None:
    assert only(save(tmp_path / LOG, [line(**fields)])).answer == answer


def test_only_the_newest_run_of_a_task_is_read(tmp_path: Path) -> None:
    save(tmp_path / "m" / "20251231_235959_samples_mmie.jsonl", [line(filtered_resps="old")])
    save(tmp_path / "m" / LOG, [line(filtered_resps="new")])
    save(tmp_path / "m" / "20250101_000000_samples_mme.jsonl", [line()])
    save(tmp_path / "m" / "20260101_120000_results.json", {"results": "text"})
    saved = read_answers(str(tmp_path))
    assert {(answer.task, answer.answer) for answer in saved.answers} == {
        ("mmie", "new"),
        ("mme", "said"),
    }
    (note,) = saved.notes
    assert note.startswith(f"{tmp_path}/m/20251231_235959_samples_mmie.jsonl was left out")
    assert LOG in note


@pytest.mark.parametrize("joined", [False, True], ids=["one folder", "two paths"])
def test_answers_of_two_models_to_a_task_are_refused(tmp_path: Path, joined: bool) -> None:
    save(tmp_path / "one" / LOG, [line()])
    save(tmp_path / "two" / LOG, [line()])
    path = f"{tmp_path}/one;{tmp_path}/two" if joined else str(tmp_path)
    with pytest.raises(AnswersUnusable, match=r"`mmie`: .*one and .*two\.\n\nhint: point"):
        read_answers(path)


def test_an_answer_of_an_ended_run_that_its_log_repeats_counts_once(tmp_path: Path) -> None:
    saved = [
        {"doc_id": 0, "resps": [["said"]], "sample": {"id": name}} for name in ("SA-0", "SA-1")
    ]
    save(tmp_path / "one" / "20260101_110000_answers_mmie.jsonl", saved)
    save(tmp_path / "two" / LOG, [line("SA-1")])
    answers = {(one.id, one.format) for one in read_answers(str(tmp_path)).answers}
    assert answers == {("SA-0", "answers of an ended run"), ("SA-1", "lmms-eval sample log")}


ENDED = "20260101_120000_answers_mmie.jsonl"
RESULTS = {"20260101_120000_results.json": {"model_name": "org/model"}}


@pytest.mark.parametrize(
    ("files", "path", "model"),
    [
        pytest.param({LOG: [line()], **RESULTS}, ".", "org/model", id="the run's results"),
        pytest.param({LOG: [line()]}, LOG, "out", id="the run's folder"),
        pytest.param({f"org__model/{ENDED}": [line()]}, ".", "org__model", id="an ended run's"),
        pytest.param({"data.json": {"SA-0": "said"}}, ".", "out", id="the folder"),
        pytest.param(
            {"model-2.5.json": {"SA-0": "said"}}, "model-2.5.json", "model-2.5", id="file"
        ),
        pytest.param(
            {f"a/{LOG}": [line()], f"b/{LOG.replace('mmie', 'mme')}": [line()]},
            ".",
            "out",
            id="the folder of two models",
        ),
        pytest.param(
            {LOG: [line()], **RESULTS, "data.json": {"SA-1": "said"}},
            f"{LOG};data.json",
            "",
            id="two paths",
        ),
    ],
)
def test_the_tested_model_is_that_of_the_run_or_else_named_by_the_path(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: Mapping[str, object],
    path: str,
    model: str,
) -> None:
    for name, content in files.items():
        save(tmp_path / "out" / name, content)
    monkeypatch.chdir(tmp_path / "out")
    assert read_answers(path).model == model


def test_milebench_answers_are_identified_by_the_folder_of_their_dataset(tmp_path: Path) -> None:
    item = {"sample_id": 131, "question": "q", "gt_response": "B", "pred_response": "A"}
    folder = tmp_path / "model" / "DocVQA"
    save(folder / "pred.json", [item, {"sample_id": 132, "pred_response": None}])
    save(folder / "pred_with_extracted.json", [item])
    save(folder / "DocVQA.json", {"meta_data": {"dataset": "DocVQA"}, "data": []})
    save(folder / "scores.json", {"131": 1.0})
    save(folder / "eval.json", {"Accuracy": 0.5})
    save(folder / "eval_score.json", [{"id": "131", "score": "1.0"}])
    save(folder / "gold.json", [{"sample_id": 131, "task_instance": {}, "response": "B"}])
    save(tmp_path / "model" / "IEdit-adv" / "runs" / "answers.x.json", [item])
    save(tmp_path / "model" / "elsewhere" / "pred.json", [{"sample_id": "9", "pred_response": ""}])
    expected = {"DocVQA/131": "A", "DocVQA/132": MISSING, "IEdit/131": "A", "9": ""}
    assert by_id(tmp_path, ["DocVQA", "IEdit"]) == expected


def test_mmie_answers_become_parts_in_their_order(tmp_path: Path) -> None:
    parts = [{"text": "First.", "image": "images/0.png"}, {"text": "Then.", "image": None}]
    item = {"id": "SA-1", "model": "m", "question": [], "answer": parts, "gt_answer": []}
    saved = by_id(save(tmp_path / "data.json", [item, {**item, "id": "SA-2", "answer": "text"}]))
    assert json.loads(str(saved["SA-1"])) == {"content": parts}
    assert saved["SA-2"] == "text"


@pytest.mark.parametrize(
    "text", ["![](0.png)", "images/0.png", 'He said "0.png".', "('a', ['0.png'])"]
)
def test_an_answer_of_prose_stays_as_it_was_saved(tmp_path: Path, text: str) -> None:
    (tmp_path / "0.png").touch()
    assert by_id(save(tmp_path / "a.json", [{"id": "SA-1", "answer": text}])) == {"SA-1": text}


def test_mia_bench_answers_are_identified_by_url(tmp_path: Path) -> None:
    lines = [
        {"url": "http://h/a/1.jpg?w=2", "text": "x", "question_id": 5},
        {"url": "http://h/b/2.jpg", "text": "y"},
        {"question_id": 9, "prompt": "p", "text": "w"},
    ]
    expected = {"http://h/a/1.jpg?w=2": "x", "http://h/b/2.jpg": "y", "9": "w"}
    assert by_id(save(tmp_path / "a.jsonl", lines)) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_any_json_value_becomes_text_that_can_be_written(value: object) -> None:
    answer = as_answer(value)
    rounds = (answer,) if isinstance(answer, str) else answer
    for text in rounds:
        text.encode()
    if value is None or isinstance(value, (bool, int, float)):
        assert failure_of(answer)


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        pytest.param({"a": 1}, f'{NOT_TEXT} {{"a": 1}}', id="object"),
        pytest.param(["one", 2], f'{NOT_TEXT} ["one", 2]', id="mixed list"),
        pytest.param(
            [{"text": "a", "image": None, "caption": "b"}],
            '{"content": [{"text": "a", "image": null, "caption": "b"}]}',
            id="parts with further keys",
        ),
        pytest.param(
            {"text": "a", "images": ["x.png"]},
            '{"text": "a", "images": ["x.png"]}',
            id="text and images",
        ),
        pytest.param("a\ud800\udc00b\udfff", "a\U00010000b\ufffd", id="surrogates"),
    ],
)
def test_values_become_answers(value: object, answer: object) -> None:
    assert as_answer(value) == answer
