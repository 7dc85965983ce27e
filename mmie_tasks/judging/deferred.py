"""Rows of a sample that are filled in after judging.

The runner requests the rows of each sample in turn, but a judge is fast only when it gets all
requests together. So `process_results` returns rows that wait: the first read of a row's fields
starts the judging of all samples. The runner reads no fields before it aggregates or gathers rows.
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
    """A sample's row in one metric; every read waits until it is filled in.

    Args:
        wait: Returns when the row is filled in.
    """

    __slots__ = ("_wait",)

    def __init__(self, wait: Callable[[], None]) -> None:
        # The json encoder writes a dict of length 0 (in its C struct) without calling `items`.
        super().__init__(waits=True)
        self._wait: Callable[[], None] | None = wait

    def fill(self, row: MetricRow) -> None:
        """Fills in the row; reads no longer wait."""
        self.clear()
        self.update(row)
        self._wait = None

    def wait(self) -> None:
        """Waits until the row is filled in; it is empty if judging was stopped."""
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
