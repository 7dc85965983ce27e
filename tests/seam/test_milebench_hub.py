"""MileBench from the Hub through lmms-eval, with a Hub on the loopback interface."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.example import ANSWERS, DATA
from support.hub_server import COMMIT, HubServer
from support.runner import CommandResult, Workplace

from mmie_tasks.benchmarks.milebench.assets import PARTS, REPO


def archive(datasets: tuple[str, ...]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for dataset in datasets:
            tar.add(DATA / dataset, arcname=dataset)
    return content.getvalue()


@pytest.fixture(scope="module")
def hub() -> Iterator[HubServer]:
    with HubServer() as server:
        for part, datasets in enumerate(PARTS):
            server.holds(REPO, f"MileBench_part{part}.tar.gz", archive(datasets))
        yield server


def run(hub: HubServer, folder: Path, *model: str) -> CommandResult:
    workplace = Workplace(folder=folder)
    workplace.install_stub_model()
    return workplace.run(
        *("lmms-eval", "--tasks", "milebench_SlideVQA", *model), HF_ENDPOINT=hub.url, HF_HUB_OFFLINE="0"
    )


def test_one_dataset_downloads_only_its_archive_of_images(hub: HubServer, tmp_path: Path) -> None:
    result = run(hub, tmp_path, "--model", "stub", "--model_args", "answer=A")
    assert ("MileBench SlideVQA", "official") in result.values, result.output
    assert set(hub.requested_files("GET")) == {"MileBench_part4.tar.gz"}
    assert f"data:{COMMIT}" in result.output
    assert "is not the expected one: expected 2512746509 bytes" in result.output


def test_a_missing_archive_stops_the_run_with_a_message(tmp_path: Path) -> None:
    with HubServer() as empty:
        result = run(empty, tmp_path, "--model", "predictions", "--model_args", f"path={ANSWERS}")
    assert result.status == 1
    assert "`MILEBENCH_DATA`" in result.output
    assert "Traceback" not in result.output
