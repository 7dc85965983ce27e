"""The program of ``make gpu`` on a CPU, with tiny models."""

import torch
from gpu import check
from gpu.check import parsed, run
from support.transformers_5 import needs_transformers_5

pytestmark = needs_transformers_5


def test_recorded_replies_pass_and_another_reply_fails(tmp_path, monkeypatch):
    parts = ("--parts", "float32", "speed", "server")
    chosen = parsed(["--device", "cpu", "--tiny", "--out", str(tmp_path), *parts])
    assert run(chosen) == 0
    printed = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert f"torch {torch.__version__}" in printed
    for name in ("official replies", "equal alone and in a batch"):
        assert f"| float32 | {name} | passed | 12 of 12; " in printed
    assert "| speed | equal in another order | measured | 8 of 8 |" in printed

    def replies(*arguments):
        keys = [prompt.key for prompt in arguments[-1]]
        return {key: [2] for key in keys}, {key: [1] for key in keys}

    monkeypatch.setattr(check, "alone_and_together", replies)
    chosen.parts = ["float32"]
    assert run(chosen) == 1
    assert "| failed | 0 of 12; " in (tmp_path / "table.md").read_text(encoding="utf-8")
