"""The functions that the task file names, with a replayed judge."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support.logged_records import replies_of

from mmie_tasks.benchmarks.mia_bench import benchmark, prompts
from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.mia_bench.data import dataset
from mmie_tasks.benchmarks.mia_bench.prompts import find_function, judge_prompt
from mmie_tasks.core.errors import DataBroken

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "mia_bench"
ANSWERS = [
    json.loads(line)["text"]
    for line in (EXAMPLE / "answers" / "answers.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MMIE_TASKS_JUDGE", f"replay:path={EXAMPLE / 'replies.jsonl'}")


@pytest.fixture(scope="module")
def docs():
    """The samples in the order of the file, as the answers are."""
    samples = dataset({"MIA_BENCH_DATA": str(EXAMPLE / "data")})
    return sorted(samples, key=lambda doc: int(doc["id"]))


def test_the_bundled_replies_have_both_scores(docs):
    pairs = zip(docs, ANSWERS, strict=True)
    judged = [dict(benchmark.process_results(doc, [answer]).items()) for doc, answer in pairs]
    scores = {kind: [row[kind].get("score") for row in judged] for kind in ("official", "robust")}
    assert scores["official"] == [100, 90, 50, 80, 100, 0, 60, 90]
    assert scores["robust"] == pytest.approx([100, 90, 90, 80, 100, 100, 75, 90])


@pytest.mark.parametrize(
    ("judge", "parts"),
    [
        (None, ("judge:openai|model:gpt-4o-2024-11-20|t:0|", "|paper_judge:yes|")),
        ("openai:gpt-4o", ("|model:gpt-4o|", "|paper_judge:yes|")),
        ("openai:gpt-4o-mini", ("|model:gpt-4o-mini|", "|paper_judge:no|")),
        (f"replay:path={EXAMPLE / 'replies.jsonl'}", ("judge:made_up|", "|paper_judge:no|")),
    ],
)
def test_the_signature_names_judge_prompt_and_data(docs, monkeypatch, judge, parts):
    monkeypatch.delenv("MMIE_TASKS_JUDGE")
    if judge:
        monkeypatch.setenv("MMIE_TASKS_JUDGE", judge)
    signature = str(BENCHMARK.signature(docs[0]))
    for part in (*parts, "|prompt:official,max_tokens=2000|", "|task:mia_bench@6-D|data:sha256:"):
        assert part in signature


def test_the_judge_is_asked_the_official_text_and_then_shown_the_image(docs):
    sent = BENCHMARK.prepared(docs[0], ["An answer."]).request
    text, image = sent.parts
    assert "An answer." in text
    assert image == EXAMPLE / "data" / "images" / "0.png"
    assert sent.max_tokens == 2000


def test_the_tested_model_gets_the_image_then_the_instruction(docs):
    (turn,) = benchmark.doc_to_messages(docs[0], {"pre_prompt": "<", "post_prompt": ">"})
    image, text = turn["content"]
    assert isinstance(image["url"], Image.Image)
    assert text["text"] == f"<{docs[0]['instruction']}>"
    assert benchmark.doc_to_text(docs[0]) == docs[0]["instruction"]
    assert benchmark.doc_to_visual(docs[0])[0].size == image["url"].size
    assert benchmark.doc_to_target(docs[0]) == ""


def test_the_word_that_the_official_script_skips_is_no_answer_and_an_empty_text_is_one(docs):
    skipped = benchmark.process_results(docs[0], ["error"])
    assert skipped["official"]["unscored"] == skipped["robust"]["unscored"] == "no_answer"
    assert replies_of(skipped["record"]) == ()
    assert BENCHMARK.prepared(docs[0], [""]).request is not None


# The official prompt, made from the installed runner's function

PIECES = ["EXACT ", " Use only numbers", " Then explain", "x", "\n"]
BEFORE, AFTER = judge_prompt("I", ["C1", "C2"], [4, 6], "\0").split("\0")


@given(st.lists(st.sampled_from(PIECES)))
def test_no_answer_moves_what_is_cut(pieces):
    answer = "".join(pieces)
    assert judge_prompt("I", ["C1", "C2"], [4, 6], answer) == f"{BEFORE}{answer}{AFTER}"


def test_the_additions_of_the_runner_are_cut():
    assert not any(piece in AFTER for piece in PIECES[:2])
    assert PIECES[2] in AFTER
    assert all(text in BEFORE + AFTER for text in ("I", "C1", "C2", "4", "6"))


def test_no_other_function_is_run_and_none_stops_the_run(monkeypatch):
    other = "def generate_prompt(d, response):\n    return response"
    for source in ("def generate_prompt(", "x = 1\0", other):
        assert find_function(source) == ""
    monkeypatch.setattr(prompts, "find_function", lambda _: "")
    prompts.runner_prompt.cache_clear()
    with pytest.raises(DataBroken):
        BENCHMARK.check_setup()
