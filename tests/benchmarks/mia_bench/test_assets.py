"""MIA-Bench from a Hub on the loopback interface, with the real clients, each in its process."""

from pathlib import Path

import pytest
from support.hub_files import MIA_BENCH as REPO
from support.hub_files import PARQUET, mia_bench_files, mia_bench_rows
from support.hub_process import ask, ask_and_kill, assets
from support.hub_server import COMMIT, HubServer

LOAD = """
import os
from mmie_tasks.benchmarks.mia_bench.data import dataset
answer = sorted(dataset(os.environ), key=lambda row: int(row["id"]))
"""
# The runner's own task, run before, leaves the dataset in the caches of the libraries.
INTO_THE_CACHES = f"""
import datasets
answer = len(datasets.load_dataset("{REPO}", split="test"))
"""
# Few rows only: a file of the example is laid down, then the process stalls.
STALLS = """
import os, time
from pathlib import Path
write_bytes = Path.write_bytes
def slowly(path, content):
    write_bytes(path, content)
    if path.suffix == ".webp":
        while True:
            sleep(1)
sleep, Path.write_bytes = time.sleep, slowly
from mmie_tasks.benchmarks.mia_bench.data import dataset
dataset(os.environ)
answer = None
"""
NOWHERE = "http://127.0.0.1:9"  # nothing listens there


@pytest.fixture
def hub():
    with HubServer(mia_bench_files()) as server:
        yield server


def folder(home):
    return assets(home, REPO) / COMMIT / "data"


def test_rows_are_those_of_the_example_and_pictures_the_bytes_of_the_hub(hub, tmp_path):
    rows = ask(hub.url, tmp_path, LOAD)
    assert [row["id"] for row in rows] == [str(n) for n in range(8)]
    for row, original in zip(rows, mia_bench_rows(), strict=True):
        assert row["instruction"] == original["instruction"]
        assert Path(row["image"]).read_bytes() == original["image"]["bytes"]
        assert row["data"] == f"{REPO}@{COMMIT}"
    endings = [Path(row["image"]).name for row in rows]
    assert endings[3:7] == ["003.png", "004.webp", "005.png", "006.jpg"]


def test_what_is_laid_down_is_a_local_folder(hub, tmp_path):
    rows = ask(hub.url, tmp_path, LOAD)
    hub.log.clear()
    local = ask(hub.url, tmp_path, LOAD, MIA_BENCH_DATA=str(folder(tmp_path)))
    assert [row["image"] for row in local] == [row["image"] for row in rows]
    assert hub.requests == []


@pytest.mark.parametrize(
    ("url", "more"), [pytest.param(NOWHERE, {"HF_HUB_OFFLINE": "1"}, id="offline")]
)
def test_without_the_hub_the_download_of_the_runners_own_task_serves(url, more, hub, tmp_path):
    ask(hub.url, tmp_path, INTO_THE_CACHES)
    rows = ask(url, tmp_path, LOAD, **more)
    assert rows[0]["data"] == f"{REPO}@{COMMIT}"


def test_only_the_tables_of_the_split_test_are_read(hub, tmp_path):
    hub.holds(REPO, "data/train-00000-of-00001.parquet", hub.files[REPO, PARQUET])
    ask(hub.url, tmp_path, INTO_THE_CACHES)
    assert len(ask(hub.url, tmp_path, LOAD)) == 8


def test_a_file_that_is_no_parquet_is_broken_data(hub, tmp_path):
    hub.holds(REPO, PARQUET, b"PAR1 but no more")
    result = ask(hub.url, tmp_path, LOAD)
    assert result["error"] == "DataBroken"
    assert not folder(tmp_path).exists()


def test_a_row_without_a_picture_is_named(tmp_path):
    with HubServer(mia_bench_files(lambda rows: rows[2].update(image=None))) as hub:
        result = ask(hub.url, tmp_path, LOAD)
    assert result["error"] == "DataBroken"
    assert result["message"].startswith("Row 2 of `")
    assert "it lacks 'image'" in result["message"]


def test_what_a_killed_process_wrote_is_not_taken_for_the_whole(hub, tmp_path):
    laid = folder(tmp_path).with_name("data.unfinished") / "images" / "004.webp"
    ask_and_kill(hub.url, tmp_path, STALLS, when=laid.exists)
    assert not folder(tmp_path).exists()
    assert len(ask(hub.url, tmp_path, LOAD)) == 8
    assert len(list((folder(tmp_path) / "images").iterdir())) == 8
    assert not laid.parent.exists()
