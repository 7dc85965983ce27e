"""Batches of models that read all images of a batch with the functions of its first request."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from PIL import Image
from support.mmie_data import draw
from support.runner import CommandResult, Workplace, write

from mmie_tasks.benchmarks.mia_bench.data import dataset

MIA_BENCH = Path(__file__).resolve().parents[2] / "examples" / "mia_bench" / "data"
SAMPLES = 6  # of each task: no multiple of the batch size
BATCH_SIZE = 4

TASK = """\
task: local
dataset_path: json
dataset_kwargs:
  data_files:
    test: samples.json
test_split: test
output_type: generate_until
doc_to_visual: !function utils.doc_to_visual
doc_to_messages: !function utils.doc_to_messages
doc_to_text: question
doc_to_target: question
generation_kwargs:                # equal to those of mia_bench
  max_new_tokens: 512
  temperature: 0
  do_sample: false
  until: []
metric_list:
  - metric: exact_match
"""
UTILS = """\
from PIL import Image


def doc_to_visual(doc):
    return [Image.open(doc["picture"])]


def doc_to_messages(doc):
    content = [
        {"type": "image", "url": Image.open(doc["picture"])},
        {"type": "text", "text": doc["question"]},
    ]
    return [{"role": "user", "content": content}]
"""


def run(folder: Path) -> CommandResult:
    """A run of MIA-Bench beside a task written as the runner's own, in batches."""
    tasks = write(folder / "tasks" / "local.yaml", TASK).parent
    write(tasks / "utils.py", UTILS)
    pictures = [draw(tasks / f"{i}.png", 40 * i) for i in range(SAMPLES)]
    samples = [
        {"question": "Why? " * (2 * i + 1), "picture": str(picture)}
        for i, picture in enumerate(pictures)
    ]
    write(tasks / "samples.json", json.dumps(samples))
    workplace = Workplace(folder=folder)
    workplace.install_entry_point("lmms_eval.models", "batching", "support.batching_model:BATCHING")
    return workplace.run(
        *(
            "lmms-eval",
            "--model",
            "batching",
            "--batch_size",
            str(BATCH_SIZE),
            "--limit",
            str(SAMPLES),
        ),
        *("--tasks", "local,mia_bench", "--include_path", str(tasks)),
        *("--output_path", "out", "--log_samples", "--predict_only"),
        MIA_BENCH_DATA=str(MIA_BENCH),
    )


def digest(path: Path) -> str:
    return hashlib.sha256(Image.open(path).convert("RGB").tobytes()).hexdigest()


def answers(folder: Path, task: str) -> dict[int, list[str]]:
    """The document of each logged sample, to the images that its answer was given for."""
    (path,) = (folder / "out").rglob(f"*_samples_{task}.jsonl")
    samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {sample["doc_id"]: json.loads(sample["filtered_resps"]) for sample in samples}


def test_in_batches_each_sample_is_answered_with_its_own_image_beside_another_task(
    tmp_path: Path,
) -> None:
    result = run(tmp_path)
    docs = dataset({"MIA_BENCH_DATA": str(MIA_BENCH)}).select(range(SAMPLES))
    mia_bench = {i: [digest(Path(doc["image"]))] for i, doc in enumerate(docs)}
    local = {i: [digest(tmp_path / "tasks" / f"{i}.png")] for i in range(SAMPLES)}
    assert answers(tmp_path, "mia_bench") == mia_bench, result.output
    assert answers(tmp_path, "local") == local
    assert result.output.count(f"a batch of {BATCH_SIZE}\n") == 2
