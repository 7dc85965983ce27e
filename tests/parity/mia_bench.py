"""MIA-Bench's official notebook, on samples, answers and judge replies that we made up.

Its functions are run from the user's clone: ``generate_prompt`` makes a request,
``process_rawscore`` reads a reply, and ``get_score_dict`` averages.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

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
    *(
        "6/6",
        "2/4",
        "8/10",
        "0/1",
        "10/10",
        "4.5/5",
        "7/0",
        "5",
        "\uff14/6",
        "-1/2",
        "3 / 4",
        "x/2",
    ),
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


def _notebook(clone: Path, *names: str, **namespace: object) -> dict[str, Any]:
    return definitions(notebook_code(clone / "evaluation.ipynb"), *names, **namespace)


# Requests


def official_texts(clone: Path, docs: Sequence[dict[str, Any]] | None = None) -> Sequence[object]:
    """The text of the request for each response."""
    make = _notebook(clone, "generate_prompt")["generate_prompt"]
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


def made_up_replies() -> Iterator[tuple[list[str], str]]:
    """The categories of a sample's components, and a reply about it."""
    random = Random(SEED + 1)  # noqa: S311 - made-up cases
    for _ in range(N_REPLIES):
        categories = [random.choice(CATEGORIES) for _ in range(random.randrange(1, 6))]
        if random.random() < 0.5:
            yield categories, _well_formed(random, len(categories))
        else:
            segments = random.randrange(7)
            reply = "".join(
                random.choice(LABELS) + random.choice(MARKS) + random.choice(SEPARATORS)
                for _ in range(segments)
            )
            yield categories, reply + random.choice(("", ".", " Good."))


def _well_formed(random: Random, n_components: int) -> str:
    shares = [f"score of component {n + 1}: {random.randrange(6)}/5" for n in range(n_components)]
    return ", ".join([*shares, f"total score: {random.randrange(11)}/10"]) + ". It is good."


def _reading(read: Any, categories: Sequence[str], reply: str) -> object:
    try:
        return read(categories, reply)
    except Exception as error:  # noqa: BLE001 - the notebook's bare `except` takes them all
        return type(error).__name__


def official_readings(clone: Path) -> Sequence[object]:
    """Category to share of full marks, of each reply; else the exception's name."""
    read = _notebook(clone, "process_rawscore")["process_rawscore"]
    return [_reading(read, *reply) for reply in made_up_replies()]


def our_readings() -> Sequence[object]:
    """The same."""
    return [_reading(official.scores, *reply) for reply in made_up_replies()]


def _runs() -> Iterator[list[tuple[list[str], str]]]:
    replies = made_up_replies()
    for _ in range(N_RUNS):
        yield [next(replies) for _ in range(REPLIES_PER_RUN)]


def official_means(clone: Path) -> Sequence[object]:
    """The means of each run, as shares of full marks to 9 decimals."""
    means = []
    for run in _runs():
        table = _Table(component_type=[c for c, _ in run], reply=[reply for _, reply in run])
        names = _notebook(clone, "process_rawscore", "get_score_dict", df=table)
        scores = names["get_score_dict"]("reply")
        means.append({name: round(score, 9) for name, score in scores.items()})
    return means


class _Table(dict[str, Sequence[object]]):
    """What the notebook needs of a data frame."""

    def __len__(self) -> int:
        return len(self["reply"])


def our_means() -> Sequence[object]:
    """The same through the rows and the aggregation of the runner's table."""
    return [_run_means(run) for run in _runs()]


def _run_means(run: Sequence[tuple[Sequence[str], str]]) -> dict[str, float]:
    rows = [_rows(categories, reply) for categories, reply in run]
    score = aggregation(metrics.SCALE)
    names = {official.TOTAL: "official", **{name: f"official_{name}" for name in CATEGORIES}}
    scores = {name: score([row[line] for row in rows]) for name, line in names.items()}
    return {name: round(mean / 100, 9) for name, mean in scores.items() if not math.isnan(mean)}


def _rows(categories: Sequence[str], reply: str) -> Mapping[str, Any]:
    fields = {"categories": tuple(categories), "weights": (1,) * len(categories)}
    result = JudgeResult(reply=JudgeReply(text=reply, model="made up", finish="stop"))
    verdicts = BENCHMARK.grade(fields, result)
    groups = {"component": tuple(dict.fromkeys(categories))}
    record = Record(id="0", groups=groups, verdicts=verdicts)
    every_share = Signature(benchmark={"min_coverage": "0"})
    table = RunnerTable(metrics=metrics.METRICS, scale=metrics.SCALE)
    return table.rows(record.model_copy(update={"signature": every_share}))


NOTEBOOK = "evaluation.ipynb, apple/ml-mia-bench at 5422852"

FOLDER = "MIA_FOLDER"
_REQUESTS = Generated(
    "mia_bench_requests", f"`generate_prompt` in {NOTEBOOK}", FOLDER, official_texts, our_texts
)
_REPLIES = Generated(
    "mia_bench_replies",
    f"`process_rawscore` in {NOTEBOOK}",
    FOLDER,
    official_readings,
    our_readings,
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
