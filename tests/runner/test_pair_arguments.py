"""How people write the arguments of ``--model interleaved``: each spelling works or its error says
what is meant.
"""

from __future__ import annotations

import json

import pytest

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.interleaved.registry import open_drawer
from mmie_tasks.runner.pair_arguments import (
    check_writer_arguments,
    parse_pair_arguments,
    split_arguments,
)

OPENAI = ("openai", {"model": "gpt-4o"})
QWEN_IMAGE = {"model": "Qwen/Qwen-Image"}
NEEDS_BOTH = "needs a writer, `lvlm=`, and a drawer, `t2i=`"

WORK = [
    "lvlm=openai:model=gpt-4o,t2i=images:model=Qwen/Qwen-Image",
    "lvlm=openai:model=gpt-4o,t2i=images:Qwen/Qwen-Image",
    "lvlm=openai:model=gpt-4o;t2i=images:model=Qwen/Qwen-Image",
    "writer=openai:model=gpt-4o,drawer=images:Qwen/Qwen-Image",
    "LVLM=openai:model=gpt-4o, T2I=images:Qwen/Qwen-Image",
    "t2i=images:Qwen/Qwen-Image,lvlm=openai:model=gpt-4o",
    "lvlm=openai,model=gpt-4o,t2i=images,model=Qwen/Qwen-Image",
    "lvlm=openai;model=gpt-4o,t2i=images;model=Qwen/Qwen-Image",
    " lvlm = openai : model=gpt-4o , t2i = images : Qwen/Qwen-Image ",
    "lvlm='openai:model=gpt-4o',t2i=\"images:Qwen/Qwen-Image\"",
    "'lvlm=openai:model=gpt-4o,t2i=images:Qwen/Qwen-Image'",
    "lvlm=openai:model=gpt-4o,t2i=images:Qwen/Qwen-Image,protocol=STEP",
    {"lvlm": "openai:model=gpt-4o", "t2i": "images:Qwen/Qwen-Image"},
    {
        "writer": {"name": "openai", "model": "gpt-4o"},
        "drawer": {"name": "images", "model": "Qwen/Qwen-Image"},
    },
]
FAIL = [
    ("lvlm=openai:gpt-4o,t2i=images:m", "`lvlm=openai:model=gpt-4o`"),
    ("lvlm=qwen2_5_vl:Qwen/Q,t2i=images:m", "`lvlm=qwen2_5_vl:pretrained=Qwen/Q`"),
    (
        "lvlm=Qwen/Qwen2.5-VL-7B-Instruct,t2i=images:m",
        "`lvlm=qwen2_5_vl:pretrained=Qwen/Qwen2.5-VL-7B-Instruct`",
    ),
    ("lvlm=gpt-4o,t2i=images:m", "`lvlm=openai:model=gpt-4o`"),
    ("lvlm=openai:model=m,t2i=qwen-image", "`t2i=images:qwen-image`"),
    ("lvlm=openai:model=m,t2i=stabilityai/sdxl", "`t2i=diffusers:stabilityai/sdxl`"),
    ("lvlm=openai:model=m,t2i=openai:dall-e-3", "one of images, diffusers;"),
    ("lvml=openai:model=m,t2i=images:m", "did you mean `lvlm=`?"),
    ("lvlm=openai:model=m,t21=images:m", "did you mean `t2i=`?"),
    ("lvlm=openai:model=m,t2i=images:m,protocl=step", "did you mean `protocol=`?"),
    ("model=m,t2i=images:m", "has no argument `model`"),
    ("lvlm=openai:model=m", NEEDS_BOTH),
    ("", NEEDS_BOTH),
    ("lvlm=openai:model=m,t2i=images:m,lvlm=dummy", "`lvlm` is given twice"),
    ("lvlm=interleaved,t2i=images:m", "is not a model of lmms-eval"),
    ("lvlm=openai:model=m,t2i=images:m,protocol=x", "no protocol `x`"),
    ({"writer": {"model": "gpt-4o"}, "drawer": "images:m"}, "`name: openai`"),
]


def parsed(model_args):
    return parse_pair_arguments(split_arguments(model_args))


