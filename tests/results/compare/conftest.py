"""Runs of a benchmark that is only letters."""

from __future__ import annotations

import pytest
from support.letters import make_run


@pytest.fixture
def task_run():
    return make_run
