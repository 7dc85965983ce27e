"""The model `interleaved`: its arguments, and what it forwards to its writer."""

from __future__ import annotations

import itertools
import json
from unittest.mock import MagicMock

import pytest
import torch
from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from lmms_eval.models import get_model
from lmms_eval.models.model_utils.gen_metrics import reset_logged_metrics
from lmms_eval.tasks import TaskManager, get_task_dict
from support.judge_server import JudgeServer
from support.mmie_data import conversations_folder

from mmie_tasks.answers.drawn import read_drawn_answer
from mmie_tasks.answers.failures import NO_REPLY, failure_of
from mmie_tasks.interleaved.protocols import NO_PICTURE
from mmie_tasks.record.segment import Segment
from mmie_tasks.runner.evaluation import new_evaluation, running
from mmie_tasks.runner.generation import name_null_replies
from mmie_tasks.runner.interleaved import Interleaved

WRITER = "dummy:response=A cat. [picture] It sleeps."


@pytest.fixture
def server():
    with JudgeServer(models=("image-model",)) as server:
        yield server


@pytest.fixture
def drawer(server):
    return f"images:model=image-model;base_url={server.url}"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"lvlm": "dummmy", "t2i": "images:m"}, "similar names: `dummy`", id="writer"),
        pytest.param({"lvlm": "dummy", "t2i": "images"}, "`images` needs `model=...`", id="model"),
        pytest.param({"lvlm": "dummy", "t2i": "images:m"}, "needs a key", id="key"),
        pytest.param(
            {"lvlm": "dummy", "t2i": "images:m;base_url=http://127.0.0.1:9/v1"},
            "no connection",
            id="server",
        ),
    ],
)
def test_a_wrong_argument_ends_the_run_before_the_writer_is_made(arguments, words, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_API_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit) as exit_:
        Interleaved(**arguments)
    assert words in str(exit_.value)
    assert "hint:" in str(exit_.value)


def test_a_folder_of_pictures_that_cannot_be_written_ends_the_run(drawer, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match=str(tmp_path / "file")):
        Interleaved(lvlm=WRITER, t2i=drawer, pictures=str(tmp_path / "file"))


def test_it_is_what_its_writer_is(drawer):
    model = get_model("interleaved").create_from_arg_string(
        f"lvlm={WRITER},t2i={drawer}", {"batch_size": 3}
    )
    assert model.is_simple
    assert model._response == "A cat. [picture] It sleeps."  # the writer's
    assert get_model("interleaved", force_simple=True)(lvlm=WRITER, t2i=drawer).is_simple
    assert not hasattr(model, "accelerator")  # the runner makes one where the writer has none
    model.accelerator = "the runner's"
    assert model.accelerator == "the runner's"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """MMIE with six samples, for simple and chat models, and its requests."""
    folder = conversations_folder(tmp_path_factory.mktemp("mmie") / "data")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("MMIE_DATA", str(folder))
        manager = TaskManager(model_name="interleaved")
        loaded = {
            kind: get_task_dict(["mmie"], manager, kind)["mmie"] for kind in ("simple", "chat")
        }
    for task in loaded.values():
        task.override_metric(metric_name="bypass")  # as with `--predict_only`: no judge
        task.build_all_requests(rank=0, world_size=1)
    return loaded


@pytest.fixture
def recorded():
    """A function that lists the requests of each call of a model's writer from now on."""

    def record_calls_of(model):
        calls = []
        generate = model._writer.model.generate_until

        def record(requests):
            calls.append(requests)
            return generate(requests)

        model._writer.model.generate_until = record
        return calls

    return record_calls_of


@pytest.fixture
def mmie_requests(tasks):
    def requests_for(model):
        task = tasks["simple" if model.is_simple else "chat"]
        model.task_dict["mmie"] = task.dataset
        return task.instances

    return requests_for


def has_pictures(model):
    """Whether the answer to each sample has pictures, in the order of the task."""
    return [category != "MSR" for category in model.task_dict["mmie"]["test"]["category"]]


def test_only_samples_with_pictures_in_their_answers_get_the_words_of_the_protocol(
    drawer, server, mmie_requests, recorded
):
    model = Interleaved(lvlm=WRITER, t2i=drawer)
    requests = mmie_requests(model)
    calls = recorded(model)
    answers = [
        read_drawn_answer(getattr(answer, "text", answer))
        for answer in model.generate_until(requests)
    ]
    has_words = ["[picture]" in request.args[0] for call in calls for request in call]
    assert has_words == has_pictures(model)
    assert [answer.facts.drawn for answer in answers] == list(map(int, has_words))
    assert [not isinstance(answer.answer, str) for answer in answers] == has_words
    assert len(server) == sum(has_words)
    assert all(
        request.args[0].count("[picture]") == 0 for request in requests
    )  # the runner's own are unchanged


