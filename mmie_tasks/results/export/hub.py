"""``mmie-tasks export hub``: ``.eval_results/*.yaml`` of a model repository on the Hub.

The format follows ``eval_results.yaml`` in huggingface/hub-docs; `huggingface_hub` writes it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.hub.dataset import RepoCommit
from mmie_tasks.results.arguments import listed_names
from mmie_tasks.results.commands import open_run, write_with_folder
from mmie_tasks.results.export.database_export import database_parser, official_headlines
from mmie_tasks.runs.headline import Headline
from mmie_tasks.runs.run import Run, TaskRun

FOLDER = ".eval_results"


def run(arguments: Sequence[str], _environment: Mapping[str, str]) -> str:
    """Write a file for each task of a run; returns the paths, one per line."""
    options = _parser().parse_args(arguments)
    logged = open_run(options.run, listed_names(options.tasks))
    datasets = _named_datasets(options.dataset, logged)
    folder = options.output.expanduser() / FOLDER
    texts = {
        folder / f"{task}.yaml": _yaml_text(logged, headline, datasets.get(task), options.source)
        for task, headline in official_headlines(logged).items()
    }
    for path, text in texts.items():
        write_with_folder(path, text)
    return "\n".join(map(str, texts))


def _parser() -> argparse.ArgumentParser:
    parser = database_parser(
        "hub",
        f"Write the official score of each task to `{FOLDER}/TASK.yaml`, for the repository of the "
        "tested model on the Hub.",
        "the folder of the model repository",
    )
    help_text = "the data set on the Hub, once per task of a run with data in a local folder"
    parser.add_argument("--dataset", action="append", default=[], metavar="TASK=ID", help=help_text)
    help_text = "a link to more about the run, such as its report"
    parser.add_argument("--source", metavar="URL", help=help_text)
    return parser


@dataclass(frozen=True, slots=True)
class _Dataset:
    """A data set on the Hub, such as ``MMIE/MMIE``, and its commit, if known."""

    id: str
    commit: str | None = None


def _named_datasets(words: Sequence[str], logged: Run) -> dict[str, _Dataset]:
    """The data set of each task that ``--dataset`` names."""
    pairs = [word.partition("=") for word in words]
    for task, _, dataset in pairs:
        if task not in logged.tasks or dataset.count("/") != 1:
            raise SettingWrong(
                f"`--dataset {task}={dataset}` does not name a task of the run and its data set.",
                hint=f"TASK=ORGANIZATION/NAME; the tasks are {', '.join(logged.tasks)}",
            )
    return {task: _Dataset(dataset) for task, _, dataset in pairs}


def _downloaded_dataset(task_run: TaskRun) -> _Dataset | None:
    """The data set in a task's signature, if the run downloaded it from the Hub."""
    source = RepoCommit.from_text(task_run.signatures[0].fields.get("data", ""))
    return _Dataset(source.repo, source.commit) if source else None


def _yaml_text(
    logged: Run, headline: Headline, dataset: _Dataset | None, source: str | None
) -> str:
    """The official score of a task, in percent; the notes say what is unlike the paper."""
    try:
        from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
    except ImportError as error:
        raise SettingWrong(
            "The installed `huggingface_hub` does not know `.eval_results`.",
            hint="run the export in an environment with a newer one, which transformers 5 has",
        ) from error
    task = headline.task
    dataset = dataset or _downloaded_dataset(logged.tasks[task])
    if dataset is None:
        raise SettingWrong(
            f"`{task}` of `{logged.name}` was not run with data from the Hub.",
            hint=f"name the data set with `--dataset {task}=ORGANIZATION/NAME`",
        )
    entry = EvalResultEntry(
        dataset_id=dataset.id,
        task_id=task,
        value=headline.official and headline.official.percent,
        dataset_revision=dataset.commit,
        date=logged.started.isoformat() if logged.started else None,
        source_url=source,
        notes=f"unlike the paper: {'; '.join(headline.marks)}" if headline.marks else None,
    )
    rows = eval_result_entries_to_yaml([entry])
    return yaml.safe_dump(rows, sort_keys=False, allow_unicode=True, width=1000).rstrip("\n")
