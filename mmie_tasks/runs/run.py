"""A run: what one tested model left of one or more tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mmie_tasks.review import Reviewed, Reviewer
from mmie_tasks.rooms import Room


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """One task of a run.

    Attributes:
        task: Its name in lmms-eval.
        room: The benchmark it is of.
        review: What the benchmark knows of its logs.
        log: The file that was read.
        samples: In the order of the log; ids are unique.
        notes: What a reader of the numbers should know: lines cut off, samples that stood twice.
        stored: The numbers in the results file beside the log, metric to value; empty where there
            is no such file.
    """

    task: str
    room: Room
    review: Reviewer
    log: Path
    samples: tuple[Reviewed, ...]
    notes: tuple[str, ...] = ()
    stored: Mapping[str, float] = field(default_factory=dict)

    @property
    def signatures(self) -> tuple[str, ...]:
        """Every signature that a sample has, in the order of the log; more than one is unusual."""
        return tuple(dict.fromkeys(sample.signature for sample in self.samples))

    @property
    def by_id(self) -> dict[str, Reviewed]:
        """The samples by their ids."""
        return {sample.id: sample for sample in self.samples}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one tested model left.

    Attributes:
        name: For people; unique among the runs that are looked at together.
        folder: Where its files are.
        date: As the runner wrote it, of its newest log.
        tasks: Name to task, in alphabetical order.
        notes: What was found and left alone.
    """

    name: str
    folder: Path
    date: str
    tasks: Mapping[str, TaskRun]
    notes: tuple[str, ...] = ()
