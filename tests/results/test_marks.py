"""What makes a run's numbers incomparable with the published ones is said in a few words."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.judgements import replied
from support.records import changed, record_of
from support.signatures import signature_from
from support.unloaded_benchmark import varied

from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.reply import JudgeReply, Usage
from mmie_tasks.record.segment import Segment, text_segments
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.marks import paper_marks, text_marks
from mmie_tasks.results.run import TaskRun, as_counted

PAPER = "judge:mmie_score|model:mmie_score|paper_judge:yes|prompt:official,max_tokens=9|task:mmie"
OTHER = PAPER.replace("model:mmie_score", "model:gpt-4o").replace("judge:yes", "judge:no")
OPENAI = "judge:openai|model:gpt-4o-2024-11-20|t:0|paper_judge:yes"
WARM = OPENAI.replace("t:0", "t:1|detail:low")
DRAWN = f"{PAPER}|answers:step-1,images,model=flux"
ITSELF = "judge and tested model are one"
DRAWN_MARK = "pictures drawn by our reconstruction (step-1), not by the paper's pipeline"


def task_run(verdicts, signature=PAPER, published=0, **fields):
    signed = signature_from(signature)
    samples = tuple(record_of(str(n), one, signature=signed) for n, one in enumerate(verdicts))
    benchmark = varied(BENCHMARK, published={"mmie": published or len(samples)})
    return TaskRun(task="mmie", benchmark=benchmark, records=samples, logs=(Path("a"),), **fields)


def marks_of(*changes, signature=PAPER):
    """The marks of scored samples with these fields, and of one more that has none of them."""
    run = task_run([Scored(3)] * (len(changes) + 1), signature)
    pairs = zip(run.records, [*changes, {}], strict=True)
    records = tuple(changed(record, **fields) for record, fields in pairs)
    return paper_marks(replace(run, records=records))


@pytest.mark.parametrize(
    ("old", "new", "mark"),
    [
        pytest.param(PAPER, PAPER, "", id="as published"),
        pytest.param(PAPER, OTHER, "judge: gpt-4o, not the paper's", id="another judge"),
        pytest.param("official", "other:1ec4", "other prompt words", id="other words"),
        pytest.param("|task", "|min_coverage:0.5|task", "min_coverage 0.5, not 0.9", id="floor"),
        pytest.param("|task", "|judges_itself:m|task", f"{ITSELF}: m", id="judges itself"),
        pytest.param(PAPER, DRAWN, DRAWN_MARK, id="drawn pictures"),
        pytest.param(PAPER, OPENAI, "", id="its own settings"),
        pytest.param(PAPER, WARM, "judge asked with temperature 1, detail low", id="its settings"),
    ],
)
def test_a_setting_that_the_paper_does_not_have_is_named(old, new, mark):
    run = task_run([Scored(3), Unscored("left_out")], PAPER.replace(old, new))
    assert paper_marks(run) == ((mark,) if mark else ())


@pytest.mark.parametrize(
    ("limit", "offset", "options"),
    [
        pytest.param(8, 0, " (--limit 8)", id="limit"),
        pytest.param(8, 2, " (--limit 8 --offset 2)", id="limit and offset"),
        pytest.param(None, None, "", id="data"),
    ],
)
def test_a_part_of_the_published_samples_is_named(limit, offset, options):
    run = task_run([Scored(3)] * 8, published=20_103, limit=limit, offset=offset)
    assert paper_marks(run) == (f"8 of 20,103 samples{options}",)
    unpublished = replace(run, benchmark=varied(run.benchmark, published={}))
    assert paper_marks(unpublished) == ((f"8 samples{options}",) if options else ())


def test_samples_without_score_are_counted_but_not_those_that_the_official_script_leaves_out():
    verdicts = [Scored(3), *map(Unscored, ("no_answer", "left_out", "unavailable"))]
    assert paper_marks(task_run(verdicts)) == ("2 unscored: no_answer (1), unavailable (1)",)
    assert paper_marks(task_run(verdicts[:3])) == ("1 unscored: no_answer",)


def test_what_a_reader_must_see_first_stands_first_and_a_judge_is_named_with_its_server():
    judge = "judge:openai|host:127.0.0.1:8000|model:gpt-4o-2024-11-20|paper_judge:no"
    run = task_run([Scored(3), Unscored("unparsed")], judge, published=9)
    answer = (Segment(image="a.png", problem="missing"),)
    run = replace(run, records=(changed(run.records[0], answer=answer), run.records[1]))
    assert paper_marks(run) == (
        "1 of 1 image of answers missing",
        "1 unscored: unparsed",
        "2 of 9 samples",
        "judge: gpt-4o-2024-11-20 at 127.0.0.1:8000, not the paper's",
    )


def test_a_mixture_of_two_judges_is_named():
    judges, signatures = marks_of({"signature": signature_from(OTHER)})
    assert judges == "judge: gpt-4o, mmie_score, not the paper's"
    assert signatures == "2 different signatures in one run"


# What a judge did not get.


UNUSED = {"pictures_unused": 1}


@pytest.mark.parametrize(
    ("facts", "mark"),
    [
        ([{"pictures_failed": 1}, {"pictures_failed": 2}], "3 pictures not drawn"),
        ([UNUSED, {**UNUSED, "pictures_drawn": 1}], "1 answer without a picture to draw"),
        ([{"looks_unread": 1}] * 2, "looks like JSON or an image reference: 2 answers"),
        ([{"unfilled_placeholders": n} for n in (1, 2)], "3 placeholders without an image"),
        ([{"truncated": 1}], ""),
    ],
)
def test_what_the_judge_did_not_get_as_the_model_meant_it_is_counted(facts, mark):
    assert marks_of(*({"facts": one} for one in facts)) == ((mark,) if mark else ())
    drawn = marks_of({"facts": {"truncated": 1}}, signature=DRAWN)
    assert drawn == (DRAWN_MARK, "1 answer cut by the limit on images")


@pytest.mark.parametrize(
    ("problems", "words"),
    [(["", "missing"], "1 of 2 {} missing"), ("ab", "2 of 2 {} unusable: a (1), b (1)")],
)
def test_images_that_the_judge_did_not_get_are_counted(problems, words):
    answer = tuple(Segment("A.", "a.png", problem) for problem in problems)
    assert marks_of({"answer": answer}) == (words.format("images of answers"),)


def test_a_judge_whose_server_counts_the_same_tokens_for_all_requests_is_named():
    usage, judge = Usage(input_tokens=2050), "judge:mmie_score"
    replies = [
        JudgeReply(text="", model="m", usage=usage, request_characters=900 + 100 * n)
        for n in range(6)
    ]
    reason = "2,050 prompt tokens for each of 6 requests"
    mark = f"the judge's server may have cut its requests: {reason}"
    assert marks_of(*({"judgements": replied(one, judge=judge)} for one in replies)) == (mark,)
    panel = Signature.of_judges([{"judge": "openai", "model": name} for name in "mn"])
    of_two = ({"judgements": replied(one) + replied(one), "signature": panel} for one in replies)
    assert f"n: {mark}" in marks_of(*of_two)


# The models that replies name.

JUDGE = "judge:openai|model:gpt-4o|t:0"
MINI, OLD, NEW = "gpt-4o-mini-2024-07-18", "gpt-4o-2024-08-06", "gpt-4o-2024-11-20"


def answered(models, judge=JUDGE):
    """A run with a sample for each model, with a reply of it."""
    run = task_run([Scored(4)] * len(models), f"{judge}|paper_judge:yes|prompt:official")
    judged = [
        changed(record, judgements=replied(JudgeReply(text="4", model=model), judge=judge))
        for record, model in zip(run.records, models, strict=True)
    ]
    return replace(run, records=tuple(as_counted(one, BENCHMARK.scale) for one in judged))


@pytest.mark.parametrize(
    ("models", "marks"),
    [
        pytest.param([NEW, NEW, "gpt-4o", ""], [], id="snapshot"),
        pytest.param([MINI] * 3, [MINI], id="all"),
        pytest.param([MINI, "a", MINI], [f"{MINI} (2 of 3), a (1 of 3)"], id="two"),
        pytest.param([NEW, OLD, NEW], [f"{NEW} (2 of 3), {OLD} (1 of 3)"], id="two snapshots"),
    ],
)
def test_other_models_and_mixed_snapshots_are_marked_with_their_replies(models, marks):
    found = [mark for mark in paper_marks(answered(models)) if "replies by" in mark]
    assert found == [f"replies by {names}" for names in marks]


@pytest.mark.parametrize("judge", [JUDGE, f"{JUDGE}|replayed:1f2e"])
def test_a_sample_of_another_model_is_not_judged_by_the_papers_judge(judge):
    own, other = answered([NEW, MINI], judge).records
    assert not own.signature.is_of_another_judge
    assert other.signature.is_of_another_judge
    assert other.signature.fields["replies_by"] == MINI
    assert other.signature.judges == own.signature.judges


# Answers that begin with their question, have tags, or are the same.

QUESTION = (
    Segment(text="Look at the pictures.\n", image="1.png"),
    Segment(text="What is shown\nin all of them?"),
)
ASKED = "Look at the pictures. What is shown in all of them?"


@pytest.mark.parametrize(
    ("question", "answer", "is_counted"),
    [
        pytest.param(
            QUESTION,
            "<image>\nLook at  the pictures.\n<|image_pad|>[image 1]What is\tshown in all of them?",
            True,
            id="placeholders and white space",
        ),
        pytest.param(QUESTION, "x" * 99 + ASKED, True, id="from character 99, the last"),
        pytest.param(QUESTION, "x" * 100 + ASKED, False, id="from character 100"),
        pytest.param(QUESTION, "Look at the pictures. A bar is shown.", False, id="its beginning"),
        pytest.param((Segment("What is shown?"),), "What is shown?", False, id="few letters"),
    ],
)
def test_answers_that_begin_with_their_question_are_counted(question, answer, is_counted):
    echo = {"question": question, "answer": (Segment(text=answer),)}
    assert marks_of(echo) == (("1 answer begins with its question",) if is_counted else ())
    twice = ("2 answers begin with their question",)
    assert marks_of(echo, echo) == (twice if is_counted else ())


REFUSAL = "I'm sorry, I can't assist with that."


def texts(answers, others=3, **fields):
    """Samples with these answers, and others with a long one."""
    shown = [*map(text_segments, answers), *[(Segment("word " * 40),)] * others]
    pairs = zip(task_run([Scored(1)] * len(shown)).records, shown, strict=True)
    return [changed(record, answer=answer, **fields) for record, answer in pairs]


@pytest.mark.parametrize(
    ("tags", "named"),
    [
        pytest.param(["<b>", *["[F]"] * 3], "4 {}: `[F]` (3), `<b>` (1)", id="two"),
        pytest.param("abcd", "4 {}: `a` (1), `b` (1), `c` (1) and 1 more", id="many"),
        pytest.param("aa", "2 {}: `a`", id="one"),
    ],
)
def test_answers_with_a_tag_are_counted(tags, named):
    samples = zip(texts([f"{tag} Yes." for tag in tags], others=0), tags, strict=True)
    tagged = [changed(sample, facts={"tag": tag}) for sample, tag in samples]
    assert list(text_marks(tagged)) == [named.format("answers with a tag")]


@pytest.mark.parametrize(
    ("samples", "marks"),
    [
        pytest.param(texts([REFUSAL] * 3), [f"the same: `{REFUSAL}`"], id="a text"),
        pytest.param(texts([""] * 3), ["empty"], id="empty"),
        pytest.param(texts(["a " * 40] * 3), [f"the same: `{'a ' * 29}a…`"], id="a long one"),
        pytest.param(texts([REFUSAL] * 2, 0), [], id="twice"),
        pytest.param(texts([REFUSAL] * 3, 700), [], id="few of many samples"),
        pytest.param(texts(["a dog"] * 3, 100), [], id="few words of many samples"),
        pytest.param(texts(["No change."] * 3, 0, gold=(Segment("no change"),)), [], id="gold"),
        pytest.param(texts(["B"] * 3, 0), [], id="a label"),
        pytest.param(texts(["The answer is blue."] * 3, 0), [], id="an answer"),
        pytest.param(texts([REFUSAL] * 3, 0, official=Unscored("no_answer")), [], id="no answer"),
    ],
)
def test_short_texts_that_answer_several_samples_are_counted_unless_they_are_usual(samples, marks):
    assert list(text_marks(samples)) == [f"3 answers are {mark}" for mark in marks]