@pytest.mark.parametrize(
    ("text", "answer", "unused"),
    [
        pytest.param(
            "[LMMS_EVAL_REQUEST_FAILED after 1 retries] [picture]", None, {}, id="failure"
        ),
        pytest.param("<think>A dog. [picture]", None, {}, id="only-thinking"),
        pytest.param("", None, {}, id="empty"),
        pytest.param('{"text": "A.", "images": ["a.png"]}', None, {}, id="pictures-of-its-own"),
        pytest.param("No marker.", "No marker.", {NO_PICTURE: 1}, id="no-marker"),
        pytest.param(
            "<think>B. [picture]</think>C.",
            "C.",
            {NO_PICTURE: 1, "thinking": 1},
            id="marker-in-thinking",
        ),
    ],
)
def test_what_no_picture_is_drawn_for(drawer, server, mmie_requests, text, answer, unused):
    model = Interleaved(lvlm=WRITER, t2i=drawer)
    requests = mmie_requests(model)
    requests = [requests[has_pictures(model).index(True)]]
    model._writer.model.generate_until = lambda _: [text]
    (output,) = model.generate_until(requests)
    drawn = read_drawn_answer(output)
    assert drawn.answer == (text if answer is None else (Segment(text=answer),))
    assert drawn.facts.unused == unused
    assert not len(server)


@pytest.mark.parametrize(
    "output", [None, GenerationResult(text=None, token_counts=TokenCounts(output_tokens=1))]
)
def test_a_null_reply_is_no_answer_and_carries_the_mark_of_the_run(drawer, mmie_requests, output):
    model = Interleaved(lvlm=WRITER, t2i=drawer)
    model._writer.model.generate_until = lambda requests: [output for _ in requests]
    outputs = model.generate_until(mmie_requests(model))
    answers = [read_drawn_answer(getattr(one, "text", one)) for one in outputs]
    assert {failure_of(answer.answer) for answer in answers} == {failure_of(NO_REPLY)}
    assert len({answer.facts.signature for answer in answers}) == 1


def test_null_replies_of_any_model_are_named_before_they_are_scored(tasks):
    (task, _) = tasks.values()
    replies = ["A.", None]
    for request, reply in zip(task.instances, replies, strict=False):
        request.resps[:] = [reply]
    name_null_replies([task])
    assert [request.resps for request in task.instances[:2]] == [["A."], [NO_REPLY]]


def test_a_run_that_ends_while_the_writer_writes_goes_on_behind_saved_texts(
    drawer, mmie_requests, monkeypatch
):
    monkeypatch.setattr("mmie_tasks.runner.pair_writer._PORTION", 2)
    model = Interleaved(lvlm=WRITER, t2i=drawer)
    requests = mmie_requests(model)
    sizes = []

    def write(portion):
        sizes.append(len(portion))
        if len(sizes) == 3:
            raise RuntimeError("the machine is gone")
        return ["[ERROR] no reply", "A cat. [picture]"]

    model._writer.model.generate_until = write
    with pytest.raises(RuntimeError):
        model.generate_until(requests)
    assert len(model.generate_until(requests)) == len(requests) == 6
    assert sizes == [2, 2, 2, 2, 2]  # again: the two failures and the last portion


@pytest.mark.parametrize("change", ["nothing", "fewer", "another order", "another limit"])
def test_a_text_is_written_once_whatever_else_a_call_holds(drawer, mmie_requests, change):
    counter = itertools.count()

    def write(requests):  # never the same twice, like most servers
        return [f"A cat, {next(counter)}. [picture]" for _ in requests]

    outputs = []
    for lvlm in (f"{WRITER};timeout=1", f"{WRITER};timeout=9"):
        model = Interleaved(lvlm=lvlm if change == "another limit" else WRITER, t2i=drawer)
        requests = [*mmie_requests(model), mmie_requests(model)[0]]  # one is repeated
        if outputs and change == "fewer":
            requests = requests[1:-1]
        if outputs and change == "another order":
            requests = requests[::-1]
        model._writer.model.generate_until = write
        outputs.append(model.generate_until(requests))
    assert next(counter) == len(set(outputs[0])) == 7
    assert set(outputs[1]) <= set(outputs[0])


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"text": 1, "tokens": null}', '{"text": "A', "\xff", "9" * 5000]
)
def test_a_text_is_read_back_and_one_whose_file_is_damaged_is_written_again(
    drawer, mmie_requests, tmp_path, content
):
    model = Interleaved(lvlm=WRITER, t2i=drawer)
    requests = mmie_requests(model)[:1]
    write = MagicMock(return_value=["A \ud800. [picture]"])
    model._writer.model.generate_until = write
    assert model.generate_until(requests) == model.generate_until(requests)
    assert write.call_count == 1
    (path,) = (tmp_path / "cache" / "written").rglob("*.json")
    path.write_text(content, encoding="latin-1")
    model.generate_until(requests)
    assert write.call_count == 2


