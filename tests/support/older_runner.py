"""A model whose run reads the rows of each sample before the next one is scored.

That is the order of lmms-eval before its pull request 1477, ``evaluator.py``; its version says
nothing about it. Only for runs of lmms-eval in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lmms_eval import evaluator

from support.stub_model import StubChat


class StubInOlderRunner(StubChat):
    """The stub. When it has answered everything, the runner gets its older order."""

    def clean(self) -> None:
        evaluator._thread_map_ordered = one_after_the_other
        super().clean()


def one_after_the_other(
    process: Callable[[Any], Any], documents: Iterable[Any], **_options: object
) -> list[Any]:
    """Score documents and read their rows, one after the other."""
    scored = []
    for document in documents:
        scored.append(process(document))
        table = [row for _, row in scored[-1].metrics.items()]
        assert table
    return scored
