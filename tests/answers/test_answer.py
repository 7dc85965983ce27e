"""What a model may return, and what becomes of it: the forms of ``answers/README.md``."""

import json
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.answers.answer import read_answer
from mmie_tasks.answers.drawn import (
    DrawingFacts,
    read_drawn_answer,
    write_answer,
    write_drawn_answer,
    write_undrawn_answer,
)
from mmie_tasks.answers.failures import failure_of, no_answer
from mmie_tasks.answers.images import ImageResolver
from mmie_tasks.answers.thinking import strip_thinking
from mmie_tasks.benchmarks.text_answer import tag_of
from mmie_tasks.record.segment import Segment

A, B = "/o/a.png", "/o/b.png"
URI = f"data:image/png;base64,{'A' * 80}"
FACTS = DrawingFacts(signature="step-1,images,model=flux", failed={"refused": 1})
VOKENS = "".join(f"[IMG{i}]" for i in range(8))


def pieces(*results):
    """Texts, and images after an ``@``."""
    segments = read_answer(results).segments
    return [p for s in segments for p in (s.text, s.image and f"@{s.image}") if p]


def with_images(text, *images):
    return json.dumps({"text": text, "images": images})


def parts(*records):
    return json.dumps(records)


AN_IMAGE = ["A", f"@{A}"]
DRAWN = (Segment("A"), Segment(image=A, prompt="fox"))
TEXT = {"type": "text", "text": "A"}
FORMS = {
    "text": ("A fox.", ["A fox."]),
    "MMIE's own": (
        parts({"text": "A", "image": A}, {"text": "B", "image": None}),
        [*AN_IMAGE, "B"],
    ),
    "one part": (json.dumps({"text": "A", "image": A}), AN_IMAGE),
    "images among texts": (parts({"text": "A"}, {"image": A}), AN_IMAGE),
    "no parts": ("[]", []),
    "a chat message": (json.dumps({"role": "assistant", "content": f"A ![]({A})"}), AN_IMAGE),
    "ours": (write_answer(["A", Path(A)]), AN_IMAGE),
    "OpenAI's": (parts(TEXT, {"type": "image_url", "image_url": {"url": URI}}), ["A", f"@{URI}"]),
    "transformers'": (parts(TEXT, {"type": "image", "image": A}), AN_IMAGE),
    "transformers' URL": (parts(TEXT, {"type": "image", "url": A}), AN_IMAGE),
    "drawn": (write_drawn_answer(DRAWN, FACTS), AN_IMAGE),
    "the writer's own": (write_undrawn_answer("42", FACTS), ["42"]),
    "next image": (with_images("1 <image> 2 <image>", A, B), ["1", f"@{A}", "2", f"@{B}"]),
    "numbers from 1": (with_images("1 <image_2> 2 <image_1>", A, B), ["1", f"@{B}", "2", f"@{A}"]),
    "numbers from 0": (with_images("1 [IMG1] 2 [IMG0]", A, B), ["1", f"@{B}", "2", f"@{A}"]),
    "side by side": (with_images("1 <image_1> <image_2>", A, B), ["1", f"@{A}", f"@{B}"]),
    "MiniGPT-5, GILL": (with_images(f"1 {VOKENS} 2 {VOKENS}", A, B), ["1", f"@{A}", "2", f"@{B}"]),
    "MiniGPT-5 prints": (with_images("1 [IMG0] 2 [IMG0]", A, B), ["1", f"@{A}", "2", f"@{B}"]),
    "SEED-LLaMA": (with_images("1 <img><img_00012><img_07000></img> 2", A), ["1", f"@{A}", "2"]),
    "the first not drawn": (with_images("1 <image> 2 <image>", "", B), ["1", "2", f"@{B}"]),
    "images alone": (with_images(None, A), [f"@{A}"]),
    "no image": ('{"text": "A", "image": null}', ["A"]),
    "no images": ('{"text": "A", "images": null}', ["A"]),
    "markdown": (f"see ![fig]({A}), {URI} end", ["see", f"@{A}", ",", f"@{URI}", "end"]),
    "markdown in code": (f"`![fig]({A})`", [f"`![fig]({A})`"]),
    "thinking in a part": (with_images("Hm.</think>1 <image>", A), ["1", f"@{A}"]),
    "thinking before JSON": (f"<think>{{</think>{with_images('1', A)}", ["1", f"@{A}"]),
    "other JSON": ('{"choice": 1}', ['{"choice": 1}']),
    "an unknown part": (parts({"text": "A", "image": 1}), ['[{"text": "A", "image": 1}]']),
    "Python's repr": (f"{{'images': ['{A}']}}", [f"{{'images': ['{A}']}}"]),
}


