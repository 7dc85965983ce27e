"""`mmie-tasks serve` gives `vllm serve` the folder of a checkpoint.

A package with the name of vLLM prints its arguments.
"""

import os
from pathlib import Path

import pytest
from support.hub_files import SCORE, checkpoint_files
from support.hub_process import ask
from support.hub_server import COMMIT, HubServer
from support.internvl_golden import CHECKPOINT

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score import serve
from mmie_tasks.judges.mmie_score.checkpoint import locate, open_checkpoint

SERVE = """
import os, sys
sys.path.append(VLLM)
from mmie_tasks.judges.mmie_score import serve
serve.run(WORDS, {**os.environ, "PYTHONPATH": VLLM})
"""


@pytest.fixture
def hub():
    with HubServer(checkpoint_files()) as server:
        yield server


@pytest.fixture
def vllm(tmp_path):
    folder = tmp_path / "packages"
    for path, text in {
        "vllm-0.33.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.33.0\n",
        "vllm/__init__.py": "",
        "vllm/entrypoints/cli/main.py": "import json, sys\nprint(json.dumps(sys.argv[1:]))\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def served(hub, home, vllm, *words, **more):
    """The arguments of `vllm`."""
    return ask(hub.url, home, f"VLLM, WORDS = {str(vllm)!r}, {words!r}\n{SERVE}", **more)


def test_a_repository_is_downloaded_once_and_its_folder_is_served(hub, tmp_path, vllm):
    command, folder, *options = served(hub, tmp_path, vllm, SCORE, "--port", "8001")
    assert command == "serve"
    assert Path(folder).parts[-3:] == ("models--MMIE--MMIE-Score", "snapshots", COMMIT)
    digest = open_checkpoint(locate(str(CHECKPOINT), None)).digest
    named = ["--served-model-name", f"MMIE-Score@{digest}", "MMIE-Score"]
    assert options[-5:] == [*named, "--port", "8001"]
    downloads = hub.downloads()
    assert len(downloads) == len({*downloads}) > 0
    again = served(hub, tmp_path, vllm, f"{SCORE}@{COMMIT}", HF_HUB_OFFLINE="1")
    assert Path(again[1]).parts[-3:] == Path(folder).parts[-3:]
    assert hub.downloads() == downloads


@pytest.mark.parametrize("release", ["", "0.31.2", "0.34.0"])
def test_without_vllm_the_hint_says_what_to_install(monkeypatch, release):
    monkeypatch.setattr(serve, "_release", lambda name: release if name == "vllm" else "")
    with pytest.raises(JudgeMisconfigured, match=r"mmie-tasks\[vllm\]") as refused:
        serve.run([str(CHECKPOINT)], os.environ)
    assert release in str(refused.value)
