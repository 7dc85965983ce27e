"""Checks saved answers before they are scored: are they, and their images, all here?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.core.errors import AnswersUnusable, MmieTasksError
from mmie_tasks.judges.names import add_judge_options
from mmie_tasks.preflight.finding import Finding, checked

if TYPE_CHECKING:
    from mmie_tasks.answers.matcher import AnswerMatcher, RequestedSample
    from mmie_tasks.benchmarks.benchmark import Benchmark
    from mmie_tasks.benchmarks.registry import BenchmarkEntry
    from mmie_tasks.benchmarks.task_files import TaskFile


def add_answer_options(parser: argparse.ArgumentParser, *, are_required: bool) -> None:
    """Add the arguments of ``mmie-tasks score``, which ``doctor`` takes, too.

    It imports nothing that takes time: see `results.commands`.
    """
    count, answers_help = "+" if are_required else "*", "files or folders of JSON or JSONL"
    parser.add_argument("answers", nargs=count, type=_path, metavar="ANSWERS", help=answers_help)
    tasks_help = "tasks of ours" if are_required else "tasks of ours; default: all"
    parser.add_argument(
        *("--tasks", "--task"), required=are_required, default="", metavar="A,B", help=tasks_help
    )
    add_judge_options(parser)
    group = parser.add_argument_group("answers")
    images_help = "where the images of answers are; default: where the answers are"
    group.add_argument("--images", type=_path, metavar="FOLDER", help=images_help)
    missing_help = (
        "`count` scores what is there: a missing answer is unscored, an answer is judged without "
        "its missing images; default: %(default)s"
    )
    group.add_argument("--missing", choices=("stop", "count"), default="stop", help=missing_help)
    t2i_help = (
        "draws the images that texts ask for, as those of `mmie_step` do: `diffusers:MODEL`, or "
        "`images:MODEL,base_url=...` for a server; default: nothing is drawn"
    )
    group.add_argument("--t2i", default="", metavar="DRAWER:MODEL", help=t2i_help)
    model_help = "name of the tested model; default: by the answers' own run, file or folder"
    group.add_argument("--model", default="", metavar="NAME", help=model_help)
    limit_help = "only the first N samples of each task; default: all"
    group.add_argument("--limit", type=_count, metavar="N", help=limit_help)
    output_help = "folder of the results; default: `out/NAME`"
    group.add_argument("-o", "--output", type=_path, metavar="OUT", help=output_help)


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return int(text)


def check_answers(
    options: argparse.Namespace,
    selection: Mapping[BenchmarkEntry, Sequence[str]],
    environment: Mapping[str, str],
    *,
    downloads: bool,
) -> Iterator[Finding]:
    """Match the saved answers to the samples of each task, find their images, and check the drawer.

    Args:
        options: The arguments of `add_answer_options`.
        selection: Benchmark to tasks.
        environment: Where data are.
        downloads: Whether data that are not here are downloaded, as a run does.

    Yields:
        For each task ``mmie: answers 11 of 11, images 14 of 14``, which is the subject of a problem
        if some are missing; then what was left out of the files, and the drawer's signature.
    """
    from mmie_tasks.answers.matcher import AnswerMatcher
    from mmie_tasks.answers.saved import read_answers
    from mmie_tasks.benchmarks.model_answers import answer_folders_of_run
    from mmie_tasks.benchmarks.registry import dataset_names
    from mmie_tasks.benchmarks.task_answers import search_images

    try:
        if options.images and not options.images.is_dir():
            message = f"`--images {options.images}` is not a folder."
            raise AnswersUnusable(message, hint="`--images FOLDER`")
        saved = read_answers(options.answers, dataset_names())
    except MmieTasksError as error:
        yield Finding.of_error("answers", error)
        return
    matcher = AnswerMatcher(saved.answers)
    with answer_folders_of_run():
        for entry, tasks in selection.items():
            benchmark, files = entry.load(), entry.task_files()
            search_images([benchmark], options.answers, options.images)
            data = [one for one in benchmark.assets(tasks, environment) if ": data" in one.name]
            is_here = downloads or all(asset.is_here() for asset in data)
            for task in tasks:
                file = files.get(task) if is_here else None
                yield _check_task(task, file, benchmark, matcher, options, environment)
    notes = filter(None, (*saved.notes, matcher.of_no_sample))
    yield from (Finding("answers", note) for note in notes)
    if options.t2i:
        yield from checked("drawer", lambda: _check_drawer(options.t2i, environment))


def _check_drawer(choice: str, environment: Mapping[str, str]) -> str:
    from mmie_tasks.drawing.registry import open_drawer

    drawer = open_drawer(choice, environment)
    drawer.check()
    return drawer.signature


def _check_task(
    task: str,
    file: TaskFile | None,
    benchmark: Benchmark,
    matcher: AnswerMatcher,
    options: argparse.Namespace,
    environment: Mapping[str, str],
) -> Finding:
    """The finding on a task; without its file, its samples are not known yet."""
    from mmie_tasks.benchmarks.task_answers import answers_to

    later = Finding(task, "answers are matched when the run has its samples")
    if file is None:
        return later
    subject = task
    try:
        samples, all_ids = _samples(file, task, benchmark, matcher, options.limit, environment)
        found = answers_to(task, benchmark, matcher, samples, all_ids)
        subject, counts_missing = found.text, options.missing == "count"
        if not found.matched.count:
            raise matcher.no_match_error(task, samples)
        found.check(
            counts_missing=counts_missing,
            images_option="--images FOLDER",
            count_option="--missing count",
        )
    except NotImplementedError:  # the task file of another package loads the samples itself
        return later
    except MmieTasksError as error:
        return Finding.of_error(subject, error)
    return Finding(*subject.split(": ", 1))


def _samples(
    file: TaskFile,
    task: str,
    benchmark: Benchmark,
    matcher: AnswerMatcher,
    limit: int | None,
    environment: Mapping[str, str],
) -> tuple[list[RequestedSample], set[str]]:
    """The samples of a task within the limit, and the ids of all."""
    from mmie_tasks.answers.matcher import RequestedSample
    from mmie_tasks.benchmarks.task_answers import id_columns

    docs = benchmark.documents(str(file.content.get("dataset_name")), environment)
    columns = id_columns(docs)
    wordings = file.content.get("lmms_eval_specific_kwargs") or {}
    all_ids = {sample_id for column in columns for sample_id in column}
    of_others = any(one.task not in {None, task} and one.id in all_ids for one in matcher.saved)
    samples = [
        RequestedSample(
            ids=tuple(column[number] for column in columns),
            input=benchmark.doc_to_text(docs[number], wordings.get("default")) if of_others else "",
        )
        for number in range(min(len(docs), limit or len(docs)))
    ]
    return samples, all_ids
