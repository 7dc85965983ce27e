"""MIA-Bench's official notebook, on samples, answers and judge replies that we made up.

Its functions are run from the user's clone: ``generate_prompt`` makes a request,
``process_rawscore`` reads a reply, and ``get_score_dict`` averages.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd

from mmie_tasks.benchmarks.mia_bench import metrics, official, prompts
from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES
from mmie_tasks.record.record import Record
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.rows import RunnerTable, aggregation
from mmie_tasks.record.signature import Signature
from parity.comparison import Check, Comparison, Folders, compared
from parity.generated import Generated
from parity.official_code import definitions, notebook_code

SEED = 20_261_124
N_SAMPLES, N_REPLIES = 2000, 100_000
N_RUNS, REPLIES_PER_RUN = 20, 400

QUESTIONS = "instruction_benchmark_all.json"
WORDS = (
    *("Describe it", "in five words", " EXACT ", "Use only numbers", "Then explain", "' \"", "{x}"),
    *("\n", " ", "caf\u00e9 \u732b", "in this format: ", "score of component 1: 1/1"),
)
MARKS = (
    *("6/6", "2/4", "8/10", "0/1", "10/10", "4.5/5", "7/0", "5", "\uff14/6", "-1/2", "3 / 4"),
    "x/2",
)
LABELS = ("score of component 1: ", "total score: ", "a:", "b: ", "**c: ", "", "d : e: ")
SEPARATORS = (", ", ", ", ", ", ",", "\n", "; ", ". ", " and ", ":")


def made_up_docs() -> list[dict[str, Any]]:
    """Rows in the form of the official file, each with a model's response."""
    random = Random(SEED)  # noqa: S311 - made-up cases

    def text() -> str:
        return "".join(random.choice(WORDS) for _ in range(random.randrange(1, 6)))

    docs = []
    for _ in range(N_SAMPLES):
        n = random.randrange(1, 6)
        docs.append(
            {
                "instruction": text(),
                "components": [text() for _ in range(n)],
                "component_weight": [random.randrange(1, 10) for _ in range(n)],
                "component_type": [random.choice(CATEGORIES) for _ in range(n)],
                "response": text(),
            }
        )
    return docs


def _notebook(clone: Path, name: str) -> Any:
    """A function of the notebook."""
    return definitions(notebook_code(clone / "evaluation.ipynb"), name)[name]


# Requests


def official_texts(clone: Path, docs: Sequence[dict[str, Any]] | None = None) -> Sequence[object]:
    """The text of the request for each response."""
    make = _notebook(clone, "generate_prompt")
    return [make(dict(doc), doc["response"]) for doc in docs or made_up_docs()]


def our_texts(docs: Sequence[Mapping[str, Any]] | None = None) -> Sequence[object]:
    """The same, from the file of the installed lmms-eval."""
    fields = ("instruction", "components", "component_weight", "response")
    return [prompts.judge_prompt(*(doc[f] for f in fields)) for doc in docs or made_up_docs()]


def published_questions(folders: Folders) -> Comparison:
    """The requests for the official questions."""
    clone = folders["MIA_FOLDER"]
    rows = json.loads((clone / QUESTIONS).read_text(encoding="utf-8"))
    docs = [{**row, "response": f"Response {number}."} for number, row in enumerate(rows)]
    texts = zip(official_texts(clone, docs), our_texts(docs), strict=True)
    return compared([(f"row {n}", theirs, ours) for n, (theirs, ours) in enumerate(texts)])


# Replies and means


def made_up_replies(count: int = N_REPLIES) -> list[tuple[list[str], str]]:
    """The categories of a sample's components, and a reply about it."""
    random = Random(SEED + 1)  # noqa: S311 - made-up cases
    replies = []
    for _ in range(count):
        categories = [random.choice(CATEGORIES) for _ in range(random.randrange(1, 6))]
        if random.random() < 0.5:
            reply = _well_formed(random, len(categories))
        else:
            segments = [
                random.choice(LABELS) + random.choice(MARKS) + random.choice(SEPARATORS)
                for _ in range(random.randrange(7))
            ]
            reply = "".join(segments) + random.choice(("", ".", " Good."))
        replies.append((categories, reply))
    return replies


