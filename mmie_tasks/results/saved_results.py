"""The results file that lmms-eval saves next to the logs of samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mmie_tasks.record.log_files import SampleLog


class SavedResults(BaseModel):
    """What we read of a results file; every field is empty if there is no such file."""

    model_config = ConfigDict(frozen=True)

    config: Mapping[str, Any] = {}
    configs: Mapping[str, Mapping[str, Any]] = {}
    results: Mapping[str, Mapping[str, Any]] = {}
    n_samples: Mapping[str, Mapping[str, int]] = Field(default={}, alias="n-samples")

    @classmethod
    def of_log(cls, log: SampleLog) -> SavedResults:
        """The results file with a log's date in its folder; it may be another evaluation's, see
        `belongs_to`.
        """
        try:
            return cls.model_validate(log.read_results())
        except ValidationError:
            return cls()

    def belongs_to(self, task: str, doc_ids: range) -> bool:
        """Whether an evaluation with these results wrote a log of a task with these ``doc_id``.

        Evaluations that begin in the same second have one results file, the last one's.
        """
        if task not in self.results:
            return False
        if not doc_ids:
            return True
        first = int(self.offset or 0)
        effective = self.n_samples.get(task, {}).get("effective")
        return effective is None or (first <= doc_ids.start and doc_ids.stop <= first + effective)

    @property
    def options(self) -> Mapping[str, object]:
        """The options of the evaluation, by name."""
        command_line = self.config.get("resolved_cli_args")
        return {**self.config, **(command_line if isinstance(command_line, Mapping) else {})}

    @property
    def limit(self) -> float | None:
        """``--limit``."""
        return _number(self.config.get("limit"))

    @property
    def offset(self) -> float | None:
        """``--offset``."""
        return _number(self.config.get("offset"))

    @property
    def time_zone(self) -> str:
        """The time zone of the dates in the names of logs; empty if unknown."""
        return str(self.options.get("timezone") or "")

    def scores(self, task: str) -> dict[str, float]:
        """The runner's values of a task, by metric."""
        return {
            name.removesuffix(",none"): score
            for name, value in self.results.get(task, {}).items()
            if "_stderr" not in name and (score := _number(value)) is not None
        }

    def metadata(self, task: str) -> Mapping[str, object]:
        """The ``metadata`` of a task's configuration."""
        metadata = self.configs.get(task, {}).get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}


def _number(value: object) -> float | None:
    """A finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # JSON integers have no size limit
        return None
