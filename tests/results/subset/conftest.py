"""Runs of the made-up benchmark `letters`."""

from __future__ import annotations

import pytest
from support.letters import make_run


@pytest.fixture
def task_run():
    return make_run
