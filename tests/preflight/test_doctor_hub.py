"""Missing assets, with a loopback Hub; nothing large is downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.hub_files import SCORE, checkpoint_files, mmie_files
from support.hub_process import ask
from support.hub_server import COMMIT, HubServer

LOOK = """
import os
from dataclasses import asdict
from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK
from mmie_tasks.preflight.checks import asset_findings
answer = [asdict(finding) for finding in asset_findings(BENCHMARK.assets((), os.environ))]
"""
LOOK_AT_THE_JUDGE = """
import os
from dataclasses import asdict
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge, MmieScoreOptions
from mmie_tasks.preflight.checks import asset_findings
assets = MmieScoreJudge(MmieScoreOptions(), os.environ).assets()
answer = [asdict(finding) for finding in asset_findings(assets)]
"""
DOWNLOAD = f"""
from huggingface_hub import snapshot_download
answer = snapshot_download("{SCORE}")
"""


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer(mmie_files()) as server:
        yield server


@pytest.fixture
def models() -> Iterator[HubServer]:
    """A Hub that has the tiny checkpoint, as a model."""
    with HubServer(checkpoint_files()) as server:
        yield server


def data(hub: HubServer, home: Path) -> dict[str, Any]:
    return ask(hub.url, home, LOOK, HF_HUB_ETAG_TIMEOUT="10")[0]


def judge(url: str, home: Path, **more: str) -> list[dict[str, Any]]:
    findings = ask(url, home, LOOK_AT_THE_JUDGE, **more)
    return [finding for finding in findings if finding["subject"] != "mmie_score: packages"]


def test_missing_data_is_reported_with_its_size(hub: HubServer, tmp_path: Path) -> None:
    finding = data(hub, tmp_path)
    assert not finding["is_problem"]
    assert f"MMIE/MMIE@{COMMIT[:12]}: data.json, images.tar.gz: to fetch: " in finding["message"]
    assert "images.tar.gz" not in hub.downloads("GET")
    assert "data.json" not in hub.downloads("GET")


def test_gated_data_is_a_problem_with_a_hint(hub: HubServer, tmp_path: Path) -> None:
    hub.refuses(403, "GatedRepo")
    finding = data(hub, tmp_path)
    assert finding["is_problem"]
    assert "gated" in finding["message"]
    assert "accept the terms" in finding["hint"]
    assert len(hub.requests) <= 1  # none where huggingface_hub is older than 1.3: see `_metadata`


def test_a_socks_proxy_without_its_package_is_a_problem_with_the_reason(tmp_path: Path) -> None:
    proxy = "import sys; sys.modules['socksio'] = None; environ['ALL_PROXY'] = 'socks5://h:9'"
    code = f"from os import environ; {proxy}\n{LOOK}"
    finding = ask("http://127.0.0.1:9", tmp_path, code, NO_PROXY="")[0]
    assert finding["is_problem"]
    assert "SOCKS" in finding["message"]
    assert finding["hint"].startswith("`pip install socksio`")


def test_a_missing_checkpoint_is_not_downloaded(models: HubServer, tmp_path: Path) -> None:
    (finding,) = judge(models.url, tmp_path)
    assert not finding["is_problem"]
    assert f"{SCORE}@{COMMIT[:12]}: to fetch: " in finding["message"]
    assert models.downloads("GET") == []


def test_a_checkpoint_in_the_cache_is_opened(models: HubServer, tmp_path: Path) -> None:
    ask(models.url, tmp_path, DOWNLOAD)
    checkpoint, files, *_ = judge(models.url, tmp_path)
    assert checkpoint["message"] == f"{SCORE}@{COMMIT} is in the Hub's cache"
    assert files["subject"] == "mmie_score: files"
    assert not files["is_problem"]


def test_a_cached_checkpoint_can_be_used_without_the_hub(models: HubServer, tmp_path: Path) -> None:
    ask(models.url, tmp_path, DOWNLOAD)
    checkpoint, files, *_ = judge("http://127.0.0.1:9", tmp_path)  # nothing listens there
    assert not checkpoint["is_problem"]
    assert not files["is_problem"]
    assert "cannot be reached" in checkpoint["message"]


def test_a_missing_checkpoint_without_the_hub_is_a_problem(tmp_path: Path) -> None:
    (finding,) = judge("http://127.0.0.1:9", tmp_path)
    assert finding["is_problem"]
    assert "`model=`" in finding["hint"]


def test_a_partial_checkpoint_is_not_opened(models: HubServer, tmp_path: Path) -> None:
    ask(models.url, tmp_path, DOWNLOAD.replace('")', '", allow_patterns=["*.json"])'))
    (finding,) = judge(models.url, tmp_path)
    assert "to fetch: 0.7 MiB" in finding["message"]
