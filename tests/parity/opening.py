"""Compares this package with OpenING's own files: ``python tests/parity/opening.py FOLDER``.

FOLDER is a clone of LanceZPF/OpenING at 56b663b. It makes no judge calls. Every line says how many
cases are equal; the exit status is 1 if one is not.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.comparison import Comparison, compared, printed

from mmie_tasks.answers.files import read_answers
from mmie_tasks.benchmarks.opening import benchmark, official
from mmie_tasks.benchmarks.opening import request as requests
from mmie_tasks.benchmarks.opening.sample import Sample
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.record.segment import Segment

Json = Any

SCORES = "Interleaved_Arena/gpt-score_results.json"
TABLE = "Interleaved_Arena/model_score_summaries.csv"


def published_cells(folder: Path) -> Comparison:
    """The published table, from the published replies through our reader."""
    rows = json.loads((folder / SCORES).read_text(encoding="utf-8"))
    by_model: dict[str, list[official.MetricScores]] = {}
    for row in rows:
        scores = official.read_scores(json.dumps(row["score"]))
        if not isinstance(scores, Unscored):
            by_model.setdefault(row["model"]["name"], []).append(scores)
    ours = {name: official.summary(replies) for name, replies in by_model.items()}
    table = list(csv.DictReader((folder / TABLE).read_text(encoding="utf-8").splitlines()))
    names = (*official.METRICS, official.OVERALL)
    return compared(
        f"cells of the published table, from {len(rows):,} replies",
        [
            (f"{row['Model_Name']}, {name}", float(row[name]), ours[row["Model_Name"]].get(name))
            for row in table
            for name in names
        ],
    )


def published_rows(folder: Path) -> Comparison:
    """The rows that `table --published` shows: in percent, to 1 decimal."""
    table = csv.DictReader((folder / TABLE).read_text(encoding="utf-8").splitlines())
    theirs = {row["Model_Name"]: row for row in table}
    titles = {metric.name: metric.title for metric in benchmark.BENCHMARK.metrics}
    return compared(
        "scores of published rows",
        [
            (
                f"{row.model}, {titles[name]}",
                round(10 * float(theirs[row.model][titles[name]]), 1),
                score,
            )
            for row in benchmark.PUBLISHED_ROWS
            for name, score in row.scores.items()
        ],
    )


# The golden file


def golden_replies(golden: Json) -> Comparison:
    """Replies: asked again, or the official table's row of a model with this reply only."""
    cases = []
    for reply in golden["replies"]:
        theirs = reply["official"]
        text = _last_text(reply["script"])
        if text is None or theirs["outcome"] == "raises":
            cases.append((reply["name"], "no reply", "no reply" if text is None else text))
        elif theirs["outcome"] == "asks again":
            cases.append((reply["name"], True, official.asks_again(text)))
        else:
            cases.append((reply["name"], _theirs(theirs["summary"]), _ours(text)))
    return compared("golden replies", cases)


def _last_text(script: Sequence[tuple[int, Json]]) -> str | None:
    """The last reply's text as a judge of ours returns it; None without one."""
    status, body = script[-1]
    if status != 200:
        return None
    try:
        message = body["choices"][0]["message"]
        text = (
            message["function_call"]["arguments"]
            if "function_call" in message
            else message["content"]
        )
    except (KeyError, IndexError, TypeError):
        return None
    return text if isinstance(text, str) else ""


def _theirs(summary: Json) -> object:
    if "raised" in summary:
        return "not_scorable"
    if not summary["kept"]:
        return "left_out"
    row = summary["row"] or {}
    return {name: float(cell) for name, cell in row.items() if cell and _is_metric(name)}


def _is_metric(column: str) -> bool:
    return column not in ("Rank", "Model_ID", "Model_Name")


def _ours(text: str) -> object:
    scores = official.read_scores(text)
    if isinstance(scores, Unscored):
        return scores.reason
    row = official.summary([scores])
    return {name: cell for name, cell in row.items() if cell == cell}


def golden_aggregations(golden: Json) -> Comparison:
    """Rows of the official table for lists of replies."""
    return compared(
        "golden aggregations",
        [
            (case["name"], _table(case["official"]), _aggregated(case))
            for case in golden["aggregation"]
        ],
    )


