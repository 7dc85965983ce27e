"""Files of saved answers, and which sample each answers."""

import json
import re
from pathlib import Path

import pytest

from mmie_tasks.answers.failures import NULL
from mmie_tasks.answers.matcher import AnswerMatcher, RequestedSample
from mmie_tasks.answers.saved import read_answers
from mmie_tasks.core.errors import AnswersUnusable

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def write(path, *records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def read(path, datasets=()):
    return {answer.id: answer.answer for answer in read_answers([path], datasets).answers}


def matcher_of(path):
    return AnswerMatcher(read_answers([path]).answers)


def samples(*ids):
    return [RequestedSample(ids=(sample_id,), input="") for sample_id in ids]


def only(path):
    (answer,) = read_answers([path]).answers
    return answer


def log_line(sample_id, *answers, **fields):
    return {"doc_id": 0, "resps": [[*answers]], "input": "q", "record": {"id": sample_id}, **fields}


def test_records_of_id_and_answer_are_read(tmp_path):
    write(tmp_path / "own" / "a.jsonl", {"id": "1", "answer": "A"}, {"id": 2, "answer": None})
    assert read(tmp_path / "own") == {"1": "A", "2": NULL}
    write(tmp_path / "map.json", {"1": "A", "2": ["B", "C"], "3": None})
    assert read(tmp_path / "map.json") == {"1": "A", "2": ("B", "C"), "3": NULL}
    write(tmp_path / "list.json", [{"id": 1, "answer": 3.5}, {"id": 2, "text": "B\ud800"}])
    assert read(tmp_path / "list.json") == {"1": "3.5", "2": "B\N{REPLACEMENT CHARACTER}"}


def test_every_official_form_is_read(tmp_path):
    write(tmp_path / "m" / "DocVQA" / "pred.json", [{"sample_id": 7, "pred_response": "B"}])
    assert read(tmp_path / "m", ("DocVQA",)) == {"DocVQA/7": "B"}
    write(tmp_path / "mia.jsonl", {"question_id": 0, "url": "u/1.png", "text": "A"})
    assert read(tmp_path / "mia.jsonl") == {"u/1.png": "A"}
    parts = [{"text": "A", "image": "1.png"}, {"text": "B", "image": None}]
    write(tmp_path / "data.json", [{"id": "SA-1", "model": "m", "answer": parts}])
    assert json.loads(str(read(tmp_path / "data.json")["SA-1"])) == parts


def test_an_image_of_openings_answers_is_beside_its_file(tmp_path):
    steps = [{"text": "A", "image": "./x/0101001-o-0.jpg"}, {"text": "B", "image": None}]
    record = {"conversations": [{"input": []}, {"output": steps}]}
    folder = tmp_path / "M_output"
    write(folder / "0101001.json", record)
    answer = only(folder)
    assert answer.id == "0101001"
    parts = json.loads(str(answer.answer))
    assert parts == [{"text": "A", "image": f"{folder}/0101001-o-0.jpg"}, steps[1]]
    steps.append({"image": "a.jpg"})
    write(folder / "0101001.json", record)
    with pytest.raises(AnswersUnusable, match="step 3"):
        read(folder)


@pytest.mark.parametrize(
    "record",
    [
        {"id": "1", "answer": "Fold. <image>", "images": ["a.png"]},
        {"id": "1", "text": "Fold. <image>", "images": ["a.png"]},
        {"id": "1", "text": "Fold. <image>", "image": "a.png"},
    ],
)
def test_a_record_without_its_id_is_the_answer(tmp_path, record):
    answer = only(write(tmp_path / "a.jsonl", record))
    assert answer.images == ("a.png",)
    written = json.loads(str(answer.with_images()))
    assert written == {"text": "Fold. <image>", "images": ["a.png"]}


def test_images_beside_the_answer_may_be_those_of_the_question(tmp_path):
    record = {"id": "1", "question": "What is it?", "image": "q.png", "answer": "A fox."}
    answer = only(write(tmp_path / "a.jsonl", record))
    assert (answer.answer, answer.images) == ("A fox.", ("q.png",))
    with pytest.raises(AnswersUnusable, match=r"a\.jsonl.*`question`"):
        answer.with_images()


@pytest.mark.parametrize(
    "record", [{"url": "i/0.png", "text": "A."}, {"id": "i/0.png", "answer": "A."}]
)
def test_an_id_that_is_the_file_of_a_question_is_no_image(tmp_path, record):
    answer = only(write(tmp_path / "a.jsonl", record))
    assert (answer.id, answer.images) == ("i/0.png", ())


def test_only_the_newest_log_of_a_task_is_read(tmp_path):
    for date, answer in (("20260101_000001", "old"), ("20260101_000002", "new")):
        for name in ("-0a1b2c3d_answers", "_samples"):
            write(tmp_path / f"{date}{name}_mmie.jsonl", log_line("1", answer))
    saved = read_answers([tmp_path])
    assert [(one.answer, one.task, one.input) for one in saved.answers] == [("new", "mmie", "q")]
    assert len(saved.notes) == 2


def test_of_several_repeats_the_first_counts_and_rounds_stay(tmp_path):
    path, repeats = tmp_path / "20260101_000000_samples_mmie.jsonl", {"resps": ["A", "B"]}
    assert read(write(path, log_line("1") | repeats)) == {"1": "A"}
    rounds = log_line("1", filtered_resps=["A", "B"]) | repeats
    assert read(write(path, rounds)) == {"1": ("A", "B")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no answers"),
        ("{", "not JSON"),
        ('[{"id": [1], "answer": "A"}]', r"entry 1: the id is \[1\]"),
        ('[{"id": 1, "answer": "A", "text": "B"}]', "`answer` and `text`"),
        ('[{"id": 1, "answer": "gold", "prediction": "A"}]', "`id`, `answer`, `prediction`"),
        ('[{"id": 1, "answer": "A"}, {"id": 2}]', "entry 2: it lacks"),
        ('{"score": 1.0}', "`score`"),
        ("number,gpt\n1,B\n", "not JSON in UTF-8 \\(line 1[\\s\\S]*hint: save it as JSON"),
        ('[{"id": 1, "answer": "A"}]'.encode("utf-16"), "byte 0 is not UTF-8[\\s\\S]*as JSON"),
    ],
)
def test_other_files_are_refused_with_the_accepted_forms(tmp_path, text, message):
    path = tmp_path / "a.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(AnswersUnusable, match=message):
        read_answers([path])


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_last_line_that_was_cut_off_is_left_out(tmp_path, name):
    path = tmp_path / name
    path.write_text('{"id": 1, "answer": "A"}\n{"id": 2, "ans')
    assert read(path) == {"1": "A"}
    path.write_text('{"id": 2, "ans\n{"id": 1, "answer": "A"}\n')
    with pytest.raises(AnswersUnusable, match="line 1"):
        read(path)


