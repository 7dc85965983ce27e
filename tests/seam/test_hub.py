"""Data from a Hub on the loopback interface through lmms-eval, in one run of two benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support.example import ANSWERS, archive
from support.hub_files import ARCHIVE, mmie_files
from support.hub_files import MMIE as MMIE_REPO
from support.hub_server import COMMIT, HubServer
from support.judge_server import JudgeServer
from support.loopback import Request
from support.mmie_judge import by_category
from support.mmie_seam import KEY, TABLE, N, create_workplace, evaluate, printed
from support.runner import CommandResult

from mmie_tasks.benchmarks.milebench.data import PARTS, REPO


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRun:
    """A run without local data, and the requests that the Hub got."""

    result: CommandResult
    requests: list[Request]

    def downloads(self, repo: str) -> set[str]:
        return {
            one.filename for one in self.requests if one.method == "GET" and f"/{repo}/" in one.path
        }


@pytest.fixture(scope="module")
def hub_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubRun]:
    """A process of its own: libraries read the address of the Hub when they are imported."""
    workplace = create_workplace(tmp_path_factory.mktemp("hub_run"))
    online = {"HF_HUB_OFFLINE": "0", "HF_DATASETS_OFFLINE": "0", "MMIE_DATA": ""}
    answers = ("--model", "predictions", "--model_args", f"path=answers.json;{ANSWERS}")
    with (
        HubServer(mmie_files(N, "MMIE/images/")) as hub,
        JudgeServer(by_category, key=KEY) as judge,
    ):
        for part, datasets in enumerate(PARTS):
            hub.holds(REPO, f"MileBench_part{part}.tar.gz", archive(datasets))
        tasks = "mmie,milebench_SlideVQA"
        result = evaluate(
            workplace, *answers, tasks=tasks, url=judge.url, HF_ENDPOINT=hub.url, **online
        )
        yield HubRun(result=result, requests=hub.requests)


def test_of_mmie_only_the_data_and_its_images_are_downloaded(hub_run: HubRun) -> None:
    assert TABLE.items() <= printed(hub_run.result).items(), hub_run.result.output
    assert f"|data:MMIE/MMIE@{COMMIT}" in hub_run.result.output
    assert hub_run.downloads(MMIE_REPO) == {"data.json", ARCHIVE}


def test_one_dataset_of_milebench_downloads_only_its_archive_of_images(hub_run: HubRun) -> None:
    assert ("MileBench SlideVQA", "official") in hub_run.result.values, hub_run.result.output
    assert hub_run.downloads(REPO) == {"MileBench_part4.tar.gz"}
    assert f"data:{COMMIT}" in hub_run.result.output
