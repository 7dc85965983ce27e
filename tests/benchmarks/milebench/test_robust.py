"""The robust readers: the evident meaning of an answer."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.benchmarks.milebench.official import label
from mmie_tasks.benchmarks.milebench.robust import read_choice, read_needle, read_phrase, read_rouge
from mmie_tasks.core.verdict import Scored, Unscored

CITIES = ["Paris", "New York", "York", "Rome"]
IMAGES = [f"image{k}" for k in range(1, 64)]


# Each answer with the label that is read; empty if it names none, or several.
CITY_ANSWERS = {
    "B": "B",
    "b.": "B",
    "(B)": "B",
    "**B**": "B",
    "$\\boxed{B}$": "B",
    "B. New York": "B",
    "B\nbecause the skyline is there": "B",
    "The answer is B": "B",
    "Answer: B": "B",
    "answer: (b)": "B",
    "First I thought the answer is A. But the answer is B.": "B",
    "I choose option B, not Rome": "B",
    "new york": "B",
    "It is New York.": "B",
    "It is York.": "C",
    "A man stands in Rome": "D",
    "I think it is Paris": "A",
    "": "",
    "I do not know": "",
    "Paris or Rome": "",
    "Romeo": "",
    "Z": "",
}
COLOURS = ["red", "blue", "green", "not sure"]
COLOUR_ANSWERS = {
    # next to repeated options
    "A. red\nB. blue\nC. green\nD. not sure\n\nB": "B",
    "(A) red (B) blue (C) green (D) not sure. The answer is (B).": "B",
    "Options: A. red B. blue C. green D. not sure\nAnswer: B": "B",
    "Options:\n- A. red\n- B. blue\n- C. green\n- D. not sure\n\nA": "A",
    "a) red b) blue c) green d) not sure\n\nb": "B",
    "**A**: red\n**B**: blue\n\n**B**": "B",
    "Option A: red\nOption B: blue\n\nB": "B",
    "| A | red |\n| B | blue |\n\nB": "B",
    '{"A": "red", "B": "blue", "answer": "B"}': "B",
    "A - red\nB - blue\n\nA": "A",
    "A red\nB blue\n\nB": "B",
    "A. red\nB. blue\nC. green\n\nblue": "B",
    "A. red\nB. blue\n\nC": "C",
    "B\n\nA. red\nB. blue\nC. green": "B",
    "A, B and C are wrong, so D": "D",
    "The answer is B. Note that A is a common distractor.": "B",
    "I considered (A), but it is incorrect. Final answer: B.": "B",
    "Which one? A, B, C or D?\nB": "B",
    # next to options that it rules out
    "B. blue\n\nOption A is wrong, as it is dark. Option C, too.": "B",
    "Answer: B\nA, C and D are wrong": "B",
    "C, not A or B": "C",
    # several options
    "B or C": "",
    "A, B, C or D": "",
    "A, B, C or D.": "",
    "(B) or (C)": "",
    "A/B": "",
    "Both B and C": "",
    "Neither A nor B": "",
    "The answer is B or C": "",
    "The answer is either A. red or B. blue.": "",
    "A: red, B: blue": "",
    "B, C is wrong": "",
    "A. red, because B. blue is wrong": "",
    "A. red\nB. blue\nC. green\nD. not sure\n\nB. blue": "",
    "A. red\nB. blue\nC. green\nD. not sure": "",
}
SHAPES = ["a red bar", "a green cross", "a blue circle", "an orange square"]
SHAPE_ANSWERS = {
    # a word is not a label
    "A bar is shown": "",
    "A 3D model": "",
    "A man stands there. I see A man.": "",
    "N/A": "",
    "U.S.A.": "",
    "A green cross": "B",
    "Answer: A green cross": "B",
    "A and B are both shapes, so C": "C",
    "B and C are both shapes, so A": "A",
    "The answer is B. Option A is wrong.": "B",
    "B. Option A is wrong.": "B",
    # "A:" is "Answer:" where another option follows
    "A: B": "B",
    "A: C. a blue circle": "C",
    "A: a blue circle": "C",
    "A: B or C": "",
    "A: a red bar": "A",
    "A: a red bar, not a blue circle": "A",
    "A: it is long": "A",
}
ANSWERS = [
    pytest.param(options, *case, id=repr(case[0]))
    for options, cases in (
        (CITIES, CITY_ANSWERS),
        (COLOURS, COLOUR_ANSWERS),
        (SHAPES, SHAPE_ANSWERS),
    )
    for case in cases.items()
]


@pytest.mark.parametrize(("options", "answer", "reading"), ANSWERS)
def test_a_choice_is_read_by_its_evident_meaning(options, answer, reading):
    assert read_choice(options[1], answer, options) == Scored(float(reading == "B"), reading)


@pytest.mark.parametrize(
    "form",
    [
        *("{}", "{}.", "({})", "[{}]", "{})", "{}!", "{} ", "{}\n", "{}, because it fits"),
        *("{}) it fits", "{}. A thing is shown", "{}: it fits", "{} - it fits", "{}\nit fits"),
        *("{} is the best choice", "I think {} is right", "Based on the image, {} is correct."),
        *("{}\n\nExplanation: it fits.", "{} is correct. I chose it", "It's {}", "I'd go with {}."),
        *("Answer: {}", "Answer:\n\n{}", "Answer {}", "**Answer:** {}", "**Answer**: {}"),
        *("Answer: {} because it fits", "The answer is {} because it fits", "answer is {}"),
        *("Final answer: {}", "### Final Answer\n{}", "The answer is {}.", 'The answer is "{}".'),
        *("Option {}", "Option {} fits", "The best choice is {}", "The answer is option {}."),
        *("My choice: {}", "Choice {}.", "Response: {}", "Prediction: {}", "ASSISTANT: {}"),
        *("assistant\n{}", "So: {}", "Sure! {}", "Therefore, {}", "= {}", "-> {}", "→ {}", "- {}"),
        *(
            "<answer>{}</answer>",
            "<answer>\n{}\n</answer>",
            "<answer>{} fits</answer>",
            "<b>{}</b>",
        ),
        *("{}<|im_end|>", "{}</s>", "{}<|eot_id|>", "<|begin_of_box|>{}<|end_of_box|>"),
        *('{{"answer": "{}"}}', "{{'answer': '{}'}}", '```json\n{{"answer": "{}"}}\n```', '["{}"]'),
        *('{{"answer": "{}", "reason": "A is a word here"}}', '{{"choice":"{}"}}'),
        *(
            "\\boxed{{{}}}",
            "$\\boxed{{\\text{{{}}}}}$",
            "\\text{{{}}}",
            "\\mathbf{{{}}}",
            "\\({}\\)",
        ),
        *(
            "**{}**",
            "**{}.** it fits",
            "I choose **{}** as it fits",
            "`{}`",
            "_{}_",
            "“{}”",
            "「{}」",
        ),
        *(
            "答案：{}",
            "选{}",
            "答案是 {} 因为",
            "{}是正确的",
            "정답은 {}입니다",
            "答えは{}です",
            "Ответ: {}",
        ),
        *("Antwort: {}", "Réponse : {}", "La respuesta es {}.", "Die Antwort ist {}", "【{}】"),
        *("The images show bars.\n\n{}", "A bar is shown. {}", "A thing fits, so {}.", "I see, {}"),
        *(
            "A: {}",
            "A: ({})",
            "A: The answer is {}",
            "Q: Which?\nA: {}",
            "Question: Which?\nAnswer: {}",
        ),
    ],
)
def test_every_form_reads_all_labels_alike(form):
    answers = {name: form.format(name) for name in "ABCD"}
    full_width = {name: form.format(chr(ord(name) + 0xFEE0)) for name in "ABCD"}
    for read in (answers, full_width):
        assert {name: read_choice(SHAPES[0], read[name], SHAPES).reading for name in read} == {
            name: name for name in "ABCD"
        }


other_text = st.text("xyz .,:;!?<>/|()[]{}\"'*`#$-=→\n答は", max_size=12)


def is_a_word_next(text):
    return re.match(r"[^\S\n](?:[^\S\n]|[*`#])*[xyz]", text)


@given(other_text, other_text.filter(lambda text: not is_a_word_next(text)))
def test_all_labels_are_read_alike_in_any_other_text(before, after):
    def reading(name):
        return read_choice(SHAPES[0], f"{before}{name}{after}", SHAPES).reading

    assert {reading(name) == name for name in "ABCD"} in ({True}, {False})


@pytest.mark.parametrize("label_", "ABCD")
@pytest.mark.parametrize(
    "next_question",
    [
        "Question: Which?\nAnswer: {}",
        "Q: Which?\nA: {}",
        "User: a red bar?\nAssistant: {}",
        "Q2: {}",
    ],
)
def test_another_question_is_not_read(label_, next_question):
    for other in "ABCD":
        after = f"\n\n{next_question.format(other)}"
        assert read_choice(SHAPES[0], f"The answer is {label_}.{after}", SHAPES).reading == label_
        assert read_choice(SHAPES[0], f"{label_}{after}", SHAPES).reading == label_
        assert read_choice(SHAPES[0], f"I see nothing.{after}", SHAPES).reading == ""


def test_an_answer_after_its_repeated_question_is_read():
    listed = "".join(f"\n{label(i)}. {shape}" for i, shape in enumerate(SHAPES))
    prompt = f"Choose one.\nQuestion: Which shape?\nChoice list: {listed}\nYour answer is: "
    for name in "ABCD":
        assert read_choice(SHAPES[0], prompt + name, SHAPES).reading == name


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


NEEDLES = {
    **dict.fromkeys(("7984462", "**7984462**", "number:7984462", "$7,984,462$", "“7984462”。"), 1),
    **dict.fromkeys(("17984462", "79844620", "798446", ""), 0),
    "7984462.0": 1,
}


@pytest.mark.parametrize(("answer", "points"), NEEDLES.items())
def test_a_needle_is_found_as_a_whole_between_any_marks(answer, points):
    assert read_needle("7984462", answer).points == points


@pytest.mark.parametrize(
    ("gold", "answer", "points"),
    [
        ("no", "I know", 0),
        ("no", "No.", 1),
        ("3–1", "it ended 3-1", 1),
        ("0", "10", 0),
        ("New York", "in new   york city", 1),
        ("edi", "medieval", 0),
        ("?", "why?", 1),
    ],
)
def test_a_phrase_is_found_by_whole_words(gold, answer, points):
    assert read_phrase(gold, answer).points == points


def test_an_empty_gold_scores_nothing():
    for read in (read_phrase, read_needle, read_rouge):
        assert isinstance(read(" ", "anything"), Unscored)


def test_rouge_does_not_depend_on_one_comma():
    glued = read_rouge("a man and a half-open door", "a man, 1,000 steps and a half-open door")
    assert glued.points == pytest.approx(2 * 0.75 / 1.75)  # 6 of 6 and 6 of 8 unique words


def test_nothing_but_periods_is_an_empty_answer():
    assert read_rouge("a b", "...") == Scored(0.0)


@given(st.text(max_size=80), st.lists(st.text(max_size=12), min_size=1, max_size=8), st.data())
def test_any_text_gets_a_verdict(answer, options, data):
    gold = data.draw(st.sampled_from(options))
    for verdict in (
        read_choice(gold, answer, options),
        read_rouge(gold, answer),
        read_needle(gold, answer),
        read_phrase(gold, answer),
    ):
        assert isinstance(verdict, Unscored) or 0 <= verdict.points <= 1


styles = st.sampled_from(["{}", "It is {}.", "**{}**"])


@given(st.permutations(CITIES), st.sampled_from(CITIES), styles)
def test_the_order_of_options_does_not_matter_for_their_texts(options, gold, style):
    assert read_choice(gold, style.format(gold), options).points == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        "the answer is " * 14_000,
        "option " * 30_000,
        "A " * 100_000,
        "(" * 200_000,
        "A, image2, B and " * 12_000,
        "A. image1\n" * 20_000,
        "A" + ", " * 100_000,
        "answer" + "\n" * 200_000 + "?",
    ],
    ids=[
        *("declarations", "options", "labels", "brackets", "lists", "repeated options", "commas"),
        "lines",
    ],
)
def test_a_long_answer_is_read(answer):
    assert isinstance(read_choice("image9", answer, IMAGES), Scored)
    assert isinstance(read_needle("7984462", answer), Scored)
