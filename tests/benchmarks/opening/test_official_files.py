"""Where the official files come from: a clone, our cache or a download, each by its SHA-256."""

import hashlib
import json
from pathlib import Path

import pytest
from support.opening_data import GENERATOR, PROMPTS, SCORER, pin
from support.settings import change

from mmie_tasks.benchmarks.opening import official_files
from mmie_tasks.benchmarks.opening.benchmark import BENCHMARK
from mmie_tasks.benchmarks.opening.judge_prompts import fixed_texts, read_texts
from mmie_tasks.core.errors import DataMissing, SettingWrong

CONTENTS = {
    "GPT_score_A.py": SCORER,
    "prompts/detailed_score_system.txt": "Judge.",
    "gpt-dalle_generation.py": GENERATOR,
    "prompts/zero-shot_generation_system.txt": "Write.",
    "OpenING-benchmark/test_data.jsonl": "{}",
}


@pytest.fixture(autouse=True)
def small_pins(monkeypatch):
    pins = {path: pin(path, content) for path, content in CONTENTS.items()}
    monkeypatch.setattr(official_files, "PINS", pins)


def clone(folder, **changed):
    for path, content in CONTENTS.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(changed.get(Path(path).stem, content), encoding="utf-8")
    return folder


def environment(tmp_path, **more):
    return {"MMIE_TASKS_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1", **more}


def test_a_clone_has_the_texts(tmp_path):
    texts = read_texts(environment(tmp_path, OPENING_DATA=str(clone(tmp_path / "clone"))))
    assert (texts.system, texts.ending, texts.instruction) == ("Judge.", "End.", "Write.")
    assert (texts.schema.name, texts.schema.description) == ("grade", "Grades.")
    assert list(json.loads(texts.schema.parameters)["properties"]) == ["B", "A"]
    assert texts.steps == "Use {steps} steps: "
    assert texts.name == "official@56b663b"


def test_another_file_is_never_taken_in_the_place_of_an_official_one(tmp_path):
    folder = clone(tmp_path / "clone", detailed_score_system="Judge kindly.")
    with pytest.raises(DataMissing, match=r"detailed_score_system\.txt could not be downloaded"):
        read_texts(environment(tmp_path, OPENING_DATA=str(folder)))


def test_other_prompts_are_marked_with_their_hash(logs):
    texts = fixed_texts(PROMPTS)
    digest = hashlib.sha256(PROMPTS.read_bytes()).hexdigest()[:12]
    assert texts.name == f"other:{digest}"
    assert any(digest in line and "not with its own" in line for line in logs)


def test_unusable_other_prompts_are_named(tmp_path):
    texts = json.loads(PROMPTS.read_text(encoding="utf-8"))
    texts["judge"].pop("ending")
    path = tmp_path / "prompts.json"
    path.write_text(json.dumps(texts), encoding="utf-8")
    with pytest.raises(SettingWrong, match=r"judge\.ending"):
        fixed_texts(path)


def test_prefetch_gets_questions_and_prompts_by_their_pins(tmp_path, monkeypatch):
    change(monkeypatch, BENCHMARK, prompts=None)
    online = {**environment(tmp_path), "HF_HUB_OFFLINE": "0"}
    data, prompts = BENCHMARK.assets((), online)
    assert (data.name, prompts.name) == ("opening: data", "opening: prompts")
    assert not data.is_here()
    assert data.plan().size_bytes == 2
    assert prompts.plan().size_bytes == sum(map(len, CONTENTS.values())) - 2
    offline = environment(tmp_path, OPENING_DATA=str(clone(tmp_path / "clone")))
    local, _ = BENCHMARK.assets((), offline)
    assert (local.origin, local.is_here()) == ("local", True)
