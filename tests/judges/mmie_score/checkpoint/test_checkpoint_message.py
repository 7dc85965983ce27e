"""The default system message: two places, their order, and what is refused."""

import pytest
from support.tiny_checkpoint import REMOVED, TinyCheckpoint

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import Located, open_checkpoint

OURS = """
from enum import IntEnum
raise SystemExit("this file was run")
register(Conversation(name="other", system_message="of another template", sep="</s>"))
register(
    Conversation(
        name="phi3-chat",
        system_template="<|system|>\\n{system_message}",
        # system_message="commented out",
        system_message="From the" " template.",
        roles=("<|user|>\\n", "<|assistant|>\\n"),
        sep_style=SeparatorStyle.MPT,
        sep="<|end|>",
        stop_token_ids=[2, 32000, 32007],
    )
)
"""


@pytest.fixture
def tiny(tmp_path):
    made = TinyCheckpoint.copied_to(tmp_path / "checkpoint")
    made.sets("system_message", REMOVED)
    return made


def message(tiny):
    located = Located(folder=tiny.folder, name="local folder")
    return open_checkpoint(located).facts.system_message


def complaint(tiny):
    with pytest.raises(JudgeMisconfigured) as caught:
        message(tiny)
    return str(caught.value)


@pytest.mark.parametrize("said", ["", "From the key.", "<|end|>\n{braces}", "naïve 中"])
def test_the_key_in_the_config_comes_first(tiny, said):
    tiny.sets("system_message", said)
    tiny.says("conversation.py", b"this is no Python")
    assert message(tiny) == said


@pytest.mark.parametrize("value", [None, 7, True, ["a"], "\ud800"])
def test_a_key_that_is_no_text_is_refused(tiny, value):
    tiny.sets("system_message", value)
    tiny.says("conversation.py", OURS.encode())
    assert "`system_message` in" in complaint(tiny)


def test_the_template_is_parsed_and_not_run(tiny):
    tiny.says("conversation.py", OURS.encode())
    assert message(tiny) == "From the template."


def test_a_template_without_a_message_has_an_empty_one(tiny):
    ours = OURS.replace('system_message="From the" " template.",', "")
    tiny.says("conversation.py", ours.encode())
    assert message(tiny) == ""


def test_without_either_place_both_are_named(tiny):
    said = complaint(tiny)
    assert "config.json` has no `system_message`" in said
    assert "no `conversation.py` beside it" in said
    assert "hint: download the whole repository, with `conversation.py`, or add" in said


def test_a_file_without_the_template_is_told(tiny):
    tiny.says("conversation.py", OURS.replace("phi3-chat", "phi4-chat").encode())
    assert "defines no template `phi3-chat`" in complaint(tiny)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        pytest.param('sep="<|end|>"', 'sep="<|im_end|>"', "sep", id="separator"),
        pytest.param("SeparatorStyle.MPT", "SeparatorStyle.PLAIN", "sep_style", id="style"),
        pytest.param("sep_style=SeparatorStyle.MPT,", "", "sep_style", id="no-style"),
        pytest.param("<|user|>\\n", "<|user|>", "roles", id="role"),
        pytest.param("<|system|>\\n{", "<|system|>{", "system_template", id="system"),
        pytest.param('"From the" " template."', "MESSAGE", "system_message", id="a-name"),
        pytest.param('"From the" " template."', 'f"{1}"', "system_message", id="an-f-string"),
        pytest.param('"From the" " template."', "b''", "system_message", id="bytes"),
    ],
)
def test_another_layout_than_the_judges_is_refused(tiny, old, new, field):
    assert old in OURS
    tiny.says("conversation.py", OURS.replace(old, new).encode())
    assert f"`{field}`" in complaint(tiny)


def test_a_template_that_is_there_twice_is_refused(tiny):
    tiny.says("conversation.py", OURS.replace('"other"', '"phi3-chat"').encode())
    assert "defines the template `phi3-chat` 2 times" in complaint(tiny)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"Conversation(", id="unfinished"),
        pytest.param(b"\xff\xfe", id="not-utf-8"),
        pytest.param(b"x = '\0'", id="zero-byte"),
        pytest.param(b"(" * 5000, id="deep"),
        pytest.param(b"-" * 60_000 + b"1", id="deeper"),
    ],
)
def test_a_file_that_is_no_python_is_refused(tiny, content):
    tiny.says("conversation.py", content)
    assert "conversation.py` cannot be parsed" in complaint(tiny)


def test_a_strangers_escapes_are_not_warned_of(tiny):
    tiny.says("conversation.py", b"PATTERN = '\\d'\n" + OURS.encode())
    assert message(tiny) == "From the template."
