"""System message and reply schema: what is sent, what is learned of a server, what is read."""

import json

import pytest
from support.judge_asking import ask, judge_at
from support.judge_server import completion
from support.loopback import error

from mmie_tasks.http.errors import ServerError, UnusableBody
from mmie_tasks.judges.base import JudgeRequest, ReplySchema
from mmie_tasks.judges.openai.completion import PoorReply, read_completion
from mmie_tasks.judges.openai.schemas import next_style

PARAMETERS = '{"type": "object", "properties": {"b": {"type": "integer"}, "a": {}}}'
SCHEMA = ReplySchema(name="grade", description="Grades.", parameters=PARAMETERS)
ARGUMENTS = '{"b": 1, "a": "x"}'
FUNCTION = {"name": "grade", "description": "Grades.", "parameters": json.loads(PARAMETERS)}
REJECTED = {
    "functions": error(400, message="Unknown parameter: 'functions'.", param="functions"),
    "tools": error(404, message="No endpoints found that support tool use."),
    "response_format": error(422, message="response_format json_schema is not supported"),
}


def requests(count=1):
    return [
        JudgeRequest(parts=(f"question {n}",), max_tokens=9, system="Be fair.", schema=SCHEMA)
        for n in range(count)
    ]


def call(arguments, finish_reason="function_call"):
    message = {"role": "assistant", "function_call": {"name": "grade", "arguments": arguments}}
    return {"choices": [{"message": message, "finish_reason": finish_reason}]}


def tool_call(arguments):
    function = {"type": "function", "function": {"name": "grade", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [function]}
    return {"choices": [{"message": message, "finish_reason": "tool_calls"}]}


def test_the_system_message_is_first_and_the_schema_is_the_official_function(server):
    server.says(call(ARGUMENTS))
    (reply,) = ask(judge_at(server.url, model="gpt-4o"), requests())
    (body,) = server.asked
    assert body["messages"][0] == {"role": "system", "content": "Be fair."}
    assert body["functions"] == [FUNCTION]
    assert list(body["functions"][0]["parameters"]["properties"]) == ["b", "a"]
    assert body["function_call"] == {"name": "grade"}
    assert (reply.text, reply.finish) == (ARGUMENTS, "stop")


def test_a_server_that_takes_no_style_is_asked_in_plain_words_and_learned_once(server):
    def takes_none(body):
        return next((sent for name, sent in REJECTED.items() if name in body), ARGUMENTS)

    server.says(takes_none)
    judge = judge_at(server.url, model="gpt-4o")
    replies = ask(judge, requests(1)) + ask(judge, requests(5)[1:])
    assert [reply.text for reply in replies] == [ARGUMENTS] * 5
    styles = [next((name for name in REJECTED if name in body), "none") for body in server.asked]
    assert styles == [*REJECTED, *["none"] * 5]


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        pytest.param(call(ARGUMENTS), ARGUMENTS, id="function"),
        pytest.param(call(ARGUMENTS, "stop"), ARGUMENTS, id="function-stop"),
        pytest.param(tool_call(ARGUMENTS), ARGUMENTS, id="tool"),
        pytest.param(completion(ARGUMENTS), ARGUMENTS, id="content-in-its-place"),
    ],
)
def test_the_text_of_a_reply_is_what_the_function_is_called_with(sent, text):
    assert read_completion(sent, model="m", has_schema=True).text == text


def test_a_call_is_read_only_if_one_was_asked_for():
    with pytest.raises(PoorReply):
        read_completion(tool_call(ARGUMENTS), model="m")


def test_a_call_without_arguments_as_text_is_unusable():
    with pytest.raises(UnusableBody):
        read_completion(call({"b": 1}), model="m", has_schema=True)


@pytest.mark.parametrize(
    "said",
    [
        ServerError(status=500, message="functions failed"),
        ServerError(status=404, message="The model `gpt-9` does not exist", code="model_not_found"),
    ],
)
def test_other_errors_change_no_style(said):
    assert next_style("functions", said) is None