@pytest.mark.parametrize(("answer", "expected"), FORMS.values(), ids=FORMS)
def test_an_answer_is_read_in_its_form(answer, expected):
    assert pieces(answer) == expected


def test_rounds_are_read_one_by_one_and_failed_ones_are_counted():
    assert pieces(["A", f"![]({A})"]) == ["A", f"@{A}"]
    answer = read_answer(["A", "[ERROR] x"])
    assert (answer.shape, answer.text) == ("rounds", "A")
    assert sum(answer.unread.values()) == 1


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        (with_images("1 <image> 2 <image>", A), {"unfilled": 1}),
        (with_images("1 <image> 2 <image>", "", B), {"unfilled": 1, "unplaced": 0}),
        ("1 <image> 2 [IMG0][IMG1] 3", {"unfilled": 2}),
        (with_images("1", A), {"unplaced": 1}),
        (parts({"text": "A", "image": A, "caption": "fox", "step": 1}), {"unread": {"caption": 1}}),
        (parts(TEXT, {"type": "audio"}), {"unread": {"audio": 1}}),
        ('{"choice": "A"}', {"looks_unread": True}),
        (A, {"looks_unread": True}),
        (f"I drew it: {A}", {"looks_unread": True}),
        (parts({"type": "image", "path": A, "caption": "fox"}), {"unread": {"caption": 1}}),
        ('See <img src="a.png">', {"looks_unread": True}),
        ("A fox.", {"looks_unread": False, "thinking": False, "unfilled": 0}),
        ("[1, 2, 3]", {"looks_unread": False}),
        (with_images("<think>x</think>1", A), {"thinking": True, "unplaced": 1}),
        (parts({"type": "reasoning"}, TEXT), {"thinking": True}),
    ],
)
def test_what_is_not_read_is_counted(answer, counts):
    read = read_answer([answer])
    assert {name: getattr(read, name) for name in counts} == counts


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(parts({"type": "image", "source": {"data": "iVBORw0KGgo"}}), id="Anthropic"),
        pytest.param(parts({"type": "image_url", "image_url": A}), id="a URL alone"),
        pytest.param(parts({"type": "text", "text": "A", "image": A}), id="in a part of a text"),
        pytest.param(parts({"text": "A", "image": None, "images": [A]}), id="further key"),
        pytest.param(json.dumps({"content": [{"text": "A"}], "images": [A]}), id="beside parts"),
        pytest.param(json.dumps({"text": "A", "images": [], "image": A}), id="beside the images"),
    ],
)
def test_an_image_in_another_form_is_one_that_does_not_exist(answer):
    (image,) = read_answer([answer]).images
    assert ImageResolver([], Path()).locate(image).problem == "missing"


THINKING = {
    "pair": "<think>H</think>\nB",
    "capitals": "<THINK>H</THINK>B",
    "thinking": "<thinking>H</thinking>B",
    "Magistral": "[THINK]H[/THINK]B",
    "Seed": "<seed:think>H</seed:think>B",
    "Kimi": "◁think▷H◁/think▷B",
    "Gemma 4": "<|channel>thought\nH<channel|>B",
    "gpt-oss": "<|channel|>analysis<|message|>H<|end|><|channel|>final<|message|>B<|return|>",
    "Cohere": "<|START_THINKING|>H<|END_THINKING|>B",
    "begin of thought": "<|begin_of_thought|>H<|end_of_thought|>B",
    "nested": "<think>H<think>H</think>H</think>B",
    "cut off": "B<think>H",
}


