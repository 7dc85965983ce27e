"""MMIE from the Hub: what is asked for, what is kept, and what is said when it cannot be had."""

from pathlib import Path

import pytest
from support.hub_files import ANNOTATION, ARCHIVE, mmie_files
from support.hub_files import MMIE as REPO
from support.hub_process import TOKEN, ask, assets
from support.hub_server import COMMIT, HubServer

FETCH = """
import os
from mmie_tasks.benchmarks.mmie.data import DATASET
folder = DATASET.fetch()
answer = {"folder": str(folder.folder), "revision": folder.source}
"""
LOAD = """
import os
from mmie_tasks.benchmarks.mmie.data import dataset, missing_images
docs = sorted(dataset("all", os.environ), key=lambda doc: doc["index"])
answer = {
    "ids": [doc["id"] for doc in docs],
    "data": docs[0]["data"],
    "images": [one["image"] for doc in docs for one in doc["question"] if one["image"]],
    "missing": missing_images(docs),
}
"""
LOG = """
from loguru import logger
lines = []
logger.add(lambda line: lines.append(str(line)), format="{level} {message}")
"""


@pytest.fixture
def hub():
    with HubServer(mmie_files()) as server:
        yield server


def folder_of(home, commit=COMMIT):
    return assets(home, REPO) / commit / "data"


def test_the_samples_come_with_their_images_and_their_commit(hub, tmp_path):
    answer = ask(hub.url, tmp_path, f"{LOG}{LOAD}answer['lines'] = lines")
    (counted,) = [line for line in answer["lines"] if "published are 20,103" in line]
    assert counted.startswith("WARNING MMIE: 3 samples")
    assert answer["ids"] == ["SA-0", "PBL-1", "MSR-2"]
    assert answer["data"] == f"MMIE/MMIE@{COMMIT}"
    assert answer["images"][0] == f"{folder_of(tmp_path)}/images/images/0.png"
    assert answer["missing"] == {}
    assert all(Path(image).is_file() for image in answer["images"])


def test_only_the_two_files_of_the_commit_are_asked_for_with_the_token(hub, tmp_path):
    ask(hub.url, tmp_path, FETCH)
    assert all(f"/resolve/{COMMIT}/" in request.path for request in hub.requests)
    assert set(hub.downloads("HEAD")) <= {ANNOTATION, ARCHIVE}
    assert sorted(hub.downloads("GET")) == [ANNOTATION, ARCHIVE]
    assert {request.token for request in hub.requests} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("prefix", ["./", "MMIE/images/"])
def test_the_folders_in_the_archive_do_not_matter(prefix, tmp_path):
    with HubServer(mmie_files(prefix=prefix)) as hub:
        answer = ask(hub.url, tmp_path, LOAD)
    assert answer["missing"] == {}
    assert answer["images"][0].endswith(f"/images/{prefix.removeprefix('./')}0.png")
