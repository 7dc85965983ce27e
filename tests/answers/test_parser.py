"""Any answer of a tested model is parsed into ordered segments, without its thinking."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.answer_shapes import SHAPES, A, counted, parsed

from mmie_tasks.answers.failures import MISSING, failure_of
from mmie_tasks.answers.parser import parse_answer
from mmie_tasks.answers.saved import as_answer
from mmie_tasks.answers.thinking import StrippedText, strip_thinking
from mmie_tasks.record.segment import Segment


def flat(parsed):
    """Texts as they are, images after an ``@``; a pair gives both."""
    pieces = [(s.text, s.image and f"@{s.image}") for s in parsed.segments]
    return [piece for pair in pieces for piece in pair if piece is not None]


@pytest.mark.parametrize("shape", [pytest.param(one, id=str(one.answer)[:50]) for one in SHAPES])
def test_every_shape_is_parsed_and_what_is_not_read_is_counted(shape) -> None:
    answer = parsed(shape)
    assert (answer.shape, answer.failure or flat(answer)) == (shape.name, shape.pieces)
    assert counted(answer) == shape.counted


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("  Step 1.\n\n\n  Step 2. \n", id="blank lines"),
        pytest.param(r"a\nb \frac{1}{2} \u00e9 &amp; %20", id="escapes"),
        pytest.param('{"choice": 1}', id="other object"),
        pytest.param("[1, 2, 3]", id="numbers"),
        pytest.param("{}", id="empty object"),
        pytest.param('["cat", "dog"]', id="list of words"),
        pytest.param('{"output": ["a", "b"]}', id="output of words"),
        pytest.param('{"text": "a", "image": 3}', id="image is a number"),
        pytest.param('[{"text": "a"}, 5]', id="part and number"),
        pytest.param('{"text": "cut off", "images": ["/o/a', id="cut off JSON"),
        pytest.param("```python\nprint('![x](a.png)')\n```", id="code"),
        pytest.param("![x](https://example.org/page)", id="link without an ending"),
        pytest.param("a.png", id="a name that may be the answer"),
        pytest.param("[" + "-" * 50_000 + "1]", id="many signs"),
        pytest.param("[" * 100_000 + "]" * 100_000, id="deeply nested"),
        pytest.param("{'text': " * 50_000, id="deeply nested objects"),
        pytest.param("1" * 5_000, id="a long number"),
        pytest.param("['a'" + " 'a'" * 30_000 + "]", id="many strings"),
        pytest.param("a\0b", id="NUL"),
    ],
)
def test_any_other_text_stays_as_it_is(text) -> None:
    parsed = parse_answer([text])
    assert (parsed.segments, parsed.shape) == ((Segment(text=text),), "text")


@pytest.mark.parametrize("text", ["", " A \n"])
def test_a_pair_stays_one_segment_and_its_text_as_it_is(text) -> None:
    (segment,) = parse_answer([json.dumps([{"text": text, "image": A}])]).segments
    assert segment == Segment(text=text, image=A)


@pytest.mark.parametrize(
    ("results", "failure"),
    [
        pytest.param([MISSING], "no saved answer", id="missing"),
        pytest.param(["[GENERATION_FAILED] boom"], "generation failed", id="generation"),
        pytest.param(
            ["[LMMS_EVAL_REQUEST_FAILED after 5 retries] 503"],
            "the request to the tested model failed",
            id="request",
        ),
        pytest.param(["fine", "[ERROR] x"], "the tested model reported an error", id="a round"),
        pytest.param(
            ['{"text": "[ERROR] x", "images": []}'], "the tested model reported an error", id="json"
        ),
        pytest.param([], "no result", id="no result"),
        pytest.param([None], "null", id="null"),
        pytest.param([3], "not text", id="number"),
        pytest.param(["out/1.mp4"], "a video in the place of an answer", id="video"),
    ],
)
def test_a_failure_has_a_reason_and_no_segments(results, failure) -> None:
    parsed = parse_answer(results)
    assert (parsed.segments, parsed.failure) == ((), failure)


def test_an_answer_that_quotes_a_failure_is_an_answer() -> None:
    assert failure_of(f"It says {MISSING} and [ERROR]") is None


@pytest.mark.parametrize(
    ("results", "shape", "texts"),
    [
        pytest.param([""], "empty", [""], id="empty"),
        pytest.param([" \n "], "empty", [" \n "], id="blank"),
        pytest.param(["", ""], "rounds", [], id="empty rounds"),
        pytest.param(['{"content": []}'], "empty", [], id="no parts"),
        pytest.param(['[{"text": null, "image": null}]'], "empty", [None], id="an empty pair"),
        pytest.param(["<think>a"], "only thinking", [], id="unclosed thinking"),
        pytest.param(['{"text": "<think>a", "images": []}'], "only thinking", [], id="in JSON"),
        pytest.param(['[{"type": "thinking", "thinking": "a"}]'], "only thinking", [], id="a part"),
    ],
)
def test_an_empty_answer_is_an_answer(results, shape, texts) -> None:
    parsed = parse_answer(results)
    assert (parsed.shape, parsed.failure) == (shape, "")
    assert [segment.text for segment in parsed.segments] == texts


@pytest.mark.parametrize(
    "results",
    [
        pytest.param(["one", '{"text": "two", "images": ["/o/a.png"]}'], id="results"),
        pytest.param([["one", '{"text": "two", "images": ["/o/a.png"]}']], id="one list"),
        pytest.param(
            ["<think>x</think>one", "<think>", {"text": "two", "images": [A]}], id="thinking"
        ),
    ],
)
def test_rounds_are_parsed_one_after_the_other(results) -> None:
    parsed = parse_answer(results)
    assert (parsed.shape, flat(parsed)) == ("rounds", ["one", "two", f"@{A}"])


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"text": "t", "images": [A]}, id="object"),
        pytest.param({"content": ("t", {"image": A})}, id="tuple of parts"),
    ],
)
def test_objects_are_parsed_as_their_json_is(value) -> None:
    assert flat(parse_answer([value])) == ["t", f"@{A}"]


def nested(levels, wrap):
    value: object = "a"
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda value: [value], id="lists"),
        pytest.param(lambda value: {"content": [value]}, id="contents"),
        pytest.param(lambda value: {"image": value}, id="images"),
    ],
)
def test_deeply_nested_objects_raise_nothing(wrap) -> None:
    assert not any(
        segment.text or segment.image for segment in parse_answer([nested(100_000, wrap)]).segments
    )
    assert parse_answer([nested(3, lambda value: {"content": [value]})]).segments == (
        Segment(text="a"),
    )


def test_a_folder_is_an_image_reference(tmp_path) -> None:
    assert parse_answer([str(tmp_path)], os.path.isdir).shape == "folder"
    assert flat(parse_answer([f"{tmp_path}/\n"], os.path.isdir)) == [f"@{tmp_path}/"]
    assert parse_answer([f"{tmp_path}/no"], os.path.isdir).shape == "text"
    assert parse_answer([str(tmp_path)]).shape == "text"


def test_lone_surrogates_are_replaced() -> None:
    assert flat(parse_answer(["a\ud800b"])) == ["a�b"]
    answer = '{"content": [{"text": "a\\ud800", "image": "b\\udfff.png"}]}'
    assert flat(parse_answer([answer])) == ["a�", "@b�.png"]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["<think>", "</think>", "<image>", "<image_1>", "a.png", "image", "text"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(
            st.text(max_size=3)
            | st.sampled_from(
                ["text", "image", "images", "content", "output", "type", "role", "url", "b64_json"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


KEYS = [
    *("text", "content", "response", "answer", "caption", "images", "image_paths", "image"),
    *("generated_images", "segments", "messages", "interleaved", "output", "steps", "image_url"),
    *("path", "url", "prompt"),
]
KNOWN = st.recursive(
    st.sampled_from(["words", "image", None, 5]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
        | st.builds(
            lambda part, kind: {**part, **kind},
            st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
            st.sampled_from([{"type": "text"}, {"type": "image"}, {"role": "assistant"}]),
        )
    ),
    max_leaves=25,
)


def numbered(value, contents):
    """The value with each text and image under its own name, which `contents` collects."""
    if isinstance(value, list):
        return [numbered(one, contents) for one in value]
    if isinstance(value, dict):
        return {
            key: one if key in ("type", "role") else numbered(one, contents)
            for key, one in value.items()
        }
    if value not in ("words", "image"):
        return value
    contents.append(f"word{len(contents)}." if value == "words" else f"o/{len(contents)}.png")
    return contents[-1]


@given(KNOWN, st.sampled_from([json.dumps, repr, lambda value: value]))
def test_every_text_and_image_is_in_the_segments_or_counted(value, write) -> None:
    contents: list[str] = []
    answer = parse_answer([write(numbered(value, contents))])
    read = "\n".join(f"{segment.text}\n{segment.image}" for segment in answer.segments)
    lost = sum(content not in read for content in contents)
    assert answer.failure or lost <= sum(answer.unread.values())
    if not any(other in repr(value) for other in ("5", "type", "role")):  # these are counted, too
        assert answer.failure or lost == sum(answer.unread.values())


def check(parsed) -> None:
    assert not (parsed.failure and parsed.segments)
    for segment in parsed.segments:
        assert segment.image is None or segment.image
        (segment.text or "").encode()
        assert segment.image != ""
        (segment.image or "").encode()


@given(JSON, st.sampled_from([lambda value: value, json.dumps, repr, as_answer]), st.integers(0, 3))
def test_any_object_and_its_text_are_parsed_without_an_exception(value, write, cut) -> None:
    written = write(value)
    check(parse_answer([written]))
    if isinstance(written, str):
        check(parse_answer([written[cut:], written[: -cut or None]]))


@given(st.text() | st.text(alphabet="{}[]()'\"\\,:<>!/ \n`ud8think image1.png"))
def test_any_text_is_parsed_without_an_exception(text) -> None:
    check(parse_answer([text]))
    check(parse_answer([f'{{"text": {json.dumps(text)}, "images": ["a.png", "b.png"]}}']))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param("<think>a</think>b", "b", id="in front"),
        pytest.param("a <analysis>b</analysis>c", "a c", id="in the middle"),
        pytest.param("<THINK>a</Think>b", "b", id="case"),
        pytest.param("<think>a<think>b</think>c</think>d", "d", id="nested"),
        pytest.param("<think>a <think> is a tag</think>c", "c", id="named in thinking"),
        pytest.param("<think>a</think>b<think>c</think>d", "bd", id="twice"),
        pytest.param("a</think>b", "b", id="no opening"),
        pytest.param("a</think>b<think>c", "b", id="no opening, then no closing"),
        pytest.param("a <think>b", "a", id="no closing"),
    ],
)
def test_thinking_is_removed_and_the_answer_stays(text, left) -> None:
    stripped = strip_thinking(text)
    assert (stripped.text, stripped.removed) == (left, True)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Use `<think>` tags: TXT1 ...", id="backticks"),
        pytest.param('TXT1: close it by "</think>". TXT2', id="quotation marks"),
        pytest.param("'<think>' and ‘</think>’, “<think>”, «</think>»", id="other quotation marks"),
        pytest.param("Write `<think>why</think>` first.", id="inside code"),
    ],
)
def test_a_tag_that_is_mentioned_is_no_thinking(text) -> None:
    assert strip_thinking(text) == StrippedText(text=text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param(
            "<think>I should write `</think>` hmm</think>answer", "answer", id="closing in thinking"
        ),
        pytest.param(
            '<think>Is it "<think>" or "</think>"?</think>answer', "answer", id="both in thinking"
        ),
        pytest.param(
            '<think>He said "yes"</think>"Yes" it is.',
            '"Yes" it is.',
            id="quotations on both sides",
        ),
        pytest.param('<think>a "</think>" b', '" b', id="the only closing"),
        pytest.param(
            '<think>a "</think>" b <think>c</think> d',
            '" b  d',
            id="the only closing before the next",
        ),
        pytest.param(
            "<think>Hm.</think>`<think>` and `</think>`.",
            "`<think>` and `</think>`.",
            id="after thinking",
        ),
    ],
)
def test_thinking_ends_where_its_own_tag_closes(text, left) -> None:
    stripped = strip_thinking(text)
    assert (stripped.text, stripped.removed) == (left, True)


@given(st.lists(st.sampled_from(["<think>", "</think>", "<analysis>", "</analysis>", "a", " "])))
def test_no_tag_remains(pieces) -> None:
    left = strip_thinking("".join(pieces)).text
    assert "<" not in left


@given(st.text(alphabet="abc <>{}\n"), st.text(alphabet="xyz", min_size=1))
def test_thinking_never_changes_the_answer(thinking, answer) -> None:
    for text in (f"<think>{thinking}</think>{answer}", f"{thinking}</think>{answer}"):
        parsed = parse_answer([text])
        assert [segment.text for segment in parsed.segments] == [answer]
        assert parsed.thinking_removed


@pytest.mark.parametrize(
    ("answer", "pieces"),
    [
        pytest.param('<think>{"a": 1}</think>{"text": "b", "images": []}', ["b"], id="before JSON"),
        pytest.param(
            '{"text": "<think>a <image></think>b <image> c", "images": ["1.png"]}',
            ["b", "1.png", "c"],
            id="places in thinking take no image",
        ),
        pytest.param(
            '{"content": [{"text": "<think>a"}, {"text": "b", "image": "1.png"}, '
            '{"text": "c</think>d"}, {"text": " e "}]}',
            ["1.png", "d", " e "],
            id="over several parts",
        ),
        pytest.param(
            '{"content": [{"text": "<think>a"}, {"image": "1.png"}, {"text": "b"}]}',
            ["1.png", "b"],
            id="unclosed in a part",
        ),
        pytest.param(
            '[{"type": "reasoning", "summary": []}, {"type": "text", "text": "b"}]',
            ["b"],
            id="a part of its own",
        ),
        pytest.param("<think>a</think>![x](o/1.png) b", ["o/1.png", "b"], id="markdown"),
    ],
)
def test_thinking_is_removed_inside_and_around_objects(answer, pieces) -> None:
    parsed = parse_answer([answer])
    segments = [part for s in parsed.segments for part in (s.text, s.image) if part is not None]
    assert (segments, parsed.thinking_removed) == (pieces, True)
