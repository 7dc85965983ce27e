from pathlib import Path

import pytest
from support.batch_asking import Asking, SeparateProcesses, echo
from support.batch_server import BatchServer, batch_server


@pytest.fixture
def server():
    with batch_server() as server:
        server.reply = echo
        yield server


@pytest.fixture
def asking(server: BatchServer, tmp_path: Path) -> Asking:
    return Asking(server.url, tmp_path)


@pytest.fixture
def processes(asking: Asking) -> SeparateProcesses:
    return SeparateProcesses(asking)
