"""OpenING's published table, from its published judge replies; and its official functions, on
answers and judge replies that we made up.

The functions are run from the user's clone, with a server that is a function here: nothing is sent.
"""

from __future__ import annotations

import base64
import csv
import glob
import hashlib
import io
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pandas as pd
import PIL
from PIL import Image

from mmie_tasks.answers.saved import read_answers
from mmie_tasks.benchmarks.opening import official
from mmie_tasks.benchmarks.opening import request as requests
from mmie_tasks.benchmarks.opening.benchmark import BENCHMARK
from mmie_tasks.benchmarks.opening.published import PUBLISHED_ROWS, TOPIC_SIZES
from mmie_tasks.benchmarks.opening.sample import OpeningSample
from mmie_tasks.benchmarks.opening.settings import OpeningSettings
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.record.segment import Segment
from parity.comparison import Check, Comparison, Folders, compared
from parity.official_code import definitions

Json = Any

SEED = 20_261_124
BLIND = OpeningSettings(missing_images="blind")
N_REQUESTS, N_REPLIES, N_MODELS = 200, 2000, 500
TEXTS = (
    *("", "Draw a cat.", " <BEGIN> Two steps: ", "<image> Then a dog.", "<image>"),
    *("Line 1\nLine 2\u3000", "INPUT: {x}", "<IMG_7></IMG_7>"),
)
MODES = {"rgb.jpg": "RGB", "grey.jpg": "L", "cmyk.jpg": "CMYK", "clear.png": "RGBA", "web.gif": "P"}
OTHER = {"model": {"id": "other", "name": "other"}, "score": {"Correctness": {"Score": 1}}}
"""A second model: the official summary ends where no model has a value."""
PICTURES = (*MODES, "broken.jpg", "missing.jpg")


# The published table


def _published_table(folder: Path) -> dict[str, dict[str, str]]:
    """Model to its row."""
    table = folder / "Interleaved_Arena/model_score_summaries.csv"
    lines = table.read_text(encoding="utf-8").splitlines()
    return {row["Model_Name"]: row for row in csv.DictReader(lines)}


def published_cells(folders: Folders) -> Comparison:
    """The published table, from the published replies through our reader and summary."""
    folder = folders["OPENING_FOLDER"]
    path = folder / "Interleaved_Arena/gpt-score_results.json"
    entries = json.loads(path.read_text(encoding="utf-8"))
    by_model: defaultdict[str, list[official.MetricScores]] = defaultdict(list)
    for entry in entries:
        scores = official.read_scores(json.dumps(entry["score"]))
        if not isinstance(scores, Unscored):
            by_model[entry["model"]["name"]].append(scores)
    ours = {name: official.summary(of_model) for name, of_model in by_model.items()}
    cases = [
        (f"{model}, {name}", float(row[name]), ours[model].get(name))
        for model, row in _published_table(folder).items()
        for name in (*official.METRICS, official.OVERALL)
    ]
    return compared(cases, note=f"from {len(entries):,} replies of GPT-4o")


def published_rows(folders: Folders) -> Comparison:
    """The rows that `table --published` shows: in percent, to 1 decimal."""
    theirs = _published_table(folders["OPENING_FOLDER"])
    titles = {metric.name: metric.title for metric in BENCHMARK.metrics}
    cases = []
    for row in PUBLISHED_ROWS:
        for name, score in row.scores.items():
            title = titles[name]
            percent = round(10 * float(theirs[row.model][title]), 1)
            cases.append((f"{row.model}, {title}", percent, score))
    return compared(cases)


# The official functions


class AskedAgain(Exception):
    """The official script sends the request once more."""


def official_scorer(folder: Path, queue: list[str], sent: list[Json], **names: object) -> Any:
    """The functions of ``GPT_score_A.py``, whose server answers with the replies in `queue` and
    notes what is sent.
    """

    def post(_method: str, _url: str, *, headers: object, data: str) -> object:
        del headers
        sent.append(json.loads(data))
        if not queue:
            raise AskedAgain
        body = {"choices": [{"message": {"content": queue.pop()}}]}
        return SimpleNamespace(status_code=200, json=lambda: body)

    names |= {"os": os, "json": json, "glob": glob, "io": io, "base64": base64, "Image": Image}
    functions = definitions(
        (folder / "GPT_score_A.py").read_text(encoding="utf-8"),
        "parse_and_load_json",
        "get_gpt4answer",
        "encode_image",
        "save_judge_results",
        "main_evaluate_output_directory",
        "load_model_outputs",
        "load_test_instances",
        api_key="",
        SYSTEM_MESSAGE=(folder / "prompts/detailed_score_system.txt").read_text("utf-8"),
        requests=SimpleNamespace(request=post),
        tqdm=lambda items, **_: items,
        print=lambda *_: None,
        **names,
    )
    return SimpleNamespace(**functions)


