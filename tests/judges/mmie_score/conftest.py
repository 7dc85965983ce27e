import pytest


@pytest.fixture
def gpus(monkeypatch):
    """A function that simulates GPUs, by their number."""
    import torch  # most tests of this folder need no torch

    def simulate(count):
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)

    return simulate
