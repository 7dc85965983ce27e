"""A tested model and a judge on one server: the warning, the check before a run, the mark."""

import pytest
from support.judge_asking import open_openai
from support.judge_server import JudgeServer
from support.loopback import error

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.served_model import ServedModel, judges_itself, served_model, shared_server
from mmie_tasks.judges.session import JudgingSession
from mmie_tasks.runner.evaluation import served_model_of

URL = "http://127.0.0.1:8000/v1"
HERE = ServedModel(model="qwen", url=URL)
OPENAI = "https://api.openai.com/v1"


def judge_with(variables, model="gpt-4o", **options):
    return open_openai(variables, model=model, **options)


@pytest.mark.parametrize(
    ("client", "arguments", "variables", "url"),
    [
        ("openai", {}, {"OPENAI_BASE_URL": "http://b", "OPENAI_API_BASE": f"{URL}/"}, URL),
        ("openai", {}, {"OPENAI_BASE_URL": URL}, URL),
        ("openai", {"base_url": "http%3A//127.0.0.1%3A8000/v1"}, {}, URL),
        ("openai", {"azure_openai": "True"}, {}, None),
        ("openai", {"base_url": "h:8000"}, {}, None),
        ("openai", {}, {"JUDGE_BASE_URL": URL}, OPENAI),
        ("openai_compatible", {"base_url": URL}, {}, URL),
        ("async_openai", {}, {"OPENAI_API_BASE": URL}, URL),
        ("chat_images", {}, {"OPENAI_API_BASE": URL}, URL),
        ("litellm_chat", {}, {"OPENAI_API_BASE": URL}, URL),
        ("gpt4v", {}, {"OPENAI_BASE_URL": URL, "OPENAI_API_URL": "http://b"}, URL),
        ("gpt4v", {}, {"OPENAI_API_URL": URL}, OPENAI),
        ("gpt4v", {}, {"API_TYPE": "azure"}, None),
        ("mine", {"base_url": URL}, {}, URL),
        ("qwen2_5_vl", {}, {"OPENAI_API_BASE": URL}, None),
    ],
)
def test_where_the_tested_model_is(client, arguments, variables, url):
    served = served_model(client, {"model_version": "m", **arguments}, variables)
    assert served == (None if url is None else ServedModel(model="m", url=url))


@pytest.mark.parametrize(
    "options",
    [
        {"model": "openai", "model_args": f"model=qwen,base_url={URL},timeout=9"},
        {"model": "openai", "model_args": {"model": "qwen", "base_url": URL}},
        {
            "model": "interleaved",
            "model_args": f"lvlm=openai:model=qwen;base_url={URL},t2i=images:m",
        },
    ],
)
def test_the_tested_model_is_that_of_the_command_or_the_writer_of_a_pair(options):
    assert served_model_of(options) == HERE


@pytest.mark.parametrize(
    "options", [{"model": object()}, {"lm": object()}, {"model": "stub", "model_args": None}]
)
def test_a_model_that_is_not_named_is_not_known_to_be_on_a_server(options):
    assert served_model_of(options) is None


@pytest.mark.parametrize(
    ("variables", "options", "tested", "shared"),
    [
        ({"OPENAI_API_URL": "http://me:word@localhost:8000/v1"}, {}, HERE, "`OPENAI_API_URL`"),
        ({"OPENAI_BASE_URL": "http://localhost:8000/v1"}, {}, HERE, "`OPENAI_BASE_URL`"),
        ({"JUDGE_BASE_URL": URL}, {}, HERE, ""),
        ({"OPENAI_BASE_URL": URL}, {"base_url": URL}, HERE, ""),
        ({"OPENAI_API_BASE": URL}, {}, HERE, ""),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:8001/v1"}, {}, HERE, ""),
        ({"OPENAI_BASE_URL": URL}, {}, None, ""),
        ({}, {}, ServedModel(model="m", url=OPENAI), ""),
    ],
)
def test_an_address_that_the_judge_and_the_tested_model_share_is_named_with_its_variable(
    variables, options, tested, shared
):
    start = "judge gpt-4o at http://localhost:8000/v1, from"
    found = shared_server(judge_with(variables, **options), tested)
    assert found == (f"{start} {shared}, which the tested model uses too" if shared else "")


@pytest.mark.parametrize(
    ("model", "options", "tested", "name"),
    [
        ("qwen", {"base_url": URL}, HERE, "qwen at 127.0.0.1"),
        ("a/qwen", {"base_url": "http://localhost:8000"}, HERE, "a/qwen at 127.0.0.1"),
        ("gpt-4o", {"base_url": URL}, HERE, None),
        ("qwen", {"base_url": "http://127.0.0.1:8001/v1"}, HERE, None),
        ("qwen", {"base_url": URL}, None, None),
        ("gpt-4o", {}, ServedModel(model="gpt-4o", url=OPENAI), "gpt-4o at api.openai.com"),
    ],
)
def test_judge_and_tested_model_are_one_if_model_and_address_are(model, options, tested, name):
    assert judges_itself(judge_with({}, model, **options), tested) == name


def check_at(server, tested_url=None):
    judge = judge_with({"OPENAI_BASE_URL": server.url}, timeout=10.0)
    tested = ServedModel(model="qwen", url=tested_url or server.url)
    JudgingSession(tested=tested).check(judge)


def test_a_server_that_takes_any_name_is_no_judge_if_its_list_lacks_the_model(logs):
    with JudgeServer("5", models=("qwen", "llama")) as server:
        with pytest.raises(JudgeMisconfigured) as raised:
            check_at(server)
        address = f"http://127.0.0.1:{server.port}/v1"
        for name in ("`gpt-4o`", address, "`qwen`", "`llama`", "JUDGE_BASE_URL", "--judge_args"):
            assert name in str(raised.value)
        assert f"judge gpt-4o at {address}, from `OPENAI_BASE_URL`, which" in logs[0]


@pytest.mark.parametrize("models", [["qwen", "gpt-4o"], None, error(403)], ids=str)
def test_a_judge_that_works_is_refused_by_nothing_but_a_list_without_it(models):
    with JudgeServer("5", models=models) as server:
        check_at(server)


def test_the_list_does_not_count_where_the_tested_model_is_elsewhere():
    with JudgeServer("5", models=("qwen",)) as server:
        check_at(server, tested_url="http://127.0.0.1:9/v1")


def test_a_server_that_denies_the_model_is_named_with_its_variable_and_the_way_out():
    unknown = error(404, code="model_not_found", message="The model `gpt-4o` does not exist.")
    with JudgeServer("5", models=("qwen",), check=unknown) as server:
        with pytest.raises(MmieTasksError) as raised:
            check_at(server)
        text = str(raised.value)
        assert "It has `qwen`; the address is from `OPENAI_BASE_URL`." in text
        assert "hint: `JUDGE_BASE_URL=...` or `--judge_args base_url=...`" in text