# Requests


def request_bodies(folders: Folders) -> Comparison:
    """System message, texts, pictures and function of requests, from answer folders as
    ``predictions`` reads them.
    """
    clone = folders["OPENING_FOLDER"]
    sent: list[Json] = []
    with tempfile.TemporaryDirectory() as work:
        samples = write_samples(Path(work))
        paths = {"OPENING_DIR": f"{work}/data", "OUTPUT_FILE": f"{work}/scores.json"}
        scorer = official_scorer(clone, ["1"] * len(samples), sent, **paths)
        scorer.main_evaluate_output_directory(f"{work}/outputs")
        saved = read_answers([Path(work) / "outputs" / "M_output"]).answers
        answers = {answer.id: answer.answer for answer in saved}
        variables = {"OPENING_DATA": str(clone), "MMIE_TASKS_CACHE": f"{work}/cache"}
        cases = []
        with mock.patch.dict(os.environ, variables):
            for sample, theirs in zip(samples, sent, strict=True):
                answer = answers[sample.id]
                texts = [answer] if isinstance(answer, str) else list(answer)
                request = requests.prepared(sample, texts, BLIND).request
                cases.append((sample.id, _their_body(theirs), request and _our_body(request)))
    return compared(cases, note=f"pictures by the SHA-256 of the JPEG; Pillow {PIL.__version__}")


