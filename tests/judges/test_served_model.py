"""A tested model and a judge on one server: the warning, the check before a run, the mark."""

import pytest
from support.judge_asking import judge_of

from mmie_tasks.judges.served_model import ServedModel, judges_itself, served_model, shared_server

URL = "http://127.0.0.1:8000/v1"
HERE = ServedModel(model="qwen", url=URL)
OPENAI = "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("client", "arguments", "variables", "url"),
    [
        ("openai", {}, {"OPENAI_BASE_URL": "http://b", "OPENAI_API_BASE": f"{URL}/"}, URL),
        ("openai", {"azure_openai": "True"}, {}, None),
        ("openai", {}, {"JUDGE_BASE_URL": URL}, OPENAI),
        ("chat_images", {}, {"OPENAI_API_BASE": URL}, URL),
        ("gpt4v", {}, {"OPENAI_API_URL": URL}, OPENAI),
        ("gpt4v", {}, {"API_TYPE": "azure"}, None),
        ("qwen2_5_vl", {}, {"OPENAI_API_BASE": URL}, None),
    ],
)
def test_where_the_tested_model_is(client, arguments, variables, url):
    served = served_model(client, {"model_version": "m", **arguments}, variables)
    assert served == (None if url is None else ServedModel(model="m", url=url))


@pytest.mark.parametrize(
    ("variables", "options", "tested", "shared"),
    [
        ({"OPENAI_API_URL": "http://me:word@localhost:8000/v1"}, {}, HERE, "`OPENAI_API_URL`"),
        ({"OPENAI_BASE_URL": "http://localhost:8000/v1"}, {}, HERE, "`OPENAI_BASE_URL`"),
        ({"JUDGE_BASE_URL": URL}, {}, HERE, ""),
        ({"OPENAI_API_BASE": URL}, {}, HERE, ""),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:8001/v1"}, {}, HERE, ""),
        ({}, {}, ServedModel(model="m", url=OPENAI), ""),
    ],
)
def test_a_shared_address_is_named_with_its_variable(variables, options, tested, shared):
    start = "judge gpt-4o at http://localhost:8000/v1, from"
    found = shared_server(judge_of(variables, model="gpt-4o", **options), tested)
    assert found == (f"{start} {shared}, which the tested model uses too" if shared else "")


@pytest.mark.parametrize(
    ("model", "options", "tested", "name"),
    [
        ("qwen", {"base_url": URL}, HERE, "qwen at 127.0.0.1"),
        ("a/qwen", {"base_url": "http://localhost:8000"}, HERE, "a/qwen at 127.0.0.1"),
        ("gpt-4o", {"base_url": URL}, HERE, None),
        ("qwen", {"base_url": "http://127.0.0.1:8001/v1"}, HERE, None),
        ("gpt-4o", {}, ServedModel(model="gpt-4o", url=OPENAI), "gpt-4o at api.openai.com"),
    ],
)
def test_judge_and_tested_model_are_one_if_model_and_address_are(model, options, tested, name):
    assert judges_itself(judge_of({}, model=model, **options), tested) == name