@pytest.mark.parametrize("text", THINKING.values(), ids=THINKING)
def test_thinking_is_removed(text):
    assert strip_thinking(text) == "B"


@pytest.mark.parametrize("text", [" B. ", "I think so.", "[Reasoning] Red. [Answer] A", "<b>B</b>"])
def test_other_words_stay_as_they_are(text):
    assert strip_thinking(text) == text


FAILURES = (
    *("[LMMS_EVAL_REQUEST_FAILED after 3 retries] x", "[ERROR] x", "[SAFETY_BLOCKED:x]"),
    *("Failed to obtain answer via API.", "litellm.RateLimitError: RateLimitError: x"),
    *("Error code: 429 - {'error': {}}", "CUDA out of memory. Tried to allocate 2.00 GiB"),
    *("Error: Error code: 400 - {}", "Output data may contain inappropriate content."),
    *("429 RESOURCE_EXHAUSTED. {'error'", "openai.BadRequestError: x", "Request timed out."),
    "Traceback (most recent call last):\n  File",
    *("nan", " None\n", 'Error: can only concatenate str (not "NoneType") to str'),
)


@pytest.mark.parametrize("text", FAILURES)
def test_a_failure_is_not_an_answer(text):
    assert failure_of(text)
    assert read_answer([write_undrawn_answer(text, FACTS)]).failure
    assert read_answer([with_images(text)]).failure
    assert not read_answer([f"The log says: {text}"]).failure


def test_no_answer_is_a_failure_and_a_reason_of_ours_comes_back():
    assert all(read_answer(results).failure for results in ([None], []))
    assert read_answer([no_answer("no saved answer")]).failure == "no saved answer"


KEYS = st.sampled_from(["text", "images", "image", "type", "content", "path"])
JSON = st.recursive(
    st.none() | st.text() | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
)


@given(JSON)
def test_no_answer_raises_and_every_text_can_be_written(value):
    for answer in (value, json.dumps(value), str(value)):
        read = read_answer([answer])
        for segment in read.segments:
            f"{segment.text}{segment.image}".encode()
        tag_of(read.text)


HOSTILE = {
    "tags": "<think>" * 60_000,
    "closing tags": "</think>" * 60_000,
    "angles": "<" * 300_000,
    "names": "<a:" * 100_000,
    "placeholders": "[IMG0]" * 60_000,
    "images": "![" * 150_000,
    "brackets": "{[" * 100_000,
    "fences": "```" * 100_000,
    "data": f"data:image/png;base64,{'A' * 2_000_000}",
    "bars": "<|" * 150_000,
    "blanks": " " * 300_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_makes_reading_slow(text):
    """A quadratic search would take hours; a linear one takes tenths of a second."""
    start = process_time()
    assert read_answer([text]).looks_unread in (True, False)
    failure_of(text)
    tag_of(text)
    assert process_time() - start < 20


def test_a_drawn_answer_is_read_as_it_was_written():
    read = read_drawn_answer(write_drawn_answer(DRAWN, FACTS))
    assert read.answer == DRAWN
    assert (read.facts.drawn, read.facts.failed) == (1, {"refused": 1})


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("<plan> It is red.", "<plan>"),
        ("[PLAN] It is red.", "[PLAN]"),
        ("It is red.<|im_end|>", "<|im_end|>"),
        ("<image> It is red. [IMG0] <|image_1|>", ""),
        ("A < b > c", ""),
        ("[Reasoning] It is red.", ""),
    ],
)
def test_a_tag_that_is_not_read_is_named(text, tag):
    assert tag_of(text) == tag
