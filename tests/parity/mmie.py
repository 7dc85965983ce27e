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
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

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
from parity.generated import Generated, environment
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
    None,
    "",
    "A cat.",
    "Line 1\nLine 2",
    " blanks \u3000",
    "Set {x} to {question}",
    "\\frac{1}{2} \\{",
    "### Score\n6",
    "Look: <image> here",
    "<|end|><IMG_CONTEXT>",
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


@contextmanager
def made_up_folder(rows: Sequence[dict[str, Any]]) -> Iterator[Path]:
    """A folder with rows as ``data.json``, and their images."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, "mmie")
        for name in IMAGES[:-1]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (2, 2)).save(folder / name)
        (folder / "data.json").write_text(json.dumps(rows), encoding="utf-8")
        yield folder


def official_requests(
    clone: Path, n_samples: int = N_SAMPLES, prompt: Callable[[str], str] | None = None
) -> Sequence[object]:
    """Text and images of each sample's request; None for one that the script drops.

    Args:
        clone: Of MMIE's repository.
        n_samples: How many.
        prompt: Id to template; by default the official ``get_prompt``.
    """
    dataset = _module(clone / "dataset.py")["get_dataset"]
    prompt = prompt or _module(clone / "prompts.py")["get_prompt"]
    rows = made_up_rows(n_samples)
    with made_up_folder(rows) as folder, contextlib.redirect_stdout(io.StringIO()):
        kept = {row["id"]: row for row in dataset(str(folder), "data.json")}
        outputs: list[object] = []
        for row in rows:
            sample = kept.get(row["id"])
            if sample is None:
                outputs.append(None)
                continue
            fields = {name: sample[name] for name in ("question", "answer", "gt_answer")}
            images = [os.path.relpath(image, folder) for image in sample["images"]]
            outputs.append([prompt(row["id"]).format(**fields), *images])
    return outputs


def _module(path: Path) -> dict[str, Any]:
    return execute(ast.parse(path.read_text(encoding="utf-8")).body, {})


def our_requests(prompts: Path, n_samples: int = N_SAMPLES) -> Sequence[object]:
    """The same from the data file and its answers, as a run with ``predictions`` reads them.

    Args:
        prompts: The file with the templates.
        n_samples: How many.
    """
    rows = made_up_rows(n_samples)
    with made_up_folder(rows) as folder:
        cache, settings = str(folder / "cache"), MmieSettings(prompts=prompts)
        with answer_folders_of_run(), environment(MMIE_TASKS_CACHE=cache):
            add_answer_folder(folder)
            path = folder / "conversations.json"
            path.write_text(json.dumps([*map(_conversation, rows)]), encoding="utf-8")
            docs = data.dataset("all", {"MMIE_DATA": str(path)})
            samples = {doc["id"]: MmieSample.from_doc(doc) for doc in docs}
            saved = read_answers([folder / "data.json"]).answers
            answers = {answer.id: answer.answer for answer in saved}
            return [
                _our_request(samples[row["id"]], answers[row["id"]], folder, settings)
                for row in rows
            ]


def _conversation(row: Mapping[str, Any]) -> dict[str, object]:
    """A row in the form of the dataset."""
    turns = (("human", row["question"]), ("gpt", row["gt_answer"]))
    return {
        "id": row["id"],
        "conversations": [{"from": role, "content": content} for role, content in turns],
    }


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


def _our_template(sample_id: str) -> str:
    return TEMPLATES[category_of(sample_id)]


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
    find_score = _main(clone)["find_score"]
    return [_official_points(find_score(reply)) for reply in made_up_replies()]


def _official_points(score: int | None) -> object:
    if score is None:
        return "unparsed"
    return score if 0 <= score <= 6 else "off_scale"


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
    """MmieSample size and the means AVG, SA, PBL and MSR of each run, 0 to 6."""
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
        scored: dict[str, list[Scored]] = defaultdict(list)
        for sample_id, reply in group:
            verdict = read_official(reply)
            if isinstance(verdict, Scored):
                scored[""].append(verdict)
                scored[category_of(sample_id)].append(verdict)
        values = [
            weighted_mean({name: scored[name]}, {name: 1.0}, COVERAGE_FLOOR).value
            for name in ("", *CATEGORIES)
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


OFFICIAL = "Lillianwei-h/MMIE at eb0fd6e"

FOLDER = "MMIE_FOLDER"
_REQUESTS = Generated(
    "mmie_requests",
    f"`get_dataset` in dataset.py, {OFFICIAL}, with templates of ours",
    FOLDER,
    partial(official_requests, n_samples=N_IN_DIGEST, prompt=_our_template),
    our_requests_in_our_words,
)
_REPLIES = Generated(
    "mmie_replies", f"`find_score` in main.py, {OFFICIAL}", FOLDER, official_scores, our_scores
)
_MEANS = Generated(
    "mmie_means", f"the end of main.py, {OFFICIAL}", FOLDER, official_means, our_means
)
GENERATED = (_REQUESTS, _REPLIES, _MEANS)


def _official_prompts(folders: Folders) -> Comparison:
    clone = folders[FOLDER]
    ours = our_requests(clone / "prompts.py")
    pairs = zip(made_up_rows(N_SAMPLES), official_requests(clone), ours, strict=True)
    cases = [(row["id"], theirs, our) for row, theirs, our in pairs]
    dropped = sum(theirs is None for _, theirs, _ in cases)
    return compared(cases, note=f"official prompts; {dropped:,} dropped there and left out here")


_SITE = "MMIE, project's site"
CHECKS = (
    Check(
        "MMIE `dataset.py`, `prompts.py`",
        "text and images of the request for each of our made-up answers",
        (FOLDER,),
        _official_prompts,
    ),
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
    Check(
        _SITE,
        "published percentages that are one of a mean of 3 decimals by our formula",
        (),
        published_cells,
    ),
)
