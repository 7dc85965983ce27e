"""From odd answers to the judge's request: whatever a model says, something sensible is asked."""

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from support.hostile import JSON_VALUES
from support.mmie_data import conversations_folder, draw
from support.mmie_judge import surround
from support.settings import change

from mmie_tasks.answers.drawn import DrawingFacts, write_drawn_answer, write_undrawn_answer
from mmie_tasks.benchmarks.mmie import request as requests
from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK
from mmie_tasks.benchmarks.mmie.prompts import IMAGE
from mmie_tasks.benchmarks.mmie.sample import MmieSample
from mmie_tasks.benchmarks.model_answers import add_answer_folder, answer_folders_of_run
from mmie_tasks.core.errors import DataMissing
from mmie_tasks.record.segment import Segment


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    surround(monkeypatch, tmp_path)
    for name in ("a.png", "b.png", "q.png"):
        draw(tmp_path / name)


def sample(category="SA", *, gold="7"):
    question = (Segment("Begin.", str(Path("q.png").absolute())),)
    gold_segments = () if gold is None else (Segment(gold),)
    return MmieSample(id="1", category=category, question=question, gold=gold_segments)


def build(*results, of=None):
    return requests.prepared(of or sample(), results, BENCHMARK.settings)


def answer_part(result):
    """The answer's part of the judge's text."""
    text = "".join(p if isinstance(p, str) else IMAGE for p in result.request.parts)
    return text.partition("### Answer\n")[2].partition("\n###")[0]


def parts(*images):
    return json.dumps([{"text": "Step.", "image": image} for image in images])


SIGNATURE = "step-1,images,model=flux"
STEP = "Step.\nImage-1: <image>\n"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param("Plain.", "Plain.\n", id="text"),
        pytest.param(parts("a.png"), STEP, id="official-parts"),
        pytest.param(parts("nowhere.png"), "Step.\n", id="missing"),
        pytest.param(parts("https://example.org/a.png"), "Step.\n", id="remote"),
        pytest.param("[]", "", id="without-segments"),
        pytest.param("", "\n", id="empty"),
        pytest.param("<think>on and on", "\n", id="only-thinking"),
        pytest.param("Say <image> <|end|>", "Say <image> <|end|>\n", id="control-strings"),
    ],
)
def test_an_answer_of_any_shape_is_put_before_the_judge(answer, expected):
    result = build(answer)
    assert answer_part(result) == expected
    assert result.request.max_tokens == 1024


def test_what_is_no_answer_is_not_put_before_the_judge():
    for answer in ("[GENERATION_FAILED] oom", '{"text": "nan", "images": []}'):
        result = build(answer)
        assert (result.request, result.record.official.reason) == (None, "no_answer")


def broken(name):
    Path(name).write_bytes(b"no image")
    return name


def huge(name):
    Image.new("1", (20_000, 10_000)).save(name)
    return name


@pytest.mark.parametrize("make", [broken, huge], ids=["no-image", "200-mp"])
def test_an_image_the_official_script_ends_at_costs_its_sample(make):
    result = build(parts(make("bad.png"), "a.png"))
    assert (result.request, result.record.official.reason) == (None, "bad_image")
    assert result.record.facts["bad_images"] == 1
    assert "missing_images" not in result.record.facts


def test_an_image_behind_the_limit_is_not_looked_at():
    result = build(parts("a.png", "b.png", broken("bad.png")))
    assert result.request is not None
    assert result.record.facts["truncated"] == 1


def test_a_sum_without_a_gold_answer_cannot_be_judged():
    assert build("7", of=sample("MSR", gold=None)).record.official.reason == "bad_gold"
    assert build("7", of=sample("PBL", gold=None)).request is not None


def n_missing(*images):
    of = MmieSample(id="SA-1", category="SA", question=(Segment("Begin."),), gold=())
    return build(parts(*images), of=of).record.facts.get("missing_images", 0)