@pytest.mark.parametrize("model_args", WORK, ids=str)
def test_a_spelling_that_is_read(model_args):
    arguments = parsed(model_args)
    assert (arguments.writer, arguments.writer_arguments) == OPENAI
    assert (arguments.drawer.name, arguments.drawer.options) == ("images", QWEN_IMAGE)


@pytest.mark.parametrize(("model_args", "meant"), FAIL, ids=lambda value: str(value)[:60])
def test_the_error_of_another_spelling_says_what_is_meant(model_args, meant):
    with pytest.raises(SettingWrong) as error:
        parsed(model_args)
    assert meant in str(error.value)


def test_a_map_holds_what_no_text_can():
    writer = {"name": "openai", "model": "m", "num_concurrent": 4, "extra": "a;b,c"}
    drawer = {
        "name": "images",
        "model": "m",
        "steps": 4,
        "negative_prompt": "text, letters",
        "base_url": "http://a/v1",
    }
    arguments = parsed({"writer": writer, "drawer": drawer})
    assert arguments.writer_arguments == {"model": "m", "num_concurrent": 4, "extra": "a;b,c"}
    server = open_drawer(arguments.drawer, {})
    assert server.parameters["num_inference_steps"] == 4
    assert server.parameters["negative_prompt"] == "text, letters"
    assert server.access.base_url == "http://a/v1"


def test_an_argument_that_a_writer_would_ignore_is_refused():
    class Writer:
        def __init__(self, num_concurrent=1, **ignored): ...

    check_writer_arguments(Writer, ["num_concurrent", "whatever"])
    with pytest.raises(SettingWrong) as error:
        check_writer_arguments(Writer, ["num_concurent"])
    assert "`num_concurrent`" in str(error.value)


def test_a_pair_is_named_by_both_models_and_what_else_makes_another_picture():
    def name(more, **arguments):
        return parsed({"lvlm": "openai:model=org/gpt-4o", "t2i": more, **arguments}).pair

    assert name("images:flux;timeout=9") == "gpt-4o + flux"
    assert name("images:flux;steps=4", protocol="step") == "gpt-4o + flux (steps=4)"
    assert len({name(f"images:flux;negative_prompt={words}") for words in ("a", "b")}) == 2
    two_options = name("diffusers:org/flux;steps=4;revision=refs/pr/3")
    assert two_options == "gpt-4o + flux (steps=4 revision=refs_pr_3)"  # `model=` can take it


BODY = '{"chat_template_kwargs": {"enable_thinking": false, "a;b": [1, 2]}}'
ADDED = {
    "reasoning_effort": "low",
    "extra_body": '{"chat_template_kwargs":{"a;b":[1,2],"enable_thinking":false}}',
}


@pytest.mark.parametrize(
    "model_args",
    [
        f"lvlm=openai:model=m;reasoning_effort=low;extra_body={BODY},t2i=images:flux",
        f"lvlm=openai:model=m,extra_body={BODY},reasoning_effort=low,t2i=images:flux",
        f"t2i=images:flux,lvlm=async_openai:extra_body={BODY},reasoning_effort=low,model=m",
        {
            "writer": {
                "name": "openai",
                "model": "m",
                "reasoning_effort": "low",
                "extra_body": json.loads(BODY),
            },
            "drawer": "images:flux",
        },
    ],
    ids=str,
)
def test_the_fields_that_a_writers_requests_get_are_no_arguments_of_its_class(model_args):
    arguments = parsed(model_args)
    assert arguments.writer_arguments == {"model": "m"}
    assert arguments.added == ADDED
    assert arguments.request_fields == {"reasoning_effort": "low", **json.loads(BODY)}
    assert "reasoning_effort=low extra_body=" in arguments.pair


@pytest.mark.parametrize(
    ("extra_body", "words"),
    [
        ('{"model": "hush"}', "`model`"),
        ('{"max_tokens": 1}', "`max_tokens`"),
        ("[1]", "not a JSON object"),
    ],
)
def test_a_field_that_a_writer_sets_itself_is_refused(extra_body, words):
    with pytest.raises(SettingWrong) as error:
        parsed(f"lvlm=openai:model=m;extra_body={extra_body},t2i=images:flux")
    assert words in str(error.value)
    assert "hush" not in str(error.value)
