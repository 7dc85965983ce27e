"""``reasoning_effort`` and ``extra_body``: what is read, and what is refused with which hint."""

import pytest

from mmie_tasks.core.choice import parse_choice, split_options
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.http.errors import ServerError
from mmie_tasks.http.extra_fields import read_extra_body, refusal_hint, refused_field

COMPUTED = {"model": "`model=`", "max_completion_tokens": "`max_tokens=`"}
SECRET = "hush-hush-12"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        pytest.param('{ "b": 1,\n"a": [true, null] }', '{"a":[true,null],"b":1}', id="order"),
        pytest.param("'{\"a\": 1}'", '{"a":1}', id="quotes-of-the-shell"),
        pytest.param('{"a": "b|c"}', '{"a":"b\\u007cc"}', id="bar-of-signatures"),
        pytest.param('{"prompt_cache_key": "a", "max_tokens_per_step": 2, "key": 3}',
                     '{"key":3,"max_tokens_per_step":2,"prompt_cache_key":"a"}', id="no-secret"),
        pytest.param("{}", "", id="empty-object"),
        pytest.param("", "", id="nothing"),
    ],
)  # fmt: skip
def test_a_json_object_is_read_in_one_form(text, canonical):
    assert read_extra_body("judge", text, COMPUTED, [SECRET]) == canonical


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("{'a': True}", "no JSON object", id="python"),
        pytest.param('["a"]', "no JSON object", id="list"),
        pytest.param('{"a": NaN}', "no JSON object", id="not-a-number"),
        pytest.param('{"api_key": "hush"', "no JSON object", id="unclosed"),
        pytest.param('{"model": "x"}', "`model=`", id="model"),
        pytest.param('{"max_completion_tokens": 1}', "`max_tokens=`", id="max-tokens"),
        pytest.param('{"api_key": "hush"}', "`api_key`", id="key"),
        pytest.param('{"headers": [{"X-Api-Key": "hush"}]}', "`X-Api-Key`", id="inside"),
        pytest.param('{"accessToken": "hush"}', "`accessToken`", id="camel"),
        pytest.param('{"Authorization": "Bearer hush"}', "`Authorization`", id="header"),
        pytest.param(f'{{"user": "x {SECRET}"}}', "holds a secret", id="the-judges-key"),
    ],
)
def test_what_cannot_be_added_is_refused_without_its_value(text, words):
    with pytest.raises(SettingWrong) as raised:
        read_extra_body("judge", text, COMPUTED, [SECRET])
    assert words in str(raised.value)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        pytest.param('a={"b": 1, "c": {"d": 2}},e=3', ['a={"b": 1, "c": {"d": 2}}', "e=3"],
                     id="nested"),
        pytest.param('a={"b": 1},c={"d": 1, "e": 2}', ['a={"b": 1}', 'c={"d": 1, "e": 2}'],
                     id="two"),
        pytest.param('a={"b": 1,c=2', ['a={"b": 1,c=2'], id="unclosed"),
    ],
)  # fmt: skip
def test_a_value_that_begins_with_a_brace_reaches_to_the_matching_one(text, parts):
    assert split_options(text) == parts
    assert parse_choice(f"openai:m,{parts[0]}", "here", "judge").options["a"] == parts[0][2:]


FIELDS = {"reasoning_effort": "minimal", "chat_templat_kwargs": {"enable_thinking": False}}


@pytest.mark.parametrize(
    ("error", "name", "hint"),
    [
        pytest.param({"param": "reasoning_effort", "message": "Unsupported value: 'minimal' is not "
                      "supported with this model. Supported values are: 'none', 'low', and 'medium'"
                      "."}, "reasoning_effort", "names `none`, `low`, `medium`", id="OpenAI"),
        pytest.param({"param": "reasoning_effort", "message": "Input should be 'low' or 'minima'"},
                     "reasoning_effort", "`reasoning_effort=minima`", id="vLLM"),
        pytest.param({"param": "reasoning.effort", "message": "must be one of: high, low"},
                     "reasoning_effort", "names `high`, `low`", id="Responses"),
        pytest.param({"message": "Unrecognized request argument supplied: reasoning_effort"},
                     "reasoning_effort", "leave out `reasoning_effort`", id="no-param"),
        pytest.param({"param": "chat_templat_kwargs", "message": "Extra inputs are not permitted"},
                     "chat_templat_kwargs", "did you mean `chat_template_kwargs`?", id="misspelt"),
        pytest.param({"param": "chat_template_kwargs.enable_thinking", "message": "no"},
                     "enable_thinking", "leave out", id="inner"),
        pytest.param({"message": "The reasoning_effort of the picture is lost"}, None, "",
                     id="words"),
        pytest.param({"param": "temperature", "message": "not supported with reasoning_effort"},
                     None, "", id="another"),
        pytest.param({"status": 500, "param": "reasoning_effort"}, None, "", id="500"),
    ],
)  # fmt: skip
def test_a_server_that_refuses_a_field_is_understood(error, name, hint):
    server_error = ServerError(**{"status": 400, **error})
    assert refused_field(server_error, FIELDS) == name
    if name:
        assert hint in refusal_hint(name, FIELDS, server_error)
