"""Data from a Hub on the loopback interface through lmms-eval, in one run of two benchmarks."""

from __future__ import annotations

from support.example import ANSWERS, archive
from support.hub_files import ARCHIVE, MMIE, mmie_files
from support.hub_server import COMMIT, HubServer
from support.judge_server import JudgeServer
from support.mmie_judge import by_category
from support.mmie_seam import KEY, TABLE, N, evaluate, printed
from support.runner import Workplace

from mmie_tasks.benchmarks.milebench.data import PARTS, REPO


def test_a_run_downloads_the_data_of_its_tasks_and_nothing_else(workplace: Workplace) -> None:
    """A process of its own: libraries read the address of the Hub when they are imported."""
    online = {"HF_HUB_OFFLINE": "0", "HF_DATASETS_OFFLINE": "0", "MMIE_DATA": ""}
    answers = ("--model", "predictions", "--model_args", f"path=answers.json;{ANSWERS}")
    tasks = "mmie,milebench_SlideVQA"
    with (
        HubServer(mmie_files(N, "MMIE/images/")) as hub,
        JudgeServer(by_category, key=KEY) as judge,
    ):
        for part, datasets in enumerate(PARTS):
            hub.files[REPO, f"MileBench_part{part}.tar.gz"] = archive(datasets)
        online["HF_ENDPOINT"] = hub.url
        result = evaluate(workplace, *answers, tasks=tasks, url=judge.url, **online)
        got = [request for request in hub.requests if request.method == "GET"]
    assert TABLE.items() <= printed(result).items(), result.output
    assert ("MileBench SlideVQA", "official") in result.values, result.output
    assert f"|data:MMIE/MMIE@{COMMIT}" in result.output
    assert f"data:{COMMIT}" in result.output
    downloads = {
        repo: {request.filename for request in got if f"/{repo}/" in request.path}
        for repo in (MMIE, REPO)
    }
    assert downloads == {MMIE: {"data.json", ARCHIVE}, REPO: {"MileBench_part4.tar.gz"}}
