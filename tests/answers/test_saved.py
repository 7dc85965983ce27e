"""Saved answers are read in every supported format; failures are distinguished from answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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


def line(doc_id: int = 0, **fields: object) -> dict[str, object]:
    return {"doc_id": doc_id, "target": "t", "filtered_resps": "said", "input": "i", **fields}


def cached(doc_id: int, answer: object, **fields: object) -> dict[str, object]:
    return {
        "request_type": "generate_until",
        "task_name": "mmie",
        "doc_id": doc_id,
        "response": json.dumps(answer),
        "content_hash": "0123",
        **fields,
    }


def only(path: Path) -> SavedAnswer:
    (answer,) = read_answers(str(path)).answers
    return answer


def by_id(path: Path, datasets: Sequence[str] = ()) -> dict[str, object]:
    answers = read_answers(str(path), datasets).answers
    return {answer.ids[0]: answer.answer for answer in answers}


def test_a_line_of_a_sample_log_gives_everything_that_identifies_its_sample(tmp_path: Path) -> None:
    metrics = {"official": {"id": "DocVQA/131", "score": 1.0}, "robust": {"id": "DocVQA/131"}}
    path = save(tmp_path / LOG, [line(7, target="gold", input="question", **metrics)])
    assert only(path) == SavedAnswer(
        answer="said",
        format="lmms-eval sample log",
        location=f"{path}, the whole file",
        ids=("DocVQA/131",),
        task="mmie",
        doc_id=7,
        input="question",
        target="gold",
    )


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


def test_a_cache_log_is_read(tmp_path: Path) -> None:
    lines = [cached(4, "said"), cached(0, [0.1, True], request_type="loglikelihood")]
    answer = only(save(tmp_path / "rank_0.audit.jsonl", lines))
    assert (answer.task, answer.doc_id, answer.input_hash) == ("mmie", 4, "0123")


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        pytest.param(json.dumps(["a", "b"]), ("a", "b"), id="rounds"),
        pytest.param(json.dumps(["a", {"output_tokens": 3}]), "a", id="with token counts"),
        pytest.param("null", MISSING, id="null"),
        pytest.param('{"text": 1}', f'{NOT_TEXT} {{"text": 1}}', id="object"),
    ],
)
def test_a_cached_response_is_unpacked(tmp_path: Path, response: str, answer: object) -> None:
    path = save(tmp_path / "cache.audit.jsonl", [cached(0, "") | {"response": response}])
    assert only(path).answer == answer


def test_cache_logs_of_ranks_are_merged(tmp_path: Path) -> None:
    save(tmp_path / "cache.audit.jsonl", [cached(0, "a"), cached(1, "b")])
    save(tmp_path / "runs" / "r" / "rank_0.audit.jsonl", [cached(0, "a")])
    save(tmp_path / "runs" / "r" / "rank_1.audit.jsonl", [cached(1, "b")])
    save(tmp_path / "out" / LOG, [line(1, filtered_resps="b")])
    answers = [(answer.doc_id, answer.answer) for answer in read_answers(str(tmp_path)).answers]
    assert sorted(answers) == [(0, "a"), (1, "b")]


def test_an_answer_beats_a_failure_in_cache_logs(tmp_path: Path) -> None:
    failed = "[LMMS_EVAL_REQUEST_FAILED after 3 retries]"
    lines = [cached(0, failed), cached(0, "a"), cached(1, "b"), cached(1, None)]
    save(tmp_path / "rank_0.audit.jsonl", lines)
    assert {answer.answer for answer in read_answers(str(tmp_path)).answers} == {"a", "b"}


def test_different_cached_answers_to_a_sample_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "rank_0.audit.jsonl", [cached(0, "a"), cached(0, "b")])
    with pytest.raises(AnswersUnusable, match=r"sample 0 of `mmie`: .*line 1, and .*line 2"):
        read_answers(str(path))


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


def test_image_paths_beside_the_answers_file_become_absolute(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name in ("images/0.png", "out.png"):
        (tmp_path / name).touch()
    parts = [{"text": "a", "image": image} for image in ("images/0.png", "no.png", "../x.png", "")]
    listed = {"text": "b", "images": ["images/0.png", 7, "http://h/0.png"]}
    items = [{"id": "SA-1", "answer": parts}, {"id": "SA-2", "answer": listed}]
    saved = by_id(save(tmp_path / "data.json", items))
    absolute_path = str(tmp_path / "images" / "0.png")
    content = json.loads(str(saved["SA-1"]))["content"]
    assert [part["image"] for part in content] == [absolute_path, "no.png", "../x.png", ""]
    assert json.loads(str(saved["SA-2"]))["images"] == [absolute_path, 7, "http://h/0.png"]


@pytest.mark.parametrize(
    "write", [json.dumps, lambda parts: json.dumps(parts, ensure_ascii=False), list]
)
def test_relative_images_of_json_are_found_beside_its_file(
    tmp_path: Path, write: Callable[[object], object]
) -> None:
    for name in ("ü 1.png", "secret.png"):
        (tmp_path / name).touch()
    folder = tmp_path / "my answers"
    folder.mkdir()
    (folder / "ü 1.png").touch()
    parts = [{"image": image} for image in ("ü 1.png", "../secret.png", "no.png")]
    (answer,) = by_id(save(folder / "a.json", [{"id": "SA-1", "answer": write(parts)}])).values()
    content = json.loads(str(answer))
    images = [part["image"] for part in (content["content"] if write is list else content)]
    assert images == [str(folder / "ü 1.png"), "../secret.png", "no.png"]


@pytest.mark.parametrize(
    "text", ["![](0.png)", "images/0.png", 'He said "0.png".', "('a', ['0.png'])"]
)
def test_an_answer_of_prose_stays_as_it_was_saved(tmp_path: Path, text: str) -> None:
    (tmp_path / "0.png").touch()
    assert by_id(save(tmp_path / "a.json", [{"id": "SA-1", "answer": text}])) == {"SA-1": text}


def test_mia_bench_answers_have_every_id(tmp_path: Path) -> None:
    lines = [
        {"url": "http://h/a/1.jpg?w=2", "text": "x", "question_id": 5},
        {"url": "http://h/b/2.jpg", "text": "y"},
        {"question_id": 9, "prompt": "p", "text": "w"},
    ]
    saved = read_answers(str(save(tmp_path / "a.jsonl", lines))).answers
    assert [answer.ids for answer in saved] == [
        ("http://h/a/1.jpg?w=2", "5"),
        ("http://h/b/2.jpg",),
        ("9",),
    ]


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
