"""Checks the pair of ``--model interleaved`` for ``mmie-tasks doctor``, and computes its workload.
Nothing is written or drawn, and nothing large is downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mmie_tasks.benchmarks.registry import entry_of_task
from mmie_tasks.core.command import as_called
from mmie_tasks.core.errors import DataMissing, MmieTasksError, SettingWrong, first_line
from mmie_tasks.http.model_list import check_model_lists
from mmie_tasks.http.pace import Pace
from mmie_tasks.hub.asset import Check
from mmie_tasks.hub.failures import download_errors
from mmie_tasks.interleaved.protocols import PictureProtocol
from mmie_tasks.interleaved.registry import open_drawer
from mmie_tasks.preflight.findings import Finding, problem_from, run_check
from mmie_tasks.runner.pair_arguments import PairArguments, parse_pair_arguments, split_arguments
from mmie_tasks.runner.pair_writer import writer_access, writer_model

_TIMEOUT_S = 10.0


def check_pair(model_args: str, tasks: Sequence[str]) -> Iterator[Finding]:
    """The findings on a pair: its arguments, the writer, the drawer, and each task's workload.

    The default task is ``mmie``.
    """
    try:
        arguments = parse_pair_arguments(split_arguments(model_args))
    except MmieTasksError as error:
        yield problem_from("model interleaved", error)
        return
    yield from run_check(Check(subject="writer", describe=partial(_check_writer, arguments)))
    price_usd: float | None = None
    if arguments.drawer is not None:
        try:
            drawer = open_drawer(arguments.drawer, os.environ)
        except MmieTasksError as error:
            yield problem_from("drawer", error)
        else:
            price_usd = drawer.price_usd
            yield from run_check(Check(subject="drawer", describe=drawer.describe))
    for task in tasks or ("mmie",):
        describe = partial(_describe_task, task, arguments.words, price_usd)
        yield from run_check(Check(subject=f"{task}: words", describe=describe))


def _check_writer(arguments: PairArguments) -> str:
    """Where the writer is; raises `MmieTasksError` if its server or files cannot be used."""
    options = arguments.writer_arguments
    if (access := writer_access(arguments)) is None:
        return _files_of(str(options["pretrained"])) if options.get("pretrained") else ""
    model = writer_model(arguments)
    check_model_lists(access, model, Pace().check_s, SettingWrong)
    return f"`{model}` at {access.address}"


def _files_of(name: str) -> str:
    """Where the files of a model are: a folder, the Hub's cache, or the Hub."""
    from huggingface_hub import model_info, try_to_load_from_cache

    from mmie_tasks.hub.failures import explain

    if Path(name).expanduser().is_dir():
        return f"the folder `{name}` is here"
    try:
        if isinstance(try_to_load_from_cache(name, "config.json"), str):
            return f"`{name}` is in the Hub's cache"
        model_info(name, timeout=_TIMEOUT_S)
    except ValueError:  # a name with more than one slash
        raise DataMissing(
            f"There is no folder `{name}`.", hint="a folder, or a repository as `owner/name`"
        ) from None
    except download_errors() as error:
        why = explain(error, repo=name, revision="main", kind="model")
        raise DataMissing(f"`{name}` cannot be downloaded: {why.reason}.", hint=why.hint) from error
    return f"`{name}` is on the Hub: a run downloads it"


def _describe_task(task: str, words: PictureProtocol | None, price_usd: float | None) -> str:
    """The words for the first sample with pictures in its answer, and the task's workload."""
    entry = entry_of_task(task)
    benchmark = entry.load() if entry else None
    if benchmark is None or not benchmark.has_picture_answers:
        return "no pictures in answers: asked as without a drawer"
    limit_of, assets = benchmark.picture_limit, benchmark.assets([task], os.environ)
    data = [asset for asset in assets if ": data" in asset.name and asset.origin == "hub"]
    if missing := [asset for asset in data if not asset.is_here()]:
        raise DataMissing(
            f"The words and the numbers need the data, and `{missing[0].name}` is not here.",
            hint=f"`{as_called('mmie-tasks prefetch')} {task}`",
        )
    loaded = _load(task)
    docs = loaded.eval_docs_no_media
    lines = [workload(docs, limit_of, price_usd)]
    if (doc := next((doc for doc in docs if limit_of(doc)), None)) is not None:
        question = loaded.config.doc_to_text(doc, loaded.lmms_eval_specific_kwargs)
        asked = f"{question}\n\n{words.instruction(limit_of(doc))}" if words else question
        lines = [f"the writer gets, of sample `{doc.get('id')}`:", asked, *lines]
    return "\n".join(lines)


def _load(task: str) -> Any:  # noqa: ANN401 - the runner's
    from datasets import disable_progress_bars
    from lmms_eval.tasks import TaskManager, get_task_dict

    disable_progress_bars()
    try:
        return get_task_dict([task], TaskManager(model_name="interleaved"), "chat")[task]
    except SystemExit as error:  # our tasks end a run so: see their `process_docs`
        if isinstance(error.__cause__, MmieTasksError):
            raise error.__cause__ from None
        raise DataMissing(
            f"The data of `{task}` cannot be loaded: {first_line(error)}",
            hint="see what its package says about its data",
        ) from None


def workload(
    docs: Iterable[Mapping[str, Any]], limit_of: Callable[[Any], int], price_usd: float | None
) -> str:
    """The number of texts and pictures that samples ask for, and the price, in one line.

    The judge sees at most `limit_of` a sample's pictures. The price is that of a picture: 0 if it
    is free, None if unknown.
    """
    limits = list(map(limit_of, docs))
    cost = "price not known"
    if price_usd == 0:
        cost = "no picture is paid for"
    elif price_usd is not None:
        cost = f"pictures for at most {price_usd * sum(limits):,.2f} USD, without the writer"
    requests = f"{len(limits):,} requests to the writer"
    return f"{requests} and at most {sum(limits):,} pictures; {cost}"
