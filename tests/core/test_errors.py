"""Errors of this package in other processes."""

from __future__ import annotations

import pickle

import pytest

from mmie_tasks.core.errors import DataMissing, MmieTasksError
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
