"""Errors of this package: in other processes, and in one line."""

from __future__ import annotations

import pickle

import pytest

from mmie_tasks.core.errors import DataMissing, MmieTasksError, first_line
from mmie_tasks.judges.base import JudgeMisconfigured


@pytest.mark.parametrize("kind", [DataMissing, JudgeMisconfigured])
def test_an_error_is_the_same_after_pickling(kind: type[MmieTasksError]) -> None:
    error = pickle.loads(pickle.dumps(kind("No folder.", hint="`mkdir`")))  # noqa: S301 - made here
    assert type(error) is kind
    assert (error.message, error.hint, str(error)) == (
        "No folder.",
        "`mkdir`",
        "No folder.\n\nhint: `mkdir`",
    )


@pytest.mark.parametrize(
    ("error", "line"),
    [
        pytest.param(DataMissing("No folder.", hint="`mkdir`"), "No folder.", id="message"),
        pytest.param(
            ValueError("\n  out of memory \r\n at 0x1"), "out of memory", id="blank-first"
        ),
        pytest.param(TimeoutError(), "TimeoutError", id="no-words"),
        pytest.param(OSError(" \n"), "OSError", id="blanks"),
    ],
)
def test_the_first_line_of_an_error_says_something(error: Exception, line: str) -> None:
    assert first_line(error) == line
