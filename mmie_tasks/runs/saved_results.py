"""The results file that lmms-eval saves next to the logs of samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mmie_tasks.record.log_files import parse_log_name


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedResults:
    """The contents of a results file; a field is empty if the file lacks it."""

    options: Mapping[str, object] = field(default_factory=dict)  # its config and command line
    limit: float | None = None
    offset: float | None = None
    time_zone: str = ""
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # task, metric, value
    judges: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # task, choices
    metadata: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # task, entries


def read_saved_results(log: Path) -> SavedResults:
    """Read the results file of the evaluation that wrote a log; empty if that fails."""
    name = parse_log_name(log)
    if name is None:
        return SavedResults()
    saved = name.read_results()
    config = _object(saved.get("config"))
    metadata = {
        task: _object(_object(of_task).get("metadata"))
        for task, of_task in _object(saved.get("configs")).items()
    }
    command_line = _object(config.get("resolved_cli_args"))
    time_zone = command_line.get("timezone")
    return SavedResults(
        options={**config, **command_line},
        limit=_number(config.get("limit")),
        offset=_number(config.get("offset")),
        time_zone=time_zone if isinstance(time_zone, str) else "",
        scores={
            task: _scores(_object(of_task))
            for task, of_task in _object(saved.get("results")).items()
        },
        judges={task: _judges(entries) for task, entries in metadata.items()},
        metadata=metadata,
    )


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float | None:
    """A finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # JSON integers have no size limit
        return None


def _scores(metrics: Mapping[str, object]) -> dict[str, float]:
    return {
        name.removesuffix(",none"): score
        for name, value in metrics.items()
        if "_stderr" not in name and (score := _number(value)) is not None
    }


def judge_metadata(choices: Sequence[str | None], machine: str | None) -> dict[str, object]:
    """The fields of a task's ``metadata`` in the results that say what judged it.

    ``judges`` is read again into `SavedResults.judges`. None in place of a choice means that it may
    hold a secret: then no choice is written. ``judged_on`` is the machine that computed the replies
    of a judge in this process.
    """
    return {
        **({} if None in choices else {"judges": list(choices)}),
        **({"judged_on": machine} if machine else {}),
    }


def _judges(metadata: Mapping[str, object]) -> tuple[str, ...]:
    texts = metadata.get("judges")
    return tuple(map(str, texts)) if isinstance(texts, list) else ()
