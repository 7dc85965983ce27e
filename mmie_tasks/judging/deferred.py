"""Rows of a sample that are filled in after judging.

The runner asks for the rows of one sample after the other, but a judge is fast only when it gets
all requests together. So `process_results` returns rows that wait: the first one whose fields are
read has everything judged. The runner itself reads no field of a row before it aggregates or
gathers them, in whichever order it reads the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

MetricRow: TypeAlias = dict[str, object]
MetricRows: TypeAlias = Mapping[str, MetricRow]


def _reading(name: str) -> Any:  # noqa: ANN401 - a method of dict
    read = getattr(dict, name)

    def read_after_judging(row: DeferredRow, *args: object) -> object:
        row.wait()
        return read(row, *args)

    return read_after_judging


class DeferredRow(dict[str, object]):
    """A row of one sample in one metric. Every way of reading it waits until it is filled in.

    Args:
        wait: Returns when the row is filled in.
    """

    __slots__ = ("_wait",)

    def __init__(self, wait: Callable[[], None]) -> None:
        # The encoder of json writes a dict of length 0, by the C struct, without asking for items.
        super().__init__(waits=True)
        self._wait: Callable[[], None] | None = wait

    def fill(self, row: MetricRow) -> None:
        """Fill in the row. Nothing waits for it from now on."""
        self.clear()
        self.update(row)
        self._wait = None

    def wait(self) -> None:
        """Wait until the row is filled in; it is empty if judging was stopped before."""
        if self._wait is not None:
            self._wait()
        if self._wait is not None:
            self.clear()

    __contains__ = _reading("__contains__")
    __eq__ = _reading("__eq__")
    __getitem__ = _reading("__getitem__")
    __iter__ = _reading("__iter__")  # dict() and ** call `keys` only where this is overridden
    __len__ = _reading("__len__")
    __ne__ = _reading("__ne__")
    __or__ = _reading("__or__")
    __repr__ = _reading("__repr__")
    copy = _reading("copy")
    get = _reading("get")
    items = _reading("items")
    keys = _reading("keys")
    values = _reading("values")

    def __reduce__(self) -> tuple[type[MetricRow], tuple[MetricRow]]:
        return dict, (dict(self),)


class RowsWithPlainScore(dict[str, object]):
    """Judged rows, with a plain score for the sample's log that is not a row.

    The log copies it with ``dict.update``, which calls no method of a subclass of dict as long as
    ``__iter__`` is not overridden. `items` leaves it out: the runner reads the rows of its table
    there, and gives a row that the task file does not list the value ``[]``
    (`consolidate_results` of lmms_eval/evaluator_utils.py).

    Args:
        rows: Metric to row.
        plain: What the log has in addition; empty for an unscored sample.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: MetricRows, plain: Mapping[str, object]) -> None:
        super().__init__({**plain, **rows})
        self._rows: dict[str, object] = dict(rows)

    def items(self) -> Any:  # noqa: ANN401 - as `dict.items`
        """The rows, without the plain score."""
        return self._rows.items()
