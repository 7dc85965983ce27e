"""Cost of MMIE before the judge is called: ``python tests/bench/mmie_requests.py``.

20,000 samples we make up, of about the size the benchmark's have: a question of 76 words with one
or two photographs, an answer of three steps with a picture each. The data is loaded as a task does
it, then every judge request is built and kept, as in a run; nobody is asked. Beside it, in the same
run: what it takes to decode the pictures of a request, which this does not do.

The files are links to a few dozen pictures, so the disk is not measured. The judge's words are
ours, of the official length.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from PIL import Image

WORDS = ["the", "and", "then", "with", "step", "slowly", "picture", "water", "cut", "fold", "it"]
COUNTS = {"SA": 5_005, "PBL": 11_482, "MSR": 3_616}
SIZES = ((500, 375), (460, 345), (500, 333), (512, 512))  # pixels; the last is what models draw
TEMPLATE = "{rubric} ### Question\n{{question}}\n### Answer\n{{answer}}\n### Feedback\n"


def text(dice: random.Random, words: int) -> str:
    return " ".join(dice.choices(WORDS, k=words))


def pictures(folder: Path) -> list[Path]:
    """JPEG and PNG images of noise, as large as photographs."""
    folder.mkdir(parents=True)
    paths = []
    for n, (width, height) in itertools.product(range(6), SIZES):
        noise = Image.effect_noise((width // 4, height // 4), 60).resize((width, height))
        path = folder / f"{n}-{width}x{height}.{'png' if width == height else 'jpg'}"
        noise.convert("RGB").save(path)
        paths.append(path)
    return paths


def make(root: Path, n: int) -> None:
    """Write ``data.json``, ``images/``, the answers and the judge prompts."""
    dice, shown = random.Random(1), pictures(root / "pool")  # noqa: S311 - made-up data
    (root / "images").mkdir()
    number = itertools.count()

    def image() -> str:
        name = f"images/{next(number)}{(picture := dice.choice(shown)).suffix}"
        os.link(picture, root / name)
        return name

    rows, answers = [], []
    share = n / sum(COUNTS.values())
    categories = [name for name, count in COUNTS.items() for _ in range(round(count * share))]
    for i, category in enumerate(categories):
        first = {"text": text(dice, 76), "image": image()}
        more = [{"text": None, "image": image()}] if dice.random() < 0.32 else []
        gold = [{"text": text(dice, 40), "image": None}]
        turns = [{"from": "human", "content": [first, *more]}, {"from": "gpt", "content": gold}]
        rows.append({"id": f"{category}-{i}", "field": "Education", "conversations": turns})
        steps = 1 if category == "MSR" else 3
        drawn = [None if steps == 1 else str(root / image()) for _ in range(steps)]
        parts = [{"text": text(dice, 60), "image": image} for image in drawn]
        answers.append(json.dumps({"content": parts}))
    (root / "data.json").write_text(json.dumps(rows))
    (root / "answers.json").write_text(json.dumps(answers))
    words = TEMPLATE.format(rubric=text(dice, 520))
    texts = dict.fromkeys(COUNTS, words) | {"MSR": f"{words}{{gt_answer}}"}
    (root / "words.json").write_text(json.dumps(texts))


def measure(root: Path) -> None:
    """Load the data, build the requests and print the cost; runs in a separate process."""
    os.environ |= {
        "MMIE_DATA": str(root),
        "MMIE_TASKS_CACHE": str(root / "cache"),
        "MMIE_TASKS_JUDGE": "openai:nobody",
        "OPENAI_API_KEY": "none",
    }
    from mmie_tasks.benchmarks.mmie import benchmark
    from mmie_tasks.benchmarks.mmie.settings import MmieSettings
    from mmie_tasks.judges.batch import DeferredRow

    begun = time.perf_counter()
    benchmark.BENCHMARK.settings = MmieSettings(prompts=root / "words.json")
    docs = benchmark.process_docs(SimpleNamespace(config_name="all"))
    benchmark.BENCHMARK.check_data(docs)
    loaded = time.perf_counter() - begun
    answers = json.loads((root / "answers.json").read_text())
    begun = time.perf_counter()
    records = [
        benchmark.process_results(doc, [answer]) for doc, answer in zip(docs, answers, strict=True)
    ]
    built = time.perf_counter() - begun
    assert all(
        type(rows["official"]) is DeferredRow for rows in records
    )  # they wait for their judge
    # Not getrusage: its peak is handed down from the process that started this one.
    (peak_kib,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    cost = {"load_s": loaded, "build_s": built, "peak_mib": int(peak_kib) / 1024}
    some = (benchmark.BENCHMARK.prepared(docs[i], [answers[i]]) for i in range(0, len(docs), 40))
    requests = [prepared.request for prepared in some if prepared.request]
    files = [part for request in requests for part in request.parts if isinstance(part, Path)]
    begun = time.perf_counter()
    for path in files:
        with Image.open(path) as image:
            image.convert("RGB")
    decoded = len(requests) / (time.perf_counter() - begun)
    print(json.dumps({**cost, "decoded_a_s": decoded}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        measure(chosen.measure)
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "mmie"
        make(root, chosen.n)
        command = [sys.executable, "-W", "ignore", __file__, "--measure", str(root)]
        output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    cost = json.loads(output.splitlines()[-1])
    rate, decoded = chosen.n / cost["build_s"], cost["decoded_a_s"]
    print(f"MMIE, {chosen.n:,} samples made up by us")
    print(f"  loading data and looking for its images  {cost['load_s']:8.1f} s")
    print(f"  judge requests built                     {rate:8.0f} samples/s")
    print(f"  images of a request decoded              {decoded:8.0f} samples/s")
    print(f"  ratio                                    {rate / decoded:8.1f} x")
    print(f"  peak memory, everything kept             {cost['peak_mib']:8.0f} MiB")


if __name__ == "__main__":
    main()
