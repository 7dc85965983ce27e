"""The entry point through which lmms-eval loads this package."""

from __future__ import annotations

import pytest
from lmms_eval.models.registry_v2 import ModelRegistryV2

from mmie_tasks.runner import entry_point


def test_any_exception_of_ours_ends_the_runner_and_names_this_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise OSError(36, "File name too long")

    monkeypatch.setattr(entry_point, "install", fail)
    with pytest.raises(SystemExit) as end:
        ModelRegistryV2().load_entrypoint_manifests()
    assert {"mmie-tasks", "OSError:", "36]"} <= set(str(end.value).split())
    assert "test_entry_point.py" in capsys.readouterr().err  # where it happened
