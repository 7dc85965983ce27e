import pytest
from support.judge_server import JudgeServer


@pytest.fixture
def server():
    with JudgeServer("5") as server:
        yield server
