"""What the functions of a task remember of samples, for one evaluation.

lmms-eval calls the functions that a task file names (``doc_to_messages``, ``process_results``) with
a sample and nothing about the run, so what they remember is kept in their modules, for the whole
process. The hooks have all of it forgotten when an evaluation begins: a process may evaluate
several times.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")

_MEMORIES: WeakSet[RunMemory[Any]] = WeakSet()  # all of this process: see above


class RunMemory(Generic[T]):
    """One value for each sample, until the next evaluation of this process begins."""

    def __init__(self) -> None:
        self._values: dict[str, T] = {}
        _MEMORIES.add(self)

    def remember(self, sample_id: str, value: T) -> None:
        """Remember a value of a sample; it replaces an earlier one."""
        self._values[sample_id] = value

    def of(self, sample_id: str) -> T | None:
        """The value of a sample; None if there is none."""
        return self._values.get(sample_id)

    def forget(self) -> None:
        """Forget the values of all samples."""
        self._values.clear()


def forget_last_run() -> None:
    """Forget what is remembered of the evaluation before, in all memories of this process."""
    for memory in list(_MEMORIES):
        memory.forget()
