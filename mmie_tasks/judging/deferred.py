"""Rows of a sample that are filled in after judging.

What `DeferredRows` relies on is written down as a test, `tests/judging/test_deferred.py`: that
``dict.update`` of CPython copies a subclass of dict without calling its methods, as long as
``__iter__`` is not overridden, and that the runner reads the rows after it has copied them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_values

MetricRow: TypeAlias = dict[str, object]
MetricRows: TypeAlias = Mapping[str, MetricRow]


class DeferredRows(dict[str, object]):
    """Rows by metric. Reading them waits until they are judged; copying the dict does not.

    The runner copies it into the log with ``dict.update``, which takes the inner dicts as they
    are; these are the ones that are filled in. ``__iter__`` is not overridden: copying would wait.

    Args:
        metrics: The metrics that every sample has; each starts with an empty row.
        wait: Called before every read; returns when the rows are filled in.
    """

    __slots__ = ("_wait",)

    def __init__(self, metrics: Sequence[str], wait: Callable[[], None]) -> None:
        super().__init__({metric: {} for metric in metrics})
        self._wait = wait

    def fill(self, rows: MetricRows) -> None:
        """Fill the rows in place and add those of further metrics. Does not wait."""
        for metric, row in rows.items():
            deferred_row = super().setdefault(metric, {})
            if isinstance(deferred_row, dict):
                deferred_row.update(row)

    def items(self) -> dict_items[str, object]:
        """As `dict.items`, after judging."""
        self._wait()
        return super().items()

    def values(self) -> dict_values[str, object]:
        """As `dict.values`, after judging."""
        self._wait()
        return super().values()

    def __getitem__(self, key: str) -> object:
        self._wait()
        return super().__getitem__(key)

    def get(self, key: str, default: object = None) -> object:
        """As `dict.get`, after judging."""
        self._wait()
        return super().get(key, default)

    def __reduce__(self) -> tuple[type[dict[str, object]], tuple[dict[str, object]]]:
        self._wait()
        return dict, (dict(super().items()),)


class RowsWithPlainScore(dict[str, object]):
    """Judged rows, with a plain score for the sample's log that is not a row.

    The log copies it with ``dict.update``, as `DeferredRows` says. `items` leaves it out: the
    runner reads the rows of its table there, and gives a row that the task file does not list the
    value ``[]`` (`consolidate_results` of lmms_eval/evaluator_utils.py).

    Args:
        rows: Metric to row.
        plain: What the log has in addition; empty for an unscored sample.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: MetricRows, plain: Mapping[str, object]) -> None:
        super().__init__({**plain, **rows})
        self._rows: dict[str, object] = dict(rows)

    def items(self) -> dict_items[str, object]:
        """The rows, without the plain score."""
        return self._rows.items()
