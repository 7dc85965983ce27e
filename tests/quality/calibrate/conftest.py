"""Runs of two made-up models."""

from __future__ import annotations

import pytest
from support.logged_runs import mmie_lines, write_run

from mmie_tasks.results.commands import open_run
from mmie_tasks.runs.run import TaskRun


@pytest.fixture(scope="session")
def task_run(tmp_path_factory: pytest.TempPathFactory) -> TaskRun:
    """300 samples, some of them unscored."""
    folder = tmp_path_factory.mktemp("runs") / "model"
    write_run(folder, "mmie", mmie_lines(300, unscored=0.05))
    return open_run(str(folder)).tasks["mmie"]


@pytest.fixture(scope="session")
def other_run(tmp_path_factory: pytest.TempPathFactory) -> TaskRun:
    """Another model, which is better."""
    folder = tmp_path_factory.mktemp("runs") / "other"
    write_run(folder, "mmie", mmie_lines(300, unscored=0.05, answers="other", skill=0.8))
    return open_run(str(folder)).tasks["mmie"]
