import os

import pytest
from support.hub_files import archive
from support.hub_process import ask, assets
from support.hub_server import COMMIT, HubServer

from mmie_tasks.benchmarks.milebench.data import PARTS, REPO

ASK = """
import os
from mmie_tasks.benchmarks.milebench.data import dataset_folder
folder, revision = dataset_folder("{dataset}", os.environ)
answer = {{"folder": str(folder), "revision": revision}}
"""


def packed(*datasets, prefix="", filler=0):
    noise = [("filler", os.urandom(filler))] if filler else []
    return archive([*((f"{prefix}{one}/{one}.json", b"{}") for one in datasets), *noise])


@pytest.fixture
def hub():
    with HubServer() as server:
        for part, datasets in enumerate(PARTS):
            server.holds(REPO, f"MileBench_part{part}.tar.gz", packed(*datasets))
        yield server


def load(hub, home, dataset, **more):
    return ask(hub.url, home, ASK.format(dataset=dataset), **more)


def test_the_table_has_29_datasets_in_six_archives():
    names = [name for part in PARTS for name in part]
    assert len(PARTS) == 6
    assert len(set(names)) == len(names) == 29


def test_only_the_archive_with_the_dataset_is_downloaded(hub, tmp_path):
    answer = load(hub, tmp_path, "OCR-VQA")
    folder = assets(tmp_path, REPO) / COMMIT / "MileBench_part4/OCR-VQA"
    assert answer == {"folder": str(folder), "revision": COMMIT}
    assert (folder / "OCR-VQA.json").is_file()
    assert set(hub.downloads("HEAD") + hub.downloads("GET")) == {"MileBench_part4.tar.gz"}


def test_an_archive_without_the_dataset_is_listed(hub, tmp_path):
    hub.holds(REPO, "MileBench_part4.tar.gz", packed("nuscenes"))
    answer = load(hub, tmp_path, "SlideVQA")
    assert answer["error"] == "DataBroken"
    assert "should contain `SlideVQA/SlideVQA.json`, and contains nuscenes" in answer["message"]


def test_an_unpacked_archive_is_used_offline(hub, tmp_path):
    online = load(hub, tmp_path, "WebQA")
    n_requests = len(hub.requests)
    assert load(hub, tmp_path, "WebQA", HF_HUB_OFFLINE="1") == online
    assert load(hub, tmp_path, "WikiVQA") == {
        "folder": online["folder"].replace("WebQA", "WikiVQA"),
        "revision": COMMIT,
    }
    assert len(hub.requests) == n_requests