def test_texts_that_cannot_be_saved_are_a_warning_and_no_error(
    drawer, mmie_requests, tmp_path, logs
):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "written").write_text("")
    model = Interleaved(lvlm=WRITER, t2i=drawer)
    requests = mmie_requests(model)
    assert len(model.generate_until(requests)) == len(requests)
    assert sum("cannot be saved" in line for line in logs) == 1


def test_texts_of_another_writer_are_not_used(drawer, mmie_requests):
    for response in ("A. [picture]", "B. [picture]"):
        model = Interleaved(lvlm=f"dummy:response={response}", t2i=drawer)
        output = model.generate_until(mmie_requests(model)[:1])
        assert response[:2] in getattr(output[0], "text", output[0])


def test_texts_of_another_server_of_one_machine_are_not_used(drawer, mmie_requests):
    texts = []
    for address in ("http://localhost:1", "http://localhost:2", "http://127.0.0.1:2/v1/"):
        model = Interleaved(lvlm=f"{WRITER};base_url={address}", t2i=drawer)
        model._writer.model.generate_until = MagicMock(return_value=[f"From {address}."])
        texts.extend(model.generate_until(mmie_requests(model)[:1]))
    assert texts[0] != texts[1] == texts[2]


def test_a_writer_that_was_freed_for_drawing_is_made_again_when_it_is_needed(drawer, mmie_requests):
    model = Interleaved(lvlm=WRITER, t2i=drawer)
    requests = mmie_requests(model)
    first = model._writer.model
    first._model = torch.nn.Linear(1, 1)
    evaluation = new_evaluation({}, {})
    with running(evaluation):
        model.generate_until(requests)
    assert not hasattr(first, "_model")
    evaluation.output.scored()  # there is no log of samples
    model.generate_until(requests)
    assert model._writer.model is not first
    assert model._writer.model.task_dict is first.task_dict


def test_samples_of_a_task_share_the_function_that_batching_models_read(
    drawer, tmp_path, mmie_requests, recorded
):
    (tmp_path / "answers.json").write_text(json.dumps({"SA-0": "A cat. [picture]", "MSR-2": "5"}))
    model = Interleaved(lvlm=f"predictions:path={tmp_path / 'answers.json'}", t2i=drawer)
    requests = mmie_requests(model)
    calls = recorded(model)
    model.generate_until(requests)
    (doc_to_messages,) = {request.args[1] for call in calls for request in call}
    has_words = [
        "[picture]" in str(doc_to_messages(doc)) for doc in model.task_dict["mmie"]["test"]
    ]
    assert has_words == has_pictures(model)


def test_tokens_of_the_writer_are_passed_on(drawer, mmie_requests):
    model = Interleaved(lvlm=WRITER, t2i=drawer)
    requests = mmie_requests(model)
    numbers = itertools.count()
    model._writer.model.generate_until = lambda requests: [
        GenerationResult(text="A.", token_counts=TokenCounts(output_tokens=next(numbers)))
        for _ in requests
    ]
    outputs = model.generate_until(requests)
    assert [output.token_counts.output_tokens for output in outputs] == list(range(len(requests)))


def test_requests_of_other_tasks_reach_the_writer_as_they_are_and_one_task_at_a_time(
    drawer, server, recorded
):
    model = Interleaved(lvlm=WRITER, t2i=drawer)
    calls = recorded(model)
    requests = [
        Instance(
            "generate_until",
            ("Why?", {}, None, i, task, "test"),
            0,
            {"task": task, "doc_id": i, "repeats": 1},
        )
        for task in ("x", "y")
        for i in range(2)
    ]
    assert [getattr(answer, "text", answer) for answer in model.generate_until(requests)] == [
        model._response
    ] * 4
    assert calls == [requests[:2], requests[2:]]
    assert not len(server)
    reset_logged_metrics()


def test_what_a_writers_requests_get_is_in_each_and_in_the_signature_and_the_key_of_its_texts(
    drawer, mmie_requests
):
    with JudgeServer("A cat.\n[picture]", check=None, closes=True) as writer:
        at = f"openai:model=m;base_url={writer.url};api_key=x"
        for effort in ("", ";reasoning_effort=low", ";reasoning_effort=none"):
            model = Interleaved(lvlm=f'{at}{effort};extra_body={{"top_k": 1}}', t2i=drawer)
            answers = model.generate_until(mmie_requests(model))
            wanted = has_pictures(model)
            texts = [answer for answer, is_drawn in zip(answers, wanted, strict=True) if is_drawn]
            signature = read_drawn_answer(texts[0].text).facts.signature
            assert (f",{effort[1:]},extra_body=" in signature) == bool(effort)
            assert ",extra_body=" in signature
    bodies = [body for body in writer.asked if "top_k" in body]
    assert len(bodies) == len(writer.asked) == 3 * len(answers)
    assert {body.get("reasoning_effort") for body in bodies} == {None, "low", "none"}