def test_files_without_answers_in_a_folder_are_skipped(tmp_path):
    write(tmp_path / "a.json", {"1": "A"})
    write(tmp_path / "b.json", {"score": 1.0})
    write(tmp_path / "1_results.json", {"results": {}})
    assert read(tmp_path) == {"1": "A"}
    (tmp_path / "a.json").unlink()
    with pytest.raises(AnswersUnusable, match="no saved answers"):
        read(tmp_path)


def test_answers_are_matched_by_id_and_by_the_text_that_was_sent(tmp_path):
    write(tmp_path / "20260101_000000_samples_milebench_D.jsonl", log_line("D/1", "A"))
    sent = [RequestedSample(ids=("D/1",), input=text) for text in ("q", "other")]
    first, second = matcher_of(tmp_path).match("milebench", sent).answers
    assert (first.answer, second) == ("A", None)


def test_a_report_counts_what_is_missing_and_unknown(tmp_path):
    path = write(tmp_path / "a.jsonl", *({"id": i, "answer": a} for i, a in enumerate("AB")))
    write(tmp_path / "b.jsonl", {"id": "x", "answer": "C"}, {"id": "2", "answer": None})
    matcher = matcher_of(tmp_path)
    matched = matcher.match("t", samples("0", "10", "2", "9"))
    assert (matched.counts, matched.unanswered) == ("t: answers 2 of 4", ("9", "10"))
    unknown = matcher.of_no_sample
    assert unknown == f"2 answers have ids that no sample of `t` has, such as `1`, {path}, line 2"
    matcher.match("other", samples("1", "x"))
    assert matcher.of_no_sample == ""
    assert re.search("id `7`.*id `0`", str(matcher.no_match_error("t", samples("7"))))


def test_ids_without_the_name_of_their_dataset_are_an_error_that_shows_it(tmp_path):
    matcher = matcher_of(write(tmp_path / "a.jsonl", {"id": 7, "answer": "A"}))
    assert "`TQA/7` in place of `7`" in str(matcher.no_match_error("t", samples("TQA/7")))


def test_two_different_answers_to_a_sample_are_an_error(tmp_path):
    answers = [{"id": "1", "answer": text} for text in "AAB"]
    path = tmp_path / "a.jsonl"
    assert matcher_of(write(path, *answers[:2])).match("t", samples("1")).count == 1
    matcher = matcher_of(write(path, *answers[1:]))
    with pytest.raises(AnswersUnusable, match=r"line 1, and .*line 2"):
        matcher.match("t", samples("1"))


@pytest.mark.parametrize("name", ["mmie", "mia_bench", "milebench", "opening", "results"])
def test_the_bundled_answers_are_read(name):
    assert read_answers([EXAMPLES / name / "answers"]).answers


def test_an_id_that_lost_its_zeros_is_found_unless_it_is_ambiguous(tmp_path):
    ids = ["0101001", "0101002", "0201001"]
    given = [{"id": 101001, "answer": "a"}, {"id": "0101002", "answer": "b"}]
    path = write(tmp_path / "a.jsonl", *given, {"id": 101002, "answer": "c"})
    matcher = matcher_of(path)
    matched = matcher.match("opening", samples(*ids))
    assert [one and one.answer for one in matched.answers] == ["a", "b", None]
    assert "1 answer has an id that no sample of `opening` has" in matcher.of_no_sample
    assert matcher.has_answers(["0101001"])
    assert matcher.match("t", samples("0101001", "1")).answers == (None, None)
