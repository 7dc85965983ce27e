"""Errors of this package: in other processes, and in one line."""

import pickle

import pytest

from mmie_tasks.core.errors import DataMissing, first_line
from mmie_tasks.judges.base import JudgeMisconfigured


@pytest.mark.parametrize("kind", [DataMissing, JudgeMisconfigured])
def test_an_error_is_the_same_after_pickling(kind):
    error = pickle.loads(pickle.dumps(kind("No folder.", hint="`mkdir`")))  # noqa: S301 - made here
    assert (type(error), error.message, error.hint) == (kind, "No folder.", "`mkdir`")
    assert str(error) == "No folder.\n\nhint: `mkdir`"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (DataMissing("No folder.", hint="`mkdir`"), "No folder."),
        (ValueError("\n  out of memory \r\n at 0x1"), "out of memory"),
        (TimeoutError(), "TimeoutError"),
        (OSError(" \n"), "OSError"),
    ],
    ids=["message", "blank-first", "no-words", "blanks"],
)
def test_the_first_line_of_an_error_says_something(error, line):
    assert first_line(error) == line
