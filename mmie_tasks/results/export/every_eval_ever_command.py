"""``mmie-tasks export every-eval-ever``: a run as records of the database Every Eval Ever."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.results.arguments import listed_names
from mmie_tasks.results.commands import open_run, write_with_folder
from mmie_tasks.results.export.database_export import database_parser, official_headlines
from mmie_tasks.results.export.every_eval_ever import (
    RELATIONSHIPS,
    Evaluation,
    JsonObject,
    aggregate_record,
    sample_records,
)

_MODEL = re.compile(r"[\w-]+(?:\.[\w-]+)*/[\w-]+(?:\.[\w-]+)*", re.ASCII)  # portable folder names


def run(arguments: Sequence[str], _environment: Mapping[str, str]) -> str:
    """Write the records of each task of a run; returns the paths, one per line."""
    options = _parser().parse_args(arguments)
    if not _MODEL.fullmatch(options.model):
        raise SettingWrong(
            f"`--model {options.model}` is not a model's name on the Hub.", hint="DEVELOPER/NAME"
        )
    logged = open_run(options.run, listed_names(options.tasks))
    source: JsonObject = {
        "source_name": "lmms-eval with mmie-tasks",
        "source_type": "evaluation_run",
        "source_organization_name": options.organization,
        "evaluator_relationship": options.relationship,
    }
    root, paths = options.output.expanduser(), list[Path]()
    for task, headline in official_headlines(logged).items():
        evaluation = Evaluation(
            run=logged, task_run=logged.tasks[task], headline=headline, model=options.model
        )
        record = aggregate_record(evaluation, source)
        if not options.without_samples:
            path = evaluation.path.with_name(f"{evaluation.path.stem}_samples.jsonl")
            rows = [json.dumps(row, allow_nan=False) for row in sample_records(evaluation)]
            write_with_folder(root / path, "\n".join(rows))
            record["detailed_evaluation_results"] = {
                "format": "jsonl",
                "file_path": path.as_posix(),
                "hash_algorithm": "sha256",
                "checksum": hashlib.sha256((root / path).read_bytes()).hexdigest(),
                "total_rows": len(rows),
            }
            paths.append(root / path)
        write_with_folder(root / evaluation.path, json.dumps(record, indent=2, allow_nan=False))
        paths.append(root / evaluation.path)
    return "\n".join(map(str, paths))


def _parser() -> argparse.ArgumentParser:
    parser = database_parser(
        "every-eval-ever",
        "Write a run as records of the database Every Eval Ever: for each task one with the "
        "scores, and one with a line per scored sample.",
        "the folder that has or gets the folder `data`",
    )
    help_text = "the tested model, as on the Hub"
    parser.add_argument("--model", required=True, metavar="DEVELOPER/NAME", help=help_text)
    help_text = "who publishes the scores"
    parser.add_argument("--organization", required=True, metavar="NAME", help=help_text)
    help_text = "of who ran it to the developer of the model"
    parser.add_argument("--relationship", required=True, choices=RELATIONSHIPS, help=help_text)
    help_text = "write no questions, reference answers, answers and replies"
    parser.add_argument("--without-samples", action="store_true", help=help_text)
    return parser
