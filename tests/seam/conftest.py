"""Fixtures of runs of MMIE: a folder with data and answers, and a judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.judge_server import JudgeServer
from support.mmie_judge import by_category
from support.mmie_seam import KEY, create_workplace
from support.runner import Workplace


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    return create_workplace(tmp_path)


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    with JudgeServer(by_category, key=KEY) as server:
        yield server
