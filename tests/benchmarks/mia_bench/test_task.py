"""The functions the YAML names, without the runner's evaluator and with a replayed judge."""

import hashlib
import json
from pathlib import Path

import pytest
import yaml
from datasets import Dataset
from PIL import Image
from support.golden import GOLDEN, vectors
from support.logged_records import replies_of, signature_of

from mmie_tasks.benchmarks.mia_bench import benchmark, data, prompts
from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.mia_bench.data import dataset
from mmie_tasks.benchmarks.mia_bench.official import read_official
from mmie_tasks.benchmarks.mia_bench.robust import read_robust
from mmie_tasks.benchmarks.mia_bench.sample import MiaSample
from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.core.files import task_dir
from mmie_tasks.core.verdict import Scored
from mmie_tasks.hub.run_images import ImageOpener
from mmie_tasks.judges.content import content_key
from mmie_tasks.record.record import Record

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "mia_bench"
ANSWERS = [
    json.loads(line)["text"]
    for line in (EXAMPLE / "answers" / "answers.jsonl").read_text(encoding="utf-8").splitlines()
]
YAML = task_dir() / "mia_bench" / "mia_bench.yaml"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MMIE_TASKS_JUDGE", f"replay:path={EXAMPLE / 'replies.jsonl'}")
    monkeypatch.setattr(benchmark.BENCHMARK, "opener", ImageOpener())
    for name in ("MODEL_VERSION", "JUDGE_MODEL_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def docs():
    """The samples in the order of the file, as the answers are."""
    samples = dataset({"MIA_BENCH_DATA": str(EXAMPLE / "data")})
    return sorted(samples, key=lambda doc: int(doc["id"]))


@pytest.fixture
def judged(docs):
    return [dict(benchmark.process_results(doc, [a]).items()) for doc, a in zip(docs, ANSWERS)]  # noqa: B905


def scores(rows, metric):
    return [row[metric].get("score") for row in rows if metric in row]


def test_the_bundled_replies_have_both_scores(judged):
    assert scores(judged, "official") == [100, 90, 50, 80, 100, 0, 60, 90]
    assert scores(judged, "robust") == pytest.approx([100, 90, 90, 80, 100, 100, 75, 90])


def test_the_signature_names_judge_prompt_data_and_who_the_paper_asked(judged):
    (signature,) = {signature_of(row["record"]) for row in judged}
    assert signature.startswith("judge:made_up|model:made-up|replayed:")
    for part in ("|paper_judge:no|", "|prompt:official,", "|task:mia_bench@", "|data:sha256:"):
        assert part in signature


@pytest.mark.parametrize(
    ("model", "paper"),
    [("gpt-4o-2024-11-20", "yes"), ("gpt-4o", "yes"), ("gpt-4o-mini", "no"), ("gpt-6-luna", "no")],
)
def test_another_judge_than_the_papers_is_visible(docs, monkeypatch, model, paper):
    monkeypatch.setenv("MMIE_TASKS_JUDGE", f"openai:{model}")
    assert f"|model:{model}|" in str(BENCHMARK.signature(docs[0]))
    assert f"|paper_judge:{paper}|" in str(BENCHMARK.signature(docs[0]))


def test_the_default_is_the_dated_model(docs, monkeypatch):
    monkeypatch.delenv("MMIE_TASKS_JUDGE")
    assert str(BENCHMARK.signature(docs[0])).startswith("judge:openai|model:gpt-4o-2024-11-20|t:0|")
    assert "judge" not in BENCHMARK.provenance(docs[0])


def test_the_judge_is_asked_the_official_text_and_then_shown_the_image(docs):
    sent = BENCHMARK.prepared(docs[0], ["An answer."]).request
    text, image = sent.parts
    assert "An answer." in text
    assert image == EXAMPLE / "data" / "images" / "0.png"
    assert sent.max_tokens == 2000


def test_another_text_of_the_runner_stops_the_run(monkeypatch):
    monkeypatch.setattr(prompts, "find_function", lambda _: "")
    prompts.runner_prompt.cache_clear()
    with pytest.raises(DataBroken, match="hint: install"):
        BENCHMARK.check_setup()


def test_the_tested_model_gets_the_image_then_the_instruction(docs):
    (turn,) = benchmark.doc_to_messages(docs[0], {"pre_prompt": "<", "post_prompt": ">"})
    image, text = turn["content"]
    assert isinstance(image["url"], Image.Image)
    assert text["text"] == f"<{docs[0]['instruction']}>"
    assert benchmark.doc_to_text(docs[0]) == docs[0]["instruction"]
    assert benchmark.doc_to_visual(docs[0])[0].size == image["url"].size
    assert benchmark.doc_to_target(docs[0]) == ""


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        pytest.param(["[LMMS_EVAL_REQUEST_FAILED after 3 retries] 503"], "no_answer", id="failed"),
        pytest.param(["error"], "no_answer", id="the-word-the-script-skips"),
        pytest.param(["a", "b"], "not_text", id="rounds"),
    ],
)
def test_what_is_no_answer_is_not_judged(docs, answers, reason):
    rows = benchmark.process_results(docs[0], answers)
    assert rows["official"]["unscored"] == rows["robust"]["unscored"] == reason
    assert not any("score" in row for row in rows.values())
    assert replies_of(rows["record"]) == ()


