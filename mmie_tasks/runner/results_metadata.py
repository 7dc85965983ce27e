"""Adds a benchmark's data, settings, signature and judges to the runner's results file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.runner.loaded_tasks import Task, is_predict_only


def add_data(task: Task) -> None:
    """Add the revision or digest of the task's data as ``data`` to its metadata, when it is loaded.

    The runner derives the keys of ``--use_cache`` from a task's configuration and the texts of
    requests, not from images (``caching/response_cache.py``), so that answers to other data with
    the same texts would be reused.
    """
    if data := task.eval_docs_no_media[0].get("data"):
        task.config.metadata = {**(task.config.metadata or {}), "data": data}


def add_signatures(
    configs: dict[str, dict[str, Any]],
    tasks: Mapping[str, Task],
    benchmarks: Mapping[Task, Benchmark],
) -> None:
    """Add changed settings, ``signature`` and `judge_metadata` to a task's metadata in the results,
    after judging.

    A judge in this process fixes its signature when it starts, so this cannot be done earlier. The
    task's own configuration stays unchanged: the runner derives the key of its cache of answers
    from it, which must not change with the judge. `configs` has a task's configuration in the
    results.
    """
    for name, task in tasks.items():
        benchmark = benchmarks.get(task)
        if benchmark is None or is_predict_only(task):
            continue
        metadata = configs[name].setdefault("metadata", {})
        metadata |= benchmark.settings.model_dump(mode="json", exclude_defaults=True)
        metadata["signature"] = str(benchmark.signature(task.eval_docs_no_media[0]))
        if benchmark.judge is not None:
            texts = [choice.text for choice in benchmark.judge.choices().judges]
            metadata |= judge_metadata(texts, benchmark.judge.machine())


def judge_metadata(choices: Sequence[str | None], machine: str | None) -> dict[str, object]:
    """The fields of a task's ``metadata`` in the results that say what judged it.

    `judges_of` reads ``judges`` again. None in place of a choice means that it may hold a secret:
    then no choice is written. ``judged_on`` is the machine that computed the replies of a judge in
    this process.
    """
    return {
        **({} if None in choices else {"judges": list(choices)}),
        **({"judged_on": machine} if machine else {}),
    }


def judges_of(metadata: Mapping[str, object]) -> tuple[str, ...]:
    """The choices of judges that `judge_metadata` wrote; empty if there are none."""
    texts = metadata.get("judges")
    return tuple(map(str, texts)) if isinstance(texts, list) else ()
