"""What is unusual about the text of an answer is counted, whatever the benchmark."""

import pytest

from mmie_tasks.answers.text_signs import text_facts


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        pytest.param("[FOO]Hm.[/FOO]B", "[FOO]", id="square"),
        pytest.param("<foo>Hm.</foo>B", "<foo>", id="angles"),
        pytest.param("◁foo▷Hm.◁/foo▷B", "◁foo▷", id="triangles"),
        pytest.param("[Thinking] Hm.\nB", "[Thinking]", id="a heading that may be thinking"),
        pytest.param("[plan]Hm.[/plan]B", "[plan]", id="square and closed"),
        pytest.param("<answer>B</answer>", "<answer>", id="answer"),
        pytest.param("<think>Hm.</think><SUMMARY>B", "<SUMMARY>", id="after thinking"),
    ],
)
def test_a_text_that_begins_with_a_tag(text: str, tag: str) -> None:
    assert text_facts(text).tag == tag


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("<div>B</div>", id="HTML"),
        pytest.param("<svg viewBox='0 0 1 1'></svg>", id="SVG"),
        pytest.param("<!DOCTYPE html><html></html>", id="a page"),
        pytest.param("<image> B", id="a placeholder"),
        pytest.param("[IMG1] B", id="a placeholder in square brackets"),
        pytest.param("[picture 2] B", id="a mark"),
        pytest.param("[x] B", id="a checkbox"),
        pytest.param("[LINK](http://x.org)", id="a link"),
        pytest.param("[1] B", id="a footnote"),
        pytest.param("[A] red", id="a label"),
        pytest.param("[red, green]", id="a list"),
        pytest.param("x <foo> B", id="not first"),
        pytest.param("< 3 and > 2", id="signs"),
        pytest.param("<think>Hm.</think>B", id="thinking"),
    ],
)
def test_a_text_that_begins_with_no_tag(text: str) -> None:
    assert text_facts(text).tag == ""


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param("B<|im_end|>", ["<|im_end|>"], id="im_end"),
        pytest.param("B</s>", ["</s>"], id="end of sequence"),
        pytest.param("<|begin_of_box|>B<|end_of_box|>", ["<|begin_of_box|>", "<|end_of_box|>"]),
        pytest.param("B<end_of_turn><eos>", ["<end_of_turn>", "<eos>"], id="Gemma"),
        pytest.param("B<turn|>", ["<turn|>"], id="Gemma 4"),
        pytest.param("B<｜end▁of▁sentence｜>", ["<｜end▁of▁sentence｜>"], id="DeepSeek"),
        pytest.param("[INST] B [/INST]", ["[INST]", "[/INST]"], id="Mistral"),
        pytest.param("B<unused7><0x0A>", ["<unused7>", "<0x0A>"], id="unused and bytes"),
        pytest.param("<s>old</s> new", ["<s>"], id="a beginning of sequence"),
        pytest.param("It is <s>old</s> new.", [], id="HTML"),
        pytest.param("<image> <|image_1|> B", [], id="placeholders"),
        pytest.param("The token `<|im_end|>` ends it.", [], id="code"),
        pytest.param("a < b | c > d", [], id="signs"),
    ],
)
def test_special_tokens_that_a_server_left(text: str, tokens: list[str]) -> None:
    assert list(text_facts(text).special_tokens) == tokens


def test_a_short_text_is_kept_in_one_line_without_thinking_and_tokens() -> None:
    assert text_facts("<think>Hm.</think> I  cannot\nhelp.\x1b<|im_end|>").short_text == (
        "I cannot help."
    )
    assert text_facts("").short_text == ""


@pytest.mark.parametrize(
    ("text", "is_expected"),
    [("word " * 50, False), ("x" * 101, False), ("A", True), ("[FOO] A", False)],
    ids=["many words", "long", "expected", "with a tag"],
)
def test_other_texts_are_not_kept(text: str, is_expected: bool) -> None:
    assert text_facts(text, is_expected=is_expected).short_text is None