@pytest.mark.parametrize("form", ["<think>{}</think>{}", "{}</think>{}"])
def test_the_judge_gets_an_answer_without_its_thinking(docs, form):
    answer = form.format("A first idea.", ANSWERS[0])
    rows = dict(benchmark.process_results(docs[0], [answer]).items())
    assert rows["official"]["score"] == 100  # by the recorded reply to the answer alone
    record = Record.of_line(rows)
    assert (record.answer_text, record.facts["thinking"]) == (ANSWERS[0].strip(), 1)


def test_an_empty_answer_is_judged_as_the_official_script_does(docs):
    assert benchmark.process_results(docs[0], [""])["official"]["unscored"] == "unavailable"


def test_images_that_cannot_be_used_are_found_before_anything_is_asked(docs):
    data.check_data(docs)
    broken = Dataset.from_list([*docs, {**docs[0], "id": "8", "image": "no/such.png"}])
    with pytest.raises(DataMissing, match="1 of the 9 images of MIA-Bench"):
        data.check_data(broken)


def listed():
    return yaml.safe_load(YAML.read_text("utf-8").replace("!function", ""))


def behaviour():
    """A digest of everything that can move a score: prompt, settings and both readers."""
    lines = [json.dumps([listed()["generation_kwargs"], prompts.MAX_TOKENS, prompts.SHA256])]
    for case in vectors("mia_bench")["cases"]:
        sample = MiaSample(
            id="0",
            instruction="I",
            type="basic",
            components=tuple(case["component_type"]),
            weights=tuple(case["component_weight"]),
            categories=tuple(case["component_type"]),
        )
        for verdict in (
            read_official(sample.categories, case["reply"]),
            read_robust(sample.weights, case["reply"]),
        ):
            points = f"{verdict.points:.9f}" if isinstance(verdict, Scored) else verdict.reason
            lines.append(f"{case['id']} {points}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_the_version_moves_when_a_score_can():
    """When this fails: raise the number of `version`, in the YAML too, and note the new digest."""
    noted = json.loads((GOLDEN / "versions.json").read_text(encoding="utf-8"))["mia_bench"]
    assert {"version": BENCHMARK.version, "behaviour": behaviour()} == noted


def test_the_bundled_recording_is_of_the_bundled_answers(docs):
    recorded = (EXAMPLE / "replies.jsonl").read_text(encoding="utf-8").splitlines()
    keys = {content_key(BENCHMARK.prepared(doc, [a]).request) for doc, a in zip(docs, ANSWERS)}  # noqa: B905
    assert keys <= {json.loads(line)["request"] for line in recorded}
    assert len(recorded) == 9
