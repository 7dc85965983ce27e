import pytest
from loguru import logger
from support.judge_server import JudgeServer


@pytest.fixture
def server():
    with JudgeServer("5") as server:
        yield server


@pytest.fixture
def log():
    """Everything that is logged, as a list of texts."""
    lines: list[str] = []
    sink = logger.add(lines.append, level=0, backtrace=True, diagnose=True)
    yield lines
    logger.remove(sink)
