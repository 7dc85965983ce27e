"""What makes a run's numbers incomparable with the published ones is said in a few words."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.judgements import replied
from support.unloaded_benchmark import varied

from mmie_tasks.benchmarks.registry import benchmark_of_task
from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.record.reply import JudgeReply, Usage
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.segment import Segment
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.run import TaskRun

PAPER = (
    "judge:mmie_score|model:mmie_score|paper_judge:yes|prompt:official,max_tokens=1024|task:mmie"
)


def task_run(
    verdicts: list[Verdict],
    signature: str = PAPER,
    task: str = "mmie",
    limit: float | None = None,
    published: int = 0,
) -> TaskRun:
    benchmark = benchmark_of_task(task)
    assert benchmark is not None
    samples = tuple(
        LoggedSample(
            id=str(n),
            official=verdict,
            robust=verdict,
            groups={},
            signature=Signature.parse(signature),
        )
        for n, verdict in enumerate(verdicts)
    )
    published_samples = {task: published or len(samples)}
    return TaskRun(
        task=task,
        benchmark=varied(benchmark, published=published_samples),
        logs=(Path("log.jsonl"),),
        records=samples,
        limit=limit,
    )


def test_a_run_as_published_has_no_mark() -> None:
    assert paper_marks(task_run([Scored(3), Unscored("left_out")])) == ()


@pytest.mark.parametrize(
    ("signature", "mark"),
    [
        pytest.param(
            PAPER.replace("model:mmie_score", "model:gpt-4o").replace(
                "paper_judge:yes", "paper_judge:no"
            ),
            "judge: gpt-4o, not the paper's",
            id="another judge",
        ),
        pytest.param(
            PAPER.replace("prompt:official", "prompt:other:1ec4"),
            "other prompt words",
            id="other words",
        ),
        pytest.param(f"{PAPER}|min_coverage:0.5", "min_coverage 0.5, not 0.9", id="floor"),
        pytest.param(f"{PAPER}|min_coverage:1e-05", "min_coverage 1e-05, not 0.9", id="low floor"),
        pytest.param(
            f"{PAPER}|judges_itself:qwen at 127.0.0.1",
            "judge and tested model are one: qwen at 127.0.0.1",
            id="judges itself",
        ),
        pytest.param(
            f"{PAPER}|answers:step-1,images,model=flux",
            "pictures drawn by our reconstruction (step-1), not by the paper's pipeline",
            id="drawn pictures",
        ),
    ],
)
def test_a_setting_that_the_paper_does_not_have_is_named(signature: str, mark: str) -> None:
    assert paper_marks(task_run([Scored(3)], signature)) == (mark,)


@pytest.mark.parametrize(
    ("limit", "offset", "options"),
    [
        pytest.param(8, 0, " (--limit 8)", id="limit"),
        pytest.param(8, 2, " (--limit 8 --offset 2)", id="limit and offset"),
        pytest.param(None, 20_095, " (--offset 20095)", id="offset"),
        pytest.param(None, None, "", id="data"),
    ],
)
def test_a_part_of_the_published_samples_is_named(
    limit: float | None, offset: float | None, options: str
) -> None:
    run = replace(task_run([Scored(3)] * 8, limit=limit, published=20_103), offset=offset)
    assert paper_marks(run) == (f"8 of 20,103 samples{options}",)
    assert paper_marks(replace(run, benchmark=varied(run.benchmark, published={}))) == (
        (f"8 samples{options}",) if options else ()
    )


def test_samples_without_score_are_counted_but_not_those_that_the_official_script_leaves_out() -> (
    None
):
    verdicts: list[Verdict] = [
        Scored(3),
        Unscored("no_answer"),
        Unscored("left_out"),
        Unscored("unavailable"),
    ]
    assert paper_marks(task_run(verdicts)) == ("2 unscored: no_answer (1), unavailable (1)",)
    assert paper_marks(task_run(verdicts[:3])) == ("1 unscored: no_answer",)


def test_what_a_reader_must_see_first_stands_first_and_a_judge_is_named_with_its_server() -> None:
    judge = "judge:openai|host:127.0.0.1:8000|model:gpt-4o-2024-11-20|paper_judge:no"
    run = task_run([Scored(3), Unscored("unparsed")], judge, published=9)
    answer = (Segment(image="a.png", problem="missing"),)
    run = replace(run, records=(replace(run.records[0], answer=answer), run.records[1]))
    assert paper_marks(run) == (
        "1 of 1 image of answers missing",
        "1 unscored: unparsed",
        "2 of 9 samples",
        "judge: gpt-4o-2024-11-20 at 127.0.0.1:8000, not the paper's",
    )


def test_settings_of_the_papers_judge_that_can_move_a_score_are_named() -> None:
    judge = "judge:openai|model:gpt-4o-2024-11-20|t:1|detail:low|paper_judge:yes"
    assert paper_marks(task_run([Scored(3)], judge)) == (
        "judge asked with temperature 1, detail low",
    )
    assert paper_marks(task_run([Scored(3)], judge.replace("|t:1|detail:low", "|t:0"))) == ()


def test_pictures_that_could_not_be_drawn_are_counted() -> None:
    run = task_run([Scored(3), Scored(4)])
    samples = tuple(
        replace(sample, pictures_not_drawn=number) for number, sample in enumerate(run.records, 1)
    )
    assert paper_marks(replace(run, records=samples)) == ("3 pictures not drawn",)


def test_answers_of_a_writer_and_a_drawer_that_the_limit_on_images_cut_are_counted() -> None:
    run = task_run([Scored(3), Scored(4)], f"{PAPER}|answers:step-2,images,model=flux")
    samples = (replace(run.records[0], answer_cut=True), run.records[1])
    assert "1 answer cut by the limit on images" in paper_marks(replace(run, records=samples))


def test_answers_that_look_unread_are_counted() -> None:
    run = task_run([Scored(3), Scored(4), Scored(5)])
    samples = tuple(
        replace(sample, looks_unread=number > 0) for number, sample in enumerate(run.records)
    )
    marks = ("looks like JSON or an image reference: 2 answers",)
    assert paper_marks(replace(run, records=samples)) == marks


@pytest.mark.parametrize(
    ("answers", "marks"),
    [
        pytest.param(
            [("a.png", "missing"), ("b.png", "missing")],
            "2 of 2 images of answers missing",
            id="all",
        ),
        pytest.param(
            [("a.png", ""), ("b.png", "missing")], "1 of 2 images of answers missing", id="one"
        ),
        pytest.param(
            [("a.png", "unreadable"), ("b.png", "remote")],
            "2 of 2 images of answers unusable: remote (1), unreadable (1)",
            id="unusable",
        ),
        pytest.param([("a.png", "")], "", id="none"),
    ],
)
def test_images_of_answers_that_the_judge_did_not_get_are_counted(
    answers: list[tuple[str, str]], marks: str
) -> None:
    run = task_run([Scored(3)] * len(answers))
    samples = tuple(
        replace(sample, answer=(Segment("A.", image, problem), Segment("B.")))
        for sample, (image, problem) in zip(run.records, answers, strict=True)
    )
    assert paper_marks(replace(run, records=samples)) == ((marks,) if marks else ())


def test_placeholders_without_an_image_are_counted() -> None:
    run = task_run([Scored(3), Scored(4), Scored(5)])
    samples = tuple(
        replace(sample, unfilled_placeholders=number) for number, sample in enumerate(run.records)
    )
    assert paper_marks(replace(run, records=samples)) == ("3 placeholders without an image",)


def test_answers_with_pictures_without_a_place_are_counted() -> None:
    run = task_run([Scored(3), Scored(4), Scored(5)])
    samples = tuple(
        replace(sample, pictures_unplaced=number) for number, sample in enumerate(run.records)
    )
    marks = ("pictures without a place: 2 answers",)
    assert paper_marks(replace(run, records=samples)) == marks


QUESTION = (
    Segment(text="Look at the pictures.\n", image="1.png"),
    Segment(text="What is shown\nin all of them?"),
)
ASKED = "Look at the pictures. What is shown in all of them?"


@pytest.mark.parametrize(
    ("answer", "is_counted"),
    [
        pytest.param(f"{ASKED} B", True, id="question, answer"),
        pytest.param(f"USER: {ASKED}\nASSISTANT: B", True, id="roles"),
        pytest.param(
            "<image>\nLook at  the pictures.\n<|image_pad|>[image 1]What is\tshown in all of them?",
            True,
            id="placeholders and white space",
        ),
        pytest.param("<image>" * 100 + ASKED, True, id="100 placeholders"),
        pytest.param("x" * 99 + ASKED, True, id="from character 99, the last"),
        pytest.param("x" * 100 + ASKED, False, id="from character 100"),
        pytest.param(f"{'x ' * 50}{ASKED}", False, id="from character 100, with spaces"),
        pytest.param("Look at the pictures. A bar is shown.", False, id="only its beginning"),
        pytest.param("B", False, id="answer"),
        pytest.param("", False, id="empty"),
    ],
)
def test_answers_that_begin_with_their_question_are_counted(answer: str, is_counted: bool) -> None:
    run = task_run([Scored(3), Scored(4), Scored(5)])
    echo = replace(run.records[0], question=QUESTION, answer=(Segment(text=answer),))
    once = replace(run, records=(echo, *run.records[1:]))
    assert paper_marks(once) == (("1 answer begins with its question",) if is_counted else ())
    twice = replace(run, records=(echo, echo, run.records[2]))
    assert paper_marks(twice) == (("2 answers begin with their question",) if is_counted else ())


@pytest.mark.parametrize(
    ("question", "is_counted"),
    [("Dog?", False), ("What is in this image?", False), ("What is shown in this image?", True)],
)
def test_a_question_of_few_words_is_in_an_answer_by_accident(
    question: str, is_counted: bool
) -> None:
    run = task_run([Scored(3)])
    texts = (Segment(text=question),), (Segment(text=f"You ask: {question} A dog."),)
    sample = replace(run.records[0], question=texts[0], answer=texts[1])
    assert bool(paper_marks(replace(run, records=(sample,)))) == is_counted


def test_a_mixture_of_two_judges_is_named() -> None:
    run = task_run([Scored(3), Scored(4)])
    other = PAPER.replace("model:mmie_score", "model:gpt-4o").replace(
        "paper_judge:yes", "paper_judge:no"
    )
    mixed = replace(
        run, records=(run.records[0], replace(run.records[1], signature=Signature.parse(other)))
    )
    assert paper_marks(mixed) == (
        "judge: mmie_score, gpt-4o, not the paper's",
        "2 different signatures in one run",
    )
    assert mixed.judge_name == "mmie_score, gpt-4o"


@pytest.mark.parametrize(
    ("task", "n_samples"),
    [
        ("mmie", 20_103),
        ("mmie_pbl", 11_482),
        ("milebench_DocVQA", 200),
        ("milebench_adv", 5_200),
        ("mia_bench", 400),
    ],
)
def test_each_task_knows_how_many_samples_were_published(task: str, n_samples: int) -> None:
    benchmark = benchmark_of_task(task)
    assert benchmark is not None
    assert benchmark.published[task] == n_samples


def test_a_judge_whose_server_counts_the_same_tokens_for_all_requests_is_named() -> None:
    run = task_run([Scored(3)] * 6)
    samples = tuple(
        replace(sample, judgements=replied(judge_reply(number), judge="judge:mmie_score"))
        for number, sample in enumerate(run.records)
    )
    mark = (
        "the judge's server may have cut its requests: 2,050 prompt tokens for each of 6 requests"
    )
    assert paper_marks(replace(run, records=samples)) == (mark,)


def judge_reply(number: int) -> JudgeReply:
    usage, length = Usage(input_tokens=2050), 900 + 100 * number
    return JudgeReply(text="", model="m", usage=usage, request_characters=length)
