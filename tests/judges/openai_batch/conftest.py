from pathlib import Path

import pytest
from support.batch_asking import Asking, SeparateProcesses, echo
from support.judge_server import JudgeServer


@pytest.fixture
def server():
    with JudgeServer(echo, check=None) as server:
        yield server


@pytest.fixture
def asking(server: JudgeServer, tmp_path: Path) -> Asking:
    return Asking(server.url, tmp_path)


@pytest.fixture
def processes(asking: Asking) -> SeparateProcesses:
    return SeparateProcesses(asking)
