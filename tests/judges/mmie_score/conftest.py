"""Simulated GPUs."""

from collections.abc import Callable

import pytest


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that simulates GPUs, by their number and compute capability."""
    import torch  # most tests of this folder need no torch

    def simulate(count: int, capability: tuple[int, int] = (9, 0)) -> None:
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)

    return simulate