def write_samples(work: Path) -> Sequence[OpeningSample]:
    """Write made-up questions and answers in the official layout; the samples."""
    random = Random(SEED)  # noqa: S311 - made-up cases
    outputs = work / "outputs" / "M_output"
    _write_pictures(work / "data" / "images")
    _write_pictures(outputs)
    topic = next(iter(TOPIC_SIZES))
    samples, lines = [], []
    for number in range(N_REQUESTS):
        uid = f"{number:07}"
        question = [_step(random, "./images/") for _ in range(random.choice((1, 1, 2, 3)))]
        answer = [_step(random, "./M_output/") for _ in range(random.choice((0, 1, 2, 4)))]
        turns = {"conversations": [{"input": question}, {"output": answer}]}
        (outputs / f"{uid}.json").write_text(json.dumps(turns), encoding="utf-8")
        lines.append(json.dumps({"total_uid": uid, **turns}))
        segments = tuple(
            Segment(step["text"], str(work / "data" / step["image"]) if step["image"] else None)
            for step in question
        )
        samples.append(OpeningSample(id=uid, topic=topic, subtask="", question=segments, gold=()))
    (work / "data" / "test_data.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return samples


def _write_pictures(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, mode in MODES.items():
        suffix = "jpeg" if name.endswith("jpg") else name[-3:]
        Image.new(mode, (9, 7), 77 if mode in "LP" else None).save(folder / name, format=suffix)
    (folder / "broken.jpg").write_bytes(b"no picture")


def _step(random: Random, folder: str) -> dict[str, str | None]:
    image = folder + random.choice(PICTURES) if random.random() < 0.7 else None
    return {"text": random.choice(TEXTS) + random.choice(TEXTS), "image": image}


def _their_body(payload: Json) -> Json:
    system, user = payload["messages"]
    shown = [
        part["text"]
        if part["type"] == "text"
        else _digest(base64.b64decode(part["image_url"]["url"].partition(",")[2]))
        for part in user["content"]
    ]
    (function,) = payload["functions"]
    function["parameters"] = json.dumps(function["parameters"])
    return {"system": system["content"], "parts": shown, "function": function}


def _our_body(request: JudgeRequest) -> Json:
    schema = request.schema
    shown = [
        _digest(part.read_bytes()) if isinstance(part, Path) else part for part in request.parts
    ]
    function = schema and {
        "name": schema.name,
        "description": schema.description,
        "parameters": schema.parameters,  # JSON text: the order of its keys counts
    }
    return {"system": request.system, "parts": shown, "function": function}


def _digest(jpeg: bytes) -> str:
    return f"image {hashlib.sha256(jpeg).hexdigest()}"


# Replies and the table


def replies(folders: Folders) -> Comparison:
    """Replies: asked again, or the official table's row of a model with this reply only."""
    clone = folders["OPENING_FOLDER"]
    random = Random(SEED)  # noqa: S311 - made-up cases
    cases = []
    queue: list[str] = []
    scorer = official_scorer(clone, queue, [])
    with _summary(clone) as summary:
        for number in range(N_REPLIES):
            reply = made_up_reply(random)
            queue[:] = [reply]
            ours = _our_reading(reply)
            cases.append((f"reply {number}: {reply:.80}", _their_reading(scorer, summary), ours))
    return compared(cases)


def made_up_reply(random: Random) -> str:
    """A reply, of which some are not in the form that is asked for."""
    value: Json = {name: {"Score": _points(random)} for name in official.METRICS}
    form = random.randrange(12)
    if form == 0:
        value = {"scores": random.choice((value, None, [], {"Score": 3}, {"Score": None}))}
    elif form == 1:
        value = random.choice(([], [value], "text", "", 7, 0, True, False, None, {}))
    elif form == 2:
        del value[random.choice(official.METRICS)]
    elif form == 3:
        value["Charm"] = random.choice(({"Score": 4}, {"Points": 4}, 4, None))
    elif form == 4:
        value[random.choice(official.METRICS)] = random.choice(({"Score": None}, {}, 5, None))
    text = json.dumps(value)
    if form == 5:
        return random.choice((f"```json\n{text}\n```", f"Here: {text}", text[:-1], "I cannot.", ""))
    return text


def _points(random: Random) -> Json:
    odd = (7.5, "8", "8/10", [4], True, 11, -3, 1e2)
    return random.choice(odd) if random.random() < 0.05 else random.randrange(11)


def _their_reading(scorer: Any, summary: Any) -> object:
    try:
        value = scorer.get_gpt4answer(["Q"], [None], ["A"], [None])
    except AskedAgain:
        return "unparsed"
    try:
        rows, kept = summary([{"model": {"id": "M", "name": "M"}, "score": value}, OTHER])
    except (TypeError, AttributeError):
        return "not_scorable"
    return rows.get("M", {}) if kept > 1 else "left_out"


def _our_reading(reply: str) -> object:
    scores = official.read_scores(reply)
    return scores.reason if isinstance(scores, Unscored) else official.summary([scores])


def table(folders: Folders) -> Comparison:
    """Rows of the official table of models with several replies."""
    random = Random(SEED)  # noqa: S311 - made-up cases
    entries = []
    by_model: dict[str, list[official.MetricScores]] = {}
    while len(by_model) < N_MODELS:
        reply, model = made_up_reply(random), str(random.randrange(N_MODELS))
        scores = official.read_scores(reply)
        if isinstance(scores, Unscored) and scores.reason != "left_out":
            continue  # the official summary ends on it
        entries.append({"model": {"id": model, "name": model}, "score": json.loads(reply)})
        if not isinstance(scores, Unscored):
            by_model.setdefault(model, []).append(scores)
    with _summary(folders["OPENING_FOLDER"]) as summary:
        theirs, _ = summary(entries)
    return compared(
        [
            (f"model {model}", theirs.get(model), official.summary(of_model))
            for model, of_model in by_model.items()
        ],
        note=f"{len(entries):,} replies",
    )


@contextmanager
def _summary(clone: Path) -> Iterator[Any]:
    """The function ``process_gpt_scores`` of ``summarize_GPT_scores.py``, from entries to the
    models' rows and the number of kept entries. It runs in a folder of its own.
    """
    source = (clone / "summarize_GPT_scores.py").read_text(encoding="utf-8")
    names = {"json": json, "pd": pd, "defaultdict": defaultdict, "print": lambda *_: None}
    process = definitions(source, "process_gpt_scores", **names)["process_gpt_scores"]
    before = Path.cwd()

    def summary(entries: Sequence[Json]) -> tuple[Mapping[str, Mapping[str, float]], int]:
        scores = Path("Interleaved_Arena/gpt-score_results.json")
        scores.write_text(json.dumps(entries), encoding="utf-8")
        table = Path("Interleaved_Arena/model_score_summaries.csv")
        process()
        rows = csv.DictReader(table.read_text(encoding="utf-8").splitlines())
        kept = len(json.loads(scores.read_text(encoding="utf-8")))
        return {row["Model_ID"]: _cells(row) for row in rows}, kept

    with tempfile.TemporaryDirectory() as work:
        Path(work, "Interleaved_Arena").mkdir()
        os.chdir(work)
        try:
            yield summary
        finally:
            os.chdir(before)


def _cells(row: Mapping[str, str]) -> dict[str, float]:
    labels = ("Rank", "Model_ID", "Model_Name")
    return {name: float(cell) for name, cell in row.items() if cell and name not in labels}


CHECKS = tuple(
    Check(source, compares, ("OPENING_FOLDER",), run)
    for source, compares, run in (
        (
            "LanceZPF/OpenING",
            "cells of its published table, from its published judge replies",
            published_cells,
        ),
        (
            "LanceZPF/OpenING",
            "cells of the same table that `table --published` shows",
            published_rows,
        ),
        ("OpenING `GPT_score_A.py`", "its request for each of our made-up answers", request_bodies),
        ("OpenING `GPT_score_A.py`", "its reading of each of our made-up replies", replies),
        ("OpenING `summarize_GPT_scores.py`", "its row of each of our made-up models", table),
    )
)
