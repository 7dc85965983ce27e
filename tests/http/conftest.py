import pytest
from loguru import logger


@pytest.fixture
def lines():
    """What is logged from the level INFO on, as a list of levels and messages."""
    logged: list[str] = []
    sink = logger.add(logged.append, level="INFO", format="{level} {message}")
    yield logged
    logger.remove(sink)