def _table(theirs: Json) -> object:
    if "raised" in theirs:
        return theirs["raised"] and "fails"
    return {
        row["Model_ID"]: {n: float(cell) for n, cell in row.items() if _is_metric(n) and cell}
        for row in theirs["rows"]
    }


def _aggregated(case: Json) -> object:
    by_model: dict[str, list[official.MetricScores]] = {}
    for entry in case.get("rows") or case["entries"]:
        if isinstance(entry, dict):
            model, value = entry["model"]["id"], entry["score"]
        else:
            model, value = entry[1], entry[-1]
        if isinstance(value, list):
            value = dict(zip(case["metric_order"], value, strict=True))
        if isinstance(entry, list) and isinstance(value, dict):
            value = {name: {"Score": points} for name, points in value.items()}
        if value is None or value == {}:
            continue
        if value is False:
            return "fails"
        scores = official.read_scores(json.dumps(value))
        if isinstance(scores, Unscored) and scores.reason == "not_scorable":
            return "fails"
        if not isinstance(scores, Unscored):
            by_model.setdefault(model, []).append(scores)
    return {model: official.summary(replies) for model, replies in by_model.items()}


def golden_requests(golden: Json, work: Path) -> Comparison:
    """Texts and pictures of requests, made from answer folders as ``predictions`` reads them."""
    pictures = {
        name: base64.b64decode(data) for name, data in golden["source_images_base64"].items()
    }
    cases = []
    for number, case in enumerate(golden["requests"]):
        for side in ("",) if case["mode"] == "output_dir" else ("_A", "_B"):
            theirs = case["official"]["requests"]
            index = int(side == "_B")
            if index >= len(theirs) or (side and case["official"]["raised"]):
                continue
            folder = work / f"{number}{side}"
            parts = theirs[index]["user_parts"]
            if side == "_B":
                parts = [{"text": parts[0]["text"].removeprefix("INPUT: ")}, *parts[1:]]
            ours = _request(case, side, folder, pictures)
            cases.append((f"{case['name']}{side}", parts, _shown_parts(ours) if ours else None))
    return compared("golden requests: texts and pictures", cases)


def _request(
    case: Json, side: str, folder: Path, pictures: Mapping[str, bytes]
) -> JudgeRequest | None:
    """The request for the answer in an official folder."""
    for files, below in (
        (case["benchmark_files"], "data"),
        (case[f"answer_files{side}"], "M_output"),
    ):
        for name, source in files.items():
            path = folder / below / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(pictures[source])
    answer = {"conversations": [{"input": case["input"]}, {"output": case[f"output{side}"]}]}
    path = folder / "M_output" / f"{case['uid']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(answer), encoding="utf-8")
    (saved,) = read_answers(str(path.parent)).answers
    question = tuple(
        Segment(step["text"], str(folder / "data" / step["image"]) if step["image"] else None)
        for step in case["input"]
    )
    sample = Sample(id=case["uid"], topic="", subtask="", question=question, gold=())
    answer_texts = [saved.answer] if isinstance(saved.answer, str) else list(saved.answer)
    return requests.build_request(sample, answer_texts, "opening").request


def _shown_parts(request: JudgeRequest) -> list[Json]:
    """The user's message in the golden file's form."""
    shown: list[Json] = []
    for part in request.parts:
        if isinstance(part, Path):
            content = part.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            prefix = "data:image/jpeg;base64,"
            shown.append(
                {
                    "image": {
                        "prefix": prefix,
                        "keys": ["url"],
                        "bytes": len(content),
                        "jpeg_sha256": digest,
                    }
                }
            )
        else:
            shown.append({"text": part})
    shown[-1] = {"text_sha256": hashlib.sha256(shown[-1]["text"].encode()).hexdigest()}
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a clone of LanceZPF/OpenING")
    parser.add_argument(
        "--golden", type=Path, help="replies, requests and aggregations of the official functions"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        os.environ |= {
            "OPENING_DATA": str(options.folder),
            "MMIE_TASKS_CACHE": f"{work}/cache",
            "OPENING_MISSING_IMAGES": "blind",
        }
        results = [published_cells(options.folder), published_rows(options.folder)]
        if options.golden:
            golden = json.loads(options.golden.read_text(encoding="utf-8"))
            results += [
                golden_replies(golden),
                golden_aggregations(golden),
                golden_requests(golden, Path(work, "requests")),
            ]
    return printed(results)


if __name__ == "__main__":
    sys.exit(main())
