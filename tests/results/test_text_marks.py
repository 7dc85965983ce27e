"""Tags and repeated texts in the answers of a run are counted and named."""

import pytest

from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.segment import Segment
from mmie_tasks.record.text_facts import TextFacts
from mmie_tasks.results.marks import text_marks

REFUSAL = "I'm sorry, I can't assist with that."


def samples(*facts: TextFacts, others: int = 0, gold: str = "", reason: str = "") -> list:
    verdict = Unscored(reason) if reason else Scored(1.0)
    return [
        LoggedSample(
            id=str(number),
            official=verdict,
            robust=verdict,
            groups={},
            gold=(Segment(text=gold),),
            text=text,
        )
        for number, text in enumerate([*facts, *[TextFacts()] * others])
    ]


def same(text: str, count: int = 3) -> list[TextFacts]:
    return [TextFacts(short_text=text)] * count


@pytest.mark.parametrize(
    ("facts", "mark"),
    [
        pytest.param([TextFacts(tag="[FOO]")] * 58, "58 answers with a tag: `[FOO]`", id="a tag"),
        pytest.param([TextFacts(tag="[A]")], "1 answer with a tag: `[A]`", id="once"),
        pytest.param(
            [*[TextFacts(tag="[FOO]")] * 2, TextFacts(tag="<b>")],
            "3 answers with a tag: `[FOO]` (2), `<b>` (1)",
            id="two tags",
        ),
        pytest.param(
            [TextFacts(tag=f"<|{letter}|>") for letter in "abcd"],
            "4 answers with a tag: `<|a|>` (1), `<|b|>` (1), `<|c|>` (1) and 1 more",
            id="many tags",
        ),
        pytest.param(same(REFUSAL), f"3 answers are the same: `{REFUSAL}`", id="a text"),
        pytest.param(same("Server busy"), "3 answers are the same: `Server busy`", id="two words"),
        pytest.param(same(""), "3 answers are empty", id="empty"),
        pytest.param(
            same("a " * 40), f"3 answers are the same: `{('a ' * 30).strip()}…`", id="a long one"
        ),
    ],
)
def test_what_is_unusual_is_counted(facts: list[TextFacts], mark: str) -> None:
    assert list(text_marks(samples(*facts, others=3))) == [mark]


@pytest.mark.parametrize(
    "usual",
    [
        pytest.param(samples(*same(REFUSAL, 2)), id="twice"),
        pytest.param(samples(*same(REFUSAL), others=700), id="few of many samples"),
        pytest.param(samples(*same("a dog"), others=100), id="few words of many samples"),
        pytest.param(samples(*same("No change was made."), gold="no change was made"), id="gold"),
        pytest.param(samples(*same("B")), id="a label"),
        pytest.param(samples(*same("Yes.")), id="yes"),
        pytest.param(samples(*same("1990")), id="a number"),
        pytest.param(samples(*same("The answer is blue.")), id="an answer"),
        pytest.param(samples(*same(REFUSAL), reason="no_answer"), id="counted as no answer"),
    ],
)
def test_usual_answers_have_no_mark(usual: list[LoggedSample]) -> None:
    assert list(text_marks(usual)) == []


def test_at_most_three_texts_are_quoted() -> None:
    texts = [text for number in range(5) for text in same(f"Please try again later, {number}.")]
    assert len(list(text_marks(samples(*texts)))) == 3
