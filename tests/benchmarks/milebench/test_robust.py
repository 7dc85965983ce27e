"""The robust readers: the evident meaning of an answer."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.benchmarks.milebench import official
from mmie_tasks.benchmarks.milebench.official import label
from mmie_tasks.benchmarks.milebench.robust import read_choice, read_needle, read_phrase, read_rouge
from mmie_tasks.core.verdict import Scored, Unscored

CITIES = ["Paris", "New York", "York", "Rome"]
COLOURS = ["red", "blue", "green", "not sure"]
SHAPES = ["a red bar", "a green cross", "a blue circle", "an orange square"]
IMAGES = [f"image{k}" for k in range(1, 64)]

LISTED = "A. red\nB. blue\nC. green"
ALL_LISTED = f"{LISTED}\nD. not sure"
# Answers by the label that is read; an empty one if they name no option, or several.
CITY_ANSWERS = {
    "A": ("I think it is Paris",),
    "B": (
        *("b.", "answer: (b)", "B. New York", "new york", "I choose option B, not Rome"),
        "First I thought the answer is A. But the answer is B.",
    ),
    "C": ("It is York.",),
    "D": ("A man stands in Rome",),
    "": ("", "I do not know", "Paris or Rome", "Romeo", "Z"),
}
AFTER_REPEATED_OPTIONS = {
    "A": ("Options:\n- A. red\n- B. blue\n- C. green\n- D. not sure\n\nA",),
    "B": (
        *(f"{ALL_LISTED}\n\nB", f"{LISTED}\n\nblue", f"B\n\n{LISTED}", "A red\nB blue\n\nB"),
        "(A) red (B) blue (C) green (D) not sure. The answer is (B).",
        "a) red b) blue c) green d) not sure\n\nb",
        *("**A**: red\n**B**: blue\n\n**B**", "Option A: red\nOption B: blue\n\nB"),
        *("| A | red |\n| B | blue |\n\nB", '{"A": "red", "B": "blue", "answer": "B"}'),
        "Which one? A, B, C or D?\nB",
    ),
    "": (f"{ALL_LISTED}\n\nB. blue", ALL_LISTED, "A: red, B: blue"),
}
AMONG_OTHER_OPTIONS = {
    "B": (
        "The answer is B. Note that A is a common distractor.",
        "I considered (A), but it is incorrect. Final answer: B.",
        "B. blue\n\nOption A is wrong, as it is dark. Option C, too.",
        "Answer: B\nA, C and D are wrong",
    ),
    "C": ("C, not A or B",),
    "D": ("A, B and C are wrong, so D",),
    "": (
        *("B or C", "A, B, C or D.", "(B) or (C)", "A/B", "Neither A nor B", "B, C is wrong"),
        *("The answer is either A. red or B. blue.", "A. red, because B. blue is wrong"),
    ),
}
SHAPE_ANSWERS = {  # a word is not a label; "A:" is "Answer:" where another option follows
    "A": (
        *("B and C are both shapes, so A", "A: a red bar", "A: a red bar, not a blue circle"),
        "A: it is long",
    ),
    "B": (
        *("A green cross", "Answer: A green cross", "The answer is B. Option A is wrong."),
        *("B. Option A is wrong.", "A: B"),
    ),
    "C": ("A and B are both shapes, so C", "A: C. a blue circle", "A: a blue circle"),
    "": (
        *("A bar is shown", "A 3D model", "A man stands there. I see A man.", "N/A", "U.S.A."),
        "A: B or C",
    ),
}
ANSWERS = [
    pytest.param(options, answer, name, id=repr(answer))
    for options, table in (
        (CITIES, CITY_ANSWERS),
        (COLOURS, AFTER_REPEATED_OPTIONS),
        (COLOURS, AMONG_OTHER_OPTIONS),
        (SHAPES, SHAPE_ANSWERS),
    )
    for name, answers in table.items()
    for answer in answers
]


@pytest.mark.parametrize(("options", "answer", "reading"), ANSWERS)
def test_a_choice_is_read_by_its_evident_meaning(options, answer, reading):
    assert read_choice(options[1], answer, options) == Scored(float(reading == "B"), reading)


def read(answer):
    return read_choice(SHAPES[0], answer, SHAPES).reading


@pytest.mark.parametrize(
    "form",
    [
        *("{}", "{}.", "({})", "{})", "{}, because it fits", "{}. A thing is shown", "{}\nit fits"),
        *("{} is the best choice", "I think {} is right", "{}\n\nExplanation: it fits.", "It's {}"),
        *("Answer: {}", "Answer:\n\n{}", "**Answer:** {}", "Answer: {} because it fits"),
        *("The answer is {} because it fits", "### Final Answer\n{}", 'The answer is "{}".'),
        *("Option {} fits", "The answer is option {}.", "My choice: {}", "ASSISTANT: {}"),
        *("-> {}", "→ {}", "<answer>\n{}\n</answer>", "<answer>{} fits</answer>", "<b>{}</b>"),
        *("{}<|im_end|>", "<|begin_of_box|>{}<|end_of_box|>", '["{}"]', '{{"choice":"{}"}}'),
        *('```json\n{{"answer": "{}"}}\n```', '{{"answer": "{}", "reason": "A is a word here"}}'),
        *("$\\boxed{{\\text{{{}}}}}$", "\\mathbf{{{}}}", "\\({}\\)", "**{}.** it fits", "`{}`"),
        *("I choose **{}** as it fits", "_{}_", "“{}”", "【{}】", "答案：{}", "选{}", "{}是正确的"),
        *("정답은 {}입니다", "答えは{}です", "Réponse : {}", "La respuesta es {}.", "I see, {}"),
        *("The images show bars.\n\n{}", "A thing fits, so {}.", "A: {}", "A: ({})"),
        *("A: The answer is {}", "Q: Which?\nA: {}"),
    ],
)
def test_every_form_reads_all_labels_alike(form):
    for shift in (0, 0xFEE0):  # the second are full-width letters
        answers = [form.format(chr(ord(name) + shift)) for name in "ABCD"]
        assert [read(answer) for answer in answers] == [*"ABCD"]


other_text = st.text("xyz .,:;!?<>/|()[]{}\"'*`#$-=→\n答は", max_size=12)


def is_a_word_next(text):
    return re.match(r"[^\S\n](?:[^\S\n]|[*`#])*[xyz]", text)


@given(other_text, other_text.filter(lambda text: not is_a_word_next(text)))
def test_all_labels_are_read_alike_in_any_other_text(before, after):
    assert len({read(f"{before}{name}{after}") == name for name in "ABCD"}) == 1


@pytest.mark.parametrize("answered", ["{}", "The answer is {}.", "I see nothing."])
@pytest.mark.parametrize(
    "question",
    [
        "Question: Which?\nAnswer: {}",
        "Q: Which?\nA: {}",
        "User: a red bar?\nAssistant: {}",
        "Q2: {}",
    ],
)
def test_another_question_is_not_read(answered, question):
    for name, other in product("ABCD", repeat=2):
        expected = name if "{}" in answered else ""
        assert read(f"{answered.format(name)}\n\n{question.format(other)}") == expected


def test_an_answer_after_its_repeated_question_is_read():
    listed = "".join(f"\n{label(i)}. {shape}" for i, shape in enumerate(SHAPES))
    prompt = f"Choose one.\nQuestion: Which shape?\nChoice list: {listed}\nYour answer is: "
    assert [read(prompt + name) for name in "ABCD"] == [*"ABCD"]


@pytest.mark.parametrize("style", ["{text}", "{text}.", "It is {text}", "{name}", "Answer: {name}"])
def test_options_beyond_the_alphabet_can_be_right(style):
    for index in (0, 9, 26, 62):
        answer = style.format(text=IMAGES[index], name=label(index))
        assert read_choice(IMAGES[index], answer, IMAGES).points == 1


LISTS = ["A", "B", "both A and B"]
PRICES = ["€5", "$5", "¥5"]


@pytest.mark.parametrize(
    ("gold", "answer", "options", "points"),
    [
        pytest.param("both A and B", "**both A and B**", LISTS, 1, id="an-option-like-a-list"),
        pytest.param("both A and B", "It is both A and B.", LISTS, 1, id="after-words"),
        pytest.param("image12", "Image 12", IMAGES, 1, id="a-number-is-a-whole"),
        pytest.param("image12", "It is like image12.", IMAGES, 1, id="a-number-after-words"),
        pytest.param("$5", "The answer is $5.", PRICES, 1, id="a-currency"),
        pytest.param("€5", "The answer is $5.", PRICES, 0, id="another-currency"),
        pytest.param("x", "something else", ["", "x"], 0, id="an-empty-option"),
        pytest.param("x", "C", ["x", "y", "x"], 1, id="the-second-copy-of-the-gold"),
        pytest.param("Dr. W . J. D", "A", ["Dr. W. J. D", "Dr. X"], 1, id="another-spelling"),
    ],
)
def test_unusual_options_can_be_chosen(gold, answer, options, points):
    assert read_choice(gold, answer, options).points == points


def test_options_that_overlap_in_the_answer_are_no_choice():
    for other in range(10, 30):  # the order of a set differs
        options = [f"40, {other}, 40", f"{other}, 40, {other}"]
        assert read_choice(options[0], f"40, {other}, 40, {other}", options).reading == ""


def test_a_gold_that_is_no_option_is_unscored():
    assert read_choice("x", "A", ["y"]) == Unscored("bad_gold", "the gold is not among the options")


DOOR = "a man and a half-open door"


@pytest.mark.parametrize(
    ("read", "gold", "answer", "points"),
    [
        *(
            (read_needle, "7984462", answer, 1)
            for answer in ("7984462", "**7984462**", "7984462.0")
        ),
        *((read_needle, "7984462", answer, 1) for answer in ("$7,984,462$", "“7984462”。")),
        (read_needle, "7984462", "number:7984462", 1),
        *((read_needle, "7984462", answer, 0) for answer in ("17984462", "79844620", "798446", "")),
        (read_phrase, "no", "I know", 0),
        (read_phrase, "no", "No.", 1),
        (read_phrase, "3–1", "it ended 3-1", 1),
        (read_phrase, "0", "10", 0),
        (read_phrase, "New York", "in new   york city", 1),
        (read_phrase, "edi", "medieval", 0),
        (read_phrase, "?", "why?", 1),
        (read_rouge, "a b", "...", 0),
        # one comma does not matter: 6 of 6 and 6 of 8 unique words
        (read_rouge, DOOR, DOOR.replace(" and", ", 1,000 steps and"), 2 * 0.75 / 1.75),
    ],
)
def test_a_text_is_found_by_whole_words(read, gold, answer, points):
    assert read(gold, answer).points == pytest.approx(points)


def test_an_empty_gold_scores_nothing():
    for read_text in (read_phrase, read_needle, read_rouge):
        assert isinstance(read_text(" ", "anything"), Unscored)


@given(st.text(max_size=80), st.lists(st.text(max_size=12), min_size=1, max_size=8), st.data())
def test_any_text_gets_a_verdict_on_the_scale(answer, options, data):
    gold = data.draw(st.sampled_from(options))
    readers = (read_rouge, read_needle, read_phrase)
    scorers = (official.score_rouge, official.score_needle, official.score_substring)
    verdicts = [read(gold, answer) for read in (*readers, *scorers)]
    verdicts += [read(gold, answer, options) for read in (read_choice, official.score_choice)]
    assert all(isinstance(v, Unscored) or 0 <= v.points <= 1 for v in verdicts)


@given(st.permutations(CITIES), st.sampled_from(CITIES))
def test_the_order_of_options_does_not_matter_for_their_texts(options, gold):
    for answer in (gold, f"It is {gold}.", f"**{gold}**"):
        assert read_choice(gold, answer, options).points == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("piece", "times"),
    [
        *(("the answer is ", 14_000), ("option ", 30_000), ("A ", 100_000), ("(", 200_000)),
        *(("A, image2, B and ", 12_000), ("A. image1\n", 20_000), ("A" + ", " * 100_000, 1)),
        *(("answer" + "\n" * 200_000 + "?", 1), ("word ", 40_000), (".", 200_000)),
        ("(.*)+$^|[", 20_000),
    ],
)
def test_a_long_answer_is_read(piece, times):
    answer = piece * times
    for choice, needle, rouge in (
        (read_choice, read_needle, read_rouge),
        (official.score_choice, official.score_needle, official.score_rouge),
    ):
        assert isinstance(choice("image9", answer, IMAGES), Scored)
        assert isinstance(needle("7984462", answer), Scored)
        assert isinstance(rouge("the red mug is on the table", answer), (Scored, Unscored))