def _well_formed(random: Random, n_components: int) -> str:
    shares = [f"score of component {n + 1}: {random.randrange(6)}/5" for n in range(n_components)]
    return ", ".join([*shares, f"total score: {random.randrange(11)}/10"]) + ". It is good."


def _readings(read: Callable[[Sequence[str], str], object]) -> list[object]:
    """Category to share of full marks, of each reply; else the exception's name."""
    readings: list[object] = []
    for categories, reply in made_up_replies():
        try:
            readings.append(read(categories, reply))
        except Exception as error:  # noqa: BLE001, PERF203 - the notebook's bare `except` takes all
            readings.append(type(error).__name__)
    return readings


def _runs() -> list[list[tuple[list[str], str]]]:
    replies = made_up_replies(N_RUNS * REPLIES_PER_RUN)
    return [replies[n : n + REPLIES_PER_RUN] for n in range(0, len(replies), REPLIES_PER_RUN)]


def official_means(clone: Path) -> Sequence[object]:
    """The means of each run, as shares of full marks to 9 decimals."""
    code = notebook_code(clone / "evaluation.ipynb")
    means = []
    for run in _runs():
        table = pd.DataFrame(run, columns=["component_type", "reply"])
        names = definitions(code, "process_rawscore", "get_score_dict", df=table)
        scores = names["get_score_dict"]("reply")
        means.append({name: round(score, 9) for name, score in scores.items()})
    return means


def our_means() -> Sequence[object]:
    """The same through the rows and the aggregation of the runner's table."""
    return list(map(_run_means, _runs()))


def _run_means(run: Sequence[tuple[Sequence[str], str]]) -> dict[str, float]:
    rows = [_rows(categories, reply) for categories, reply in run]
    score = aggregation(metrics.SCALE)
    names = {official.TOTAL: "official", **{name: f"official_{name}" for name in CATEGORIES}}
    scores = {name: score([row[line] for row in rows]) for name, line in names.items()}
    return {name: round(mean / 100, 9) for name, mean in scores.items() if not math.isnan(mean)}


def _rows(categories: Sequence[str], reply: str) -> Mapping[str, Any]:
    fields = {"categories": tuple(categories), "weights": (1,) * len(categories)}
    result = JudgeResult(reply=JudgeReply(text=reply, model="made up", finish="stop"))
    record = Record(
        id="0",
        groups={"component": tuple(dict.fromkeys(categories))},
        verdicts=BENCHMARK.grade(fields, result),
        signature=Signature(benchmark={"min_coverage": "0"}),
    )
    return RunnerTable(metrics=metrics.METRICS, scale=metrics.SCALE).rows(record)


NOTEBOOK = "evaluation.ipynb, apple/ml-mia-bench at 5422852"
FOLDER = "MIA_FOLDER"
_REQUESTS = Generated(
    "mia_bench_requests", f"`generate_prompt` in {NOTEBOOK}", FOLDER, official_texts, our_texts
)
_REPLIES = Generated(
    "mia_bench_replies",
    f"`process_rawscore` in {NOTEBOOK}",
    FOLDER,
    lambda clone: _readings(_notebook(clone, "process_rawscore")),
    lambda: _readings(official.scores),
)
_MEANS = Generated(
    "mia_bench_means", f"`get_score_dict` in {NOTEBOOK}", FOLDER, official_means, our_means
)
GENERATED = (_REQUESTS, _REPLIES, _MEANS)

CHECKS = (
    Check(
        "MIA-Bench `generate_prompt`",
        "the text of the request for each published question",
        (FOLDER,),
        published_questions,
    ),
    _REQUESTS.check("MIA-Bench `generate_prompt`", "the same for each of our made-up questions"),
    _REPLIES.check(
        "MIA-Bench `process_rawscore`",
        "its shares or exception of each of our made-up replies",
        "{texts} of them an exception there, and the same here",
    ),
    _MEANS.check(
        "MIA-Bench `get_score_dict`", f"its means of runs of {REPLIES_PER_RUN} such replies"
    ),
)
