"""Rows of a benchmark's data files that cannot be used: left out and counted, or an error."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from loguru import logger

from mmie_tasks.core.errors import BadSample, DataBroken
from mmie_tasks.core.settings import choice_setting

_Sample = TypeVar("_Sample")

_ODD_ROWS_SETTING = "MMIE_TASKS_ODD_ROWS"
_MAX_ODD_PERCENT = 10  # a file with more unusable rows is not the benchmark's data file
_NAMED_ROWS = 3


class OddRows:
    """The rows of one task's data files that cannot be used.

    Args:
        title: Title of the benchmark.
        repair: What to do about a broken file; the hint of the errors.
        environment: Read: ``MMIE_TASKS_ODD_ROWS``, which is ``skip`` (default) or ``stop``.

    Raises:
        SettingWrong: The variable has another value.
    """

    def __init__(self, title: str, repair: str, environment: Mapping[str, str]) -> None:
        self._title, self._repair = title, repair
        hint = f"`export {_ODD_ROWS_SETTING}=skip` counts unusable rows and leaves them out"
        self._stop = (
            choice_setting(environment, _ODD_ROWS_SETTING, "skip", "stop", hint=hint) == "stop"
        )
        self._problems: dict[tuple[Path, int], str] = {}
        self._total = 0

    def usable(
        self,
        file: Path,
        rows: Iterable[object],
        read: Callable[[int, object], _Sample],
        id_of: Callable[[_Sample], str],
    ) -> list[_Sample]:
        """The samples of the rows that can be used; the others are left out.

        Ids must be unique, because answers are matched to samples by them: the first row counts.

        Args:
            file: The data file.
            rows: Its rows.
            read: Position and row to the sample. Raises `BadSample` for a row that cannot be used.
            id_of: The id of a sample.

        Raises:
            DataBroken: A row cannot be used, and the setting is ``stop``.
        """
        samples: dict[str, _Sample] = {}
        positions: dict[str, int] = {}
        for position, row in enumerate(rows):
            try:
                sample = read(position, row)
            except BadSample as error:
                self._leave_out(file, position, str(error))
                continue
            id_ = id_of(sample)
            if (first := positions.setdefault(id_, position)) == position:
                samples[id_] = sample
            else:
                self._leave_out(
                    file, position, f"row {position}: the id {id_!r} is that of row {first}"
                )
        return list(samples.values())

    def _leave_out(self, file: Path, row: int, problem: str) -> None:
        if self._stop:
            raise DataBroken(f"`{file}`: {problem}.", hint=self._repair)
        self._problems[file, row] = problem

    def check(self, file: Path, usable: int) -> None:
        """Check that most rows of a file can be used.

        Args:
            file: The data file.
            usable: How many of its rows can be used.

        Raises:
            DataBroken: More than 10 percent of all its rows cannot.
        """
        problems = [problem for (path, _), problem in self._problems.items() if path == file]
        total = usable + len(problems)
        self._total += total
        if 100 * len(problems) > _MAX_ODD_PERCENT * total:
            share = f"{len(problems):,} of {total:,} rows cannot be used"
            raise DataBroken(
                f"`{file}`: {problems[0]}. {share}, more than {_MAX_ODD_PERCENT} %.",
                hint=self._repair,
            )

    def report(self) -> str:
        """Log one warning about the rows that are left out, with the first of them.

        Returns:
            Their number and digest, for the data's revision: ``,left_out=1,rows=1f0c9a``; empty
            without such rows.
        """
        if not self._problems:
            return ""
        named = [f"`{file.name}`: {problem}" for (file, _), problem in self._problems.items()]
        more = ["..."] if len(named) > _NAMED_ROWS else []
        logger.warning(
            f"{self._title}: {len(named):,} of {self._total:,} rows cannot be used and are left "
            f"out, as the signature says (`{_ODD_ROWS_SETTING}=stop` ends the run instead). "
            + "; ".join([*named[:_NAMED_ROWS], *more])
        )
        rows = sorted(f"{file.name}:{row}" for file, row in self._problems)
        digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()[:6]
        return f",left_out={len(rows)},rows={digest}"
