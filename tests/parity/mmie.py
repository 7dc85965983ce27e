"""MMIE's official code, on samples, answers and judge replies that we made up.

The official files are run from the user's clone: ``dataset.py`` and ``get_prompt`` make a request,
``find_score`` reads a reply, and the end of ``main.py`` averages.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
from PIL import Image
from support.golden import vectors

from mmie_tasks.answers.saved import read_answers
from mmie_tasks.benchmarks.mmie import data, request
from mmie_tasks.benchmarks.mmie.official import percent_of, read_official, rounded_mean
from mmie_tasks.benchmarks.mmie.prompts import IMAGE
from mmie_tasks.benchmarks.mmie.published import CATEGORY_SIZES
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, MmieSample, category_of
from mmie_tasks.benchmarks.mmie.settings import MmieSettings
from mmie_tasks.benchmarks.model_answers import add_answer_folder, answer_folders_of_run
from mmie_tasks.core.verdict import Scored
from mmie_tasks.record.metrics import weighted_mean
from mmie_tasks.record.signature import COVERAGE_FLOOR
from parity.comparison import Check, Comparison, Folders, compared
from parity.generated import Generated
from parity.official_code import definitions, execute, statements_from

SEED = 20_261_124
N_SAMPLES, N_REPLIES = 20_000, 100_000
N_IN_DIGEST = 2000  # samples: they take a second for 700
REPLIES_PER_MEAN = 500

TEMPLATES = {
    "SA": "Story: {question} goes on: {answer}",
    "PBL": "Task: {question} goes on: {answer}",
    "MSR": "Problem: {question} solved: {answer} for {gt_answer}",
}
"""Words of ours, for the digest: the official ones are not in this repository."""

IMAGES = ("images/0.png", "images/1.png", "images/2.png", "images/sub/3.png", "images/missing.png")
TEXTS = (
    *(None, "", "A cat.", "Line 1\nLine 2", " blanks \u3000", "Set {x} to {question}"),
    *("\\frac{1}{2} \\{", "### Score\n6", "Look: <image> here", "<|end|><IMG_CONTEXT>"),
    "caf\u00e9 \u732b",
)
PIECES = (
    *("### Score", "### Score", "### Score\n", "### Feedback\nClear.\n", "#### Score", "### score"),
    *("## Score", "###Score", ": ", " (0-6): ", "\n\n1) ", "/6", " out of 6", "**", " ", "\n"),
    *(".", "0", "1", "2", "3", "4", "5", "6", "7", "10", "-1", "-0.4", "0.5"),
    *("2.5", "3.5", "4.5", "5.5", "6.5", "6.51", ".5", "4.", "1e2", "\uff14", "\u0663"),
    *("four", "I cannot judge this."),
)  # fmt: skip


# Requests


def made_up_rows(n_samples: int) -> list[dict[str, Any]]:
    """Rows in the form that the official judge reads, with answers."""
    random = Random(SEED)  # noqa: S311 - made-up cases
    rows = []
    for number in range(n_samples):
        question = [_segment(random) for _ in range(random.choice((1, 1, 1, 2, 3, 5)))]
        answer: object = [_segment(random) for _ in range(random.randrange(6))]
        if random.random() < 0.1:
            answer = random.choice(("Plain text.", "Two\nlines", "Set {x}"))
        gold = [{"text": random.choice(TEXTS), "image": None}, _segment(random)]
        rows.append(
            {
                "id": f"{random.choice(CATEGORIES)}-{number}",
                "model": "made up",
                "question": question,
                "answer": answer,
                "gt_answer": gold[: random.choice((1, 2))],
            }
        )
    return rows


def _segment(random: Random) -> dict[str, str | None]:
    image = random.choice(IMAGES) if random.random() < 0.5 else None
    return {"text": random.choice(TEXTS), "image": image}


def write_folder(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as ``data.json`` and in the form of the dataset, and their images."""
    (folder / "images" / "sub").mkdir(parents=True)
    for name in IMAGES[:-1]:
        Image.new("RGB", (2, 2)).save(folder / name)
    (folder / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    dataset = [
        {
            "id": row["id"],
            "conversations": [
                {"from": "human", "content": row["question"]},
                {"from": "gpt", "content": row["gt_answer"]},
            ],
        }
        for row in rows
    ]
    (folder / "conversations.json").write_text(json.dumps(dataset), encoding="utf-8")


def official_requests(
    clone: Path, n_samples: int = N_SAMPLES, prompt: Callable[[str], str] | None = None
) -> Sequence[object]:
    """Text and images of each sample's request; None for one that the script drops.

    `prompt` has the template of an id; by default it is the official ``get_prompt``.
    """
    dataset, official_prompt = (
        execute(ast.parse((clone / file).read_text(encoding="utf-8")).body, {})[name]
        for file, name in (("dataset.py", "get_dataset"), ("prompts.py", "get_prompt"))
    )
    prompt = prompt or official_prompt
    rows = made_up_rows(n_samples)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        write_folder(Path(folder), rows)
        kept = {row["id"]: row for row in dataset(folder, "data.json")}
    outputs: list[object] = []
    for id_ in (row["id"] for row in rows):
        if id_ not in kept:
            outputs.append(None)
            continue
        fields = {name: kept[id_][name] for name in ("question", "answer", "gt_answer")}
        images = [os.path.relpath(image, folder) for image in kept[id_]["images"]]
        outputs.append([prompt(id_).format(**fields), *images])
    return outputs


def our_requests(prompts: Path, n_samples: int = N_SAMPLES) -> Sequence[object]:
    """The same from the data file and its answers, as a run with ``predictions`` reads them;
    `prompts` is the file with the templates.
    """
    rows = made_up_rows(n_samples)
    settings = MmieSettings(prompts=prompts)
    with tempfile.TemporaryDirectory() as work, answer_folders_of_run():
        folder = Path(work)
        write_folder(folder, rows)
        add_answer_folder(folder)
        with mock.patch.dict(os.environ, MMIE_TASKS_CACHE=f"{folder}/cache"):
            docs = data.dataset("all", {"MMIE_DATA": f"{folder}/conversations.json"})
            samples = {doc["id"]: MmieSample.from_doc(doc) for doc in docs}
            saved = read_answers([folder / "data.json"]).answers
            answers = {answer.id: answer.answer for answer in saved}
            ids = [row["id"] for row in rows]
            return [_our_request(samples[id_], answers[id_], folder, settings) for id_ in ids]


def _our_request(
    sample: MmieSample, answer: str | Sequence[str], folder: Path, settings: MmieSettings
) -> object:
    results = [answer] if isinstance(answer, str) else answer
    built = request.prepared(sample, results, settings)
    if built.request is None:
        reason = built.record.official.reason
        return None if reason == "left_out" else reason
    parts = built.request.parts
    images = [os.path.relpath(part, folder) for part in parts if isinstance(part, Path)]
    return ["".join(IMAGE if isinstance(part, Path) else part for part in parts), *images]


def our_requests_in_our_words() -> Sequence[object]:
    """The requests of the digest."""
    with tempfile.TemporaryDirectory() as work:
        path = Path(work, "prompts.json")
        path.write_text(json.dumps(TEMPLATES), encoding="utf-8")
        return our_requests(path, N_IN_DIGEST)


# Replies and averages


def made_up_replies() -> list[str]:
    random = Random(SEED + 1)  # noqa: S311 - made-up cases
    replies = []
    for _ in range(N_REPLIES):
        pieces = [random.choice(PIECES) for _ in range(random.randrange(1, 9))]
        start = "### Feedback\nClear.\n### Score\n" if random.random() < 0.5 else ""
        replies.append(start + "".join(pieces))
    return replies


def official_scores(clone: Path) -> Sequence[object]:
    """The points of each reply; else why the script leaves it out."""
    scores = map(_main(clone)["find_score"], made_up_replies())
    return ["unparsed" if s is None else s if 0 <= s <= 6 else "off_scale" for s in scores]


def our_scores() -> Sequence[object]:
    """The same."""
    verdicts = map(read_official, made_up_replies())
    return [v.points if isinstance(v, Scored) else v.reason for v in verdicts]


def _groups() -> Iterator[list[tuple[str, str]]]:
    """Ids and replies of runs."""
    random = Random(SEED + 2)  # noqa: S311 - made-up cases
    replies = made_up_replies()
    for start in range(0, N_REPLIES, REPLIES_PER_MEAN):
        weights = [random.random() for _ in CATEGORIES]
        of_group = replies[start : start + REPLIES_PER_MEAN]
        yield [(f"{random.choices(CATEGORIES, weights)[0]}-{i}", r) for i, r in enumerate(of_group)]


def official_means(clone: Path) -> Sequence[object]:
    """Sample size and the means AVG, SA, PBL and MSR of each run, 0 to 6."""
    end = statements_from((clone / "main.py").read_text(encoding="utf-8"), "gpt_scores")
    means = []
    for group in _groups():
        rows = [{"id": sample_id, "gpt_feedback": reply} for sample_id, reply in group]
        names = {**_main(clone), "processed_data": rows, "input_name": ""}
        with contextlib.redirect_stdout(io.StringIO()):
            result = execute(end, names)
        values = [result[name] for name in ("avg", "sa_avg", "pbl_avg", "msr_avg")]
        means.append([len(result["gpt_scores"]), *(v if v is None else float(v) for v in values)])
    return means


def our_means() -> Sequence[object]:
    """The same."""
    means = []
    for group in _groups():
        scored: dict[str, list[Scored]] = {name: [] for name in ("", *CATEGORIES)}
        for sample_id, reply in group:
            verdict = read_official(reply)
            if isinstance(verdict, Scored):
                scored[""].append(verdict)
                scored[category_of(sample_id)].append(verdict)
        values = [
            weighted_mean({name: verdicts}, {name: 1.0}, COVERAGE_FLOOR).value
            for name, verdicts in scored.items()
        ]
        rounded = [value if value is None else rounded_mean(value) for value in values]
        means.append([len(scored[""]), *rounded])
    return means


def _main(clone: Path) -> dict[str, Any]:
    source = (clone / "main.py").read_text(encoding="utf-8")
    return definitions(source, "find_score", "average", re=re, np=np)


# The published table


def published_averages(_folders: Folders) -> Comparison:
    """AVG of each published row, from its cells and the number of samples in each category.

    In thousandths of a point, which cells and AVG are rounded to: so the mean of cells and AVG
    differ by 1 at most.
    """
    sizes = [CATEGORY_SIZES[category] for category in CATEGORIES]
    thousandths = {percent_of(number / 1000): number for number in range(6001)}
    cases = []
    for model, *cells, average in vectors("mmie_published")["rows"]:
        total = sum(size * thousandths[cell] for size, cell in zip(sizes, cells, strict=True))
        cases.append((model, True, abs(total / sum(sizes) - thousandths[average]) <= 1))
    return compared(cases, note="as far as the rounding of the cells tells")


def published_cells(_folders: Folders) -> Comparison:
    """Whether each published percentage is one of a mean with 3 decimals."""
    possible = {percent_of(number / 1000) for number in range(6001)}
    rows = vectors("mmie_published")["rows"]
    return compared([(row[0], True, cell in possible) for row in rows for cell in row[1:]])


def official_prompts(folders: Folders) -> Comparison:
    """The requests with the official words."""
    clone = folders[FOLDER]
    pairs = zip(official_requests(clone), our_requests(clone / "prompts.py"), strict=True)
    cases = [(f"case {n}", theirs, ours) for n, (theirs, ours) in enumerate(pairs)]
    dropped = sum(theirs is None for _, theirs, _ in cases)
    return compared(cases, note=f"official prompts; {dropped:,} dropped there and left out here")


OFFICIAL = "Lillianwei-h/MMIE at eb0fd6e"
FOLDER = "MMIE_FOLDER"
_REQUESTS = Generated(
    "mmie_requests",
    f"`get_dataset` in dataset.py, {OFFICIAL}, with templates of ours",
    FOLDER,
    lambda clone: official_requests(clone, N_IN_DIGEST, lambda id_: TEMPLATES[category_of(id_)]),
    our_requests_in_our_words,
)
_REPLIES = Generated(
    "mmie_replies", f"`find_score` in main.py, {OFFICIAL}", FOLDER, official_scores, our_scores
)
_MEANS = Generated(
    "mmie_means", f"the end of main.py, {OFFICIAL}", FOLDER, official_means, our_means
)
GENERATED = (_REQUESTS, _REPLIES, _MEANS)

_CODE, _SITE = "MMIE `dataset.py`, `prompts.py`", "MMIE, project's site"
_OF_REQUESTS = "text and images of the request for each of our made-up answers"
_OF_CELLS = "published percentages that are one of a mean of 3 decimals by our formula"
CHECKS = (
    Check(_CODE, _OF_REQUESTS, (FOLDER,), official_prompts),
    _REPLIES.check(
        "MMIE `find_score`",
        "its score of each of our made-up replies",
        "{texts} of them without a score in 0 to 6 on both sides",
    ),
    _MEANS.check(
        "MMIE `main.py`",
        f"its sample size and four means of runs of {REPLIES_PER_MEAN} such replies",
    ),
    Check(_SITE, "AVG of the published rows from their cells", (), published_averages),
    Check(_SITE, _OF_CELLS, (), published_cells),
)
