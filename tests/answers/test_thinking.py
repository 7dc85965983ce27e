"""One rule says what a model thought, whatever model and server wrote it."""

import time

import pytest

from mmie_tasks.answers.thinking import StrippedText, strip_thinking, without_thinking

TAGS = [  # as the parsers of vLLM and SGLang, Open WebUI and lmms-eval know them
    ("<think>", "</think>"),
    ("<THINKING>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<Thoughts>", "</Thoughts>"),
    ("<analysis>", "</analysis>"),
    ("<reasoning>", "</reasoning>"),
    ("<reason>", "</reason>"),
    ("<reflection>", "</reflection>"),
    ("<scratchpad>", "</scratchpad>"),
    ('<think effort="low">', "</think>"),
    ("[THINK]", "[/THINK]"),
    ("[think]", "[/think]"),
    ("◁think▷", "◁/think▷"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<think:opensource>", "</think:opensource>"),
    ("<longcat_think>", "</longcat_think>"),
    ("<ifm|think_faster>", "</ifm|think_faster>"),
    ("<|think|>", "<|/think|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|think:start|>", "<|think:end|>"),
    ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("[unused16]", "[unused17]"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|im_start|>think\n", "<|im_start|>answer\n"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|><|open|>response<|sep|>"),
    ("<|content_thinking|>", "<|end_message|><|message_model|><|content_text|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    (" to=self<|message|>", "<|eom|><|start|>assistant to=user<|message|>"),
    ("analysis", "assistantfinal"),
]
THOUGHTS = "Let me compare. Option A first, then (A) or B?\n"


@pytest.mark.parametrize(("opening", "closing"), TAGS, ids=lambda tag: tag.strip())
def test_thinking_is_closed_or_cut_or_has_only_its_end(opening, closing) -> None:
    answers = [
        f"{opening}{THOUGHTS}{closing}B. red",
        f"{opening}{THOUGHTS}",
        f"{THOUGHTS}{closing}B. red",
        f"{opening}{closing}B. red",
    ]
    stripped = [strip_thinking(answer) for answer in answers]
    assert [answer.text for answer in stripped] == ["B. red", "", "B. red", "B. red"]
    assert all(answer.removed for answer in stripped)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param("[reasoning]a[/reasoning]b", "b", id="a pair in square brackets"),
        pytest.param("a [analysis]b[/analysis] c", "a  c", id="such a pair in the middle"),
        pytest.param("<think>a<reflection>b</reflection>c</think>d", "d", id="nested"),
        pytest.param("<think>a</think><reason>b</reason>c", "c", id="one after the other"),
        pytest.param(
            "Here is my thought process:\na\nHere is my response:\nb", "b", id="Granite's sentences"
        ),
        pytest.param(
            "<|channel|>commentary to=x<|message|>a<|call|><|channel|>final<|message|>b<|return|>",
            "b",
            id="a call of a tool",
        ),
    ],
)
def test_thinking_may_have_other_forms(text, left) -> None:
    assert strip_thinking(text).text.strip() == left


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("The word [analysis] is here.", id="a word in brackets"),
        pytest.param("[Reasoning] A cat. [Answer] Cat.", id="headings"),
        pytest.param("I think [think] so.", id="not at the beginning"),
        pytest.param("See [reasoning](http://x.org) and [analysis][1].", id="links"),
        pytest.param(
            "<answer>B</answer><reason>It is red.</reason>", id="an element of the answer"
        ),
        pytest.param("B\n<scratchpad>x</scratchpad>\n", id="another"),
        pytest.param("a < thinking > b <rethink>c</rethink>", id="other words"),
        pytest.param("`[THINK]` ends with `[/THINK]`.", id="in code"),
        pytest.param(
            'It begins with "[THINK]" or "<|begin_of_thought|>".', id="in quotation marks"
        ),
        pytest.param("Here is my thought process: it is red.", id="a sentence"),
        pytest.param("analysis of the picture", id="a word"),
        pytest.param("<div>thinking</div>", id="HTML"),
    ],
)
def test_no_answer_is_lost(text) -> None:
    assert strip_thinking(text) == StrippedText(text=text)


def test_texts_in_lists_lose_their_thinking_and_other_values_stay() -> None:
    assert without_thinking(["<think>a</think> b ", " c", 3]) == ["b", "c", 3]
    assert without_thinking({"text": "<think>a"}) == {"text": "<think>a"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("<a_" * 100_000, id="names"),
        pytest.param("[think]" * 50_000, id="square brackets"),
        pytest.param("`a`" * 50_000 + "</think>", id="code"),
        pytest.param("<|channel|>a" * 50_000 + "<|message|>", id="channels"),
        pytest.param(" " * 300_000 + "<|message|>", id="white space"),
    ],
)
def test_a_long_text_takes_no_second(text) -> None:
    started = time.process_time()
    strip_thinking(text)
    assert time.process_time() - started < 10
