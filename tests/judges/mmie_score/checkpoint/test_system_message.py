"""The default system message: its two sources, their order, and invalid files."""

import pytest
from support.tiny_checkpoint import REMOVED, TinyCheckpoint

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import CheckpointLocation, open_checkpoint

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
    checkpoint = TinyCheckpoint.copied_to(tmp_path / "checkpoint")
    checkpoint.set_field("system_message", REMOVED)
    return checkpoint


def message_of(tiny):
    located = CheckpointLocation(folder=tiny.folder, name="local folder")
    return open_checkpoint(located).system_message


def error_of(tiny):
    with pytest.raises(JudgeMisconfigured) as caught:
        message_of(tiny)
    return str(caught.value)


@pytest.mark.parametrize("message", ["", "From the key.", "<|end|>\n{braces}", "naïve 中"])
def test_the_key_in_the_config_comes_first(tiny, message):
    tiny.set_field("system_message", message)
    tiny.write("conversation.py", b"this is no Python")
    assert message_of(tiny) == message


def test_the_template_is_parsed_and_not_run(tiny):
    tiny.write("conversation.py", OURS.encode())
    assert message_of(tiny) == "From the template."


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        pytest.param('sep="<|end|>"', 'sep="<|im_end|>"', "sep", id="separator"),
        pytest.param("SeparatorStyle.MPT", "SeparatorStyle.PLAIN", "sep_style", id="style"),
        pytest.param("<|system|>\\n{", "<|system|>{", "system_template", id="system"),
        pytest.param('"From the" " template."', "MESSAGE", "system_message", id="a-name"),
    ],
)
def test_another_layout_than_the_judges_is_refused(tiny, old, new, field):
    assert old in OURS
    tiny.write("conversation.py", OURS.replace(old, new).encode())
    assert f"`{field}`" in error_of(tiny)