def test_images_are_looked_for_in_the_folders_of_this_run_only(tmp_path, monkeypatch):
    draw(tmp_path / "one" / "o.png")
    draw(tmp_path / "saved" / "s.png")
    add_answer_folder(tmp_path / "saved")  # before any run, as `rejudge` does
    with answer_folders_of_run():
        add_answer_folder(tmp_path / "one")
        assert n_missing("a.png", "o.png", "s.png") == 0
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with answer_folders_of_run():
        add_answer_folder(tmp_path / "two")
        assert [n_missing(name) for name in ("a.png", "o.png", "s.png")] == [1, 1, 0]


def test_the_check_before_a_run_covers_words(monkeypatch):
    BENCHMARK.check_setup()
    assert BENCHMARK.request_provenance()["prompt"].startswith("other:")
    change(monkeypatch, BENCHMARK, prompts=None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataMissing, match="prompts="):
        BENCHMARK.check_setup()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(answer=st.text() | JSON_VALUES.map(json.dumps) | JSON_VALUES)
def test_nothing_a_model_says_raises(answer):
    result = build(answer)
    assert (result.request is None) == bool(result.record.official.detail)


# Answers of `--model interleaved`


@pytest.fixture
def docs(monkeypatch, tmp_path):
    monkeypatch.setenv("MMIE_DATA", str(conversations_folder(tmp_path / "data")))
    judge = "openai:nobody,base_url=http://127.0.0.1:9/v1,cache=off,max_retries=0"
    monkeypatch.setenv("MMIE_TASKS_JUDGE", judge)
    return BENCHMARK.process_docs(SimpleNamespace(config_name="all"))


def record_of(doc, answer):
    return json.loads(json.dumps(dict(BENCHMARK.process_results(doc, [answer]).items())["record"]))


def drawing(**facts):
    return DrawingFacts(signature=SIGNATURE, **facts)


def test_the_record_has_the_prompts_and_what_was_not_drawn_or_not_used(docs):
    path = Path("a.png").absolute()
    segments = [Segment(text="Cut."), Segment(image=str(path), prompt="<b>scissors</b>")]
    facts = drawing(drawn=1, failed={"refused": 2}, unused={"pictures over the limit": 1})
    record = record_of(docs[0], write_drawn_answer(segments, facts))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    image = {"image": str(path), "prompt": "<b>scissors</b>", "sha256": digest}
    assert record["answer"] == [{"text": "Cut."}, image]
    expected = {"pictures_drawn": 1, "pictures_failed": 2, "pictures_unused": 1}
    expected |= {"not_drawn": "refused (2)", "unused": "pictures over the limit (1)"}
    assert expected.items() <= record["facts"].items()


@pytest.mark.parametrize("reason", ["unavailable", "not_stored", "refused"])
def test_a_picture_withheld_by_the_drawers_fault_leaves_the_sample_unscored(docs, reason):
    facts = drawing(failed={"refused": 1, reason: 1})
    record = record_of(docs[0], write_drawn_answer([Segment(text="Cut.")], facts))
    official = record["verdicts"]["official"]
    assert record["signature"]["benchmark"]["answers"] == SIGNATURE
    if reason == "refused":
        assert official["reason"] == "unavailable"  # the judge, which gets the text
    else:
        assert official["reason"] == "not_drawn"
        assert f"{reason} (1)" in official["detail"]


@pytest.mark.parametrize("text", ["42", "[NO_ANSWER] x", "", "[ERROR] x"])
def test_an_answer_without_pictures_is_judged_as_the_writers_text_alone(docs, text):
    record = record_of(docs[2], write_undrawn_answer(text, drawing()))
    alone = record_of(docs[2], text)
    assert record["signature"]["benchmark"].pop("answers") == SIGNATURE
    if text.startswith("["):  # a failure is shown as the runner has it
        assert record.pop("answer") != alone.pop("answer")
    assert record == alone


def test_protocol_and_drawer_are_in_the_signature_even_if_no_judge_can_be_opened(docs, monkeypatch):
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "no_such_judge")
    for write, content in ((write_drawn_answer, [Segment("A")]), (write_undrawn_answer, "[ERROR]")):
        signature = record_of(docs[0], write(content, drawing()))["signature"]
        assert signature["benchmark"]["answers"] == SIGNATURE
        assert set(signature["judges"][0]) == {"judge", "why"}
        assert signature["benchmark"]["paper_judge"] == "no"
