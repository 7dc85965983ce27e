"""MIA-Bench from a Hub on the loopback interface, with the real client, each in its process."""

from pathlib import Path

import pytest
from support.hub_files import MIA_BENCH as REPO
from support.hub_files import PARQUET, mia_bench_files, mia_bench_rows, parquet
from support.hub_process import ask, assets
from support.hub_server import COMMIT, HubServer

from mmie_tasks.benchmarks.mia_bench.data import DATASET, dataset
from mmie_tasks.core.errors import DataBroken

LOAD = """
import os
from mmie_tasks.benchmarks.mia_bench.data import dataset
answer = sorted(dataset(os.environ), key=lambda row: int(row["id"]))
"""
INTO_THE_CACHE = f"""
from huggingface_hub import snapshot_download
answer = snapshot_download("{REPO}", repo_type="dataset", allow_patterns="data/*")
"""


@pytest.fixture
def hub():
    with HubServer(mia_bench_files()) as server:
        server.holds(REPO, "data/train-00000-of-00001.parquet", server.files[REPO, PARQUET])
        yield server


def test_rows_are_those_of_the_table_test_and_images_the_bytes_of_the_hub(hub, tmp_path):
    rows = ask(hub.url, tmp_path, LOAD)
    assert [row["id"] for row in rows] == [str(n) for n in range(8)]
    for row, original in zip(rows, mia_bench_rows(), strict=True):
        assert row["instruction"] == original["instruction"]
        assert Path(row["image"]).read_bytes() == original["image"]["bytes"]
        assert row["data"] == f"{REPO}@{COMMIT}"
    names = [Path(row["image"]).name for row in rows]
    assert names[3:7] == ["003.png", "004.webp", "005.png", "006.jpg"]
    folder = assets(tmp_path, REPO) / COMMIT / "data"
    local = dataset({"MIA_BENCH_DATA": str(folder)})
    assert sorted(local["image"]) == sorted(row["image"] for row in rows)


def test_offline_the_download_of_the_runners_own_task_serves(hub, tmp_path):
    ask(hub.url, tmp_path, INTO_THE_CACHE)
    hub.log.clear()
    rows = ask(hub.url, tmp_path, LOAD, HF_HUB_OFFLINE="1")
    assert (len(rows), hub.requests) == (8, [])


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        pytest.param(lambda _: b"PAR1 but no more", r"Row 0 of `.*\.parquet`", id="no-parquet"),
        pytest.param(
            lambda rows: rows[2].update(image=None), r"Row 2 of `.*it lacks 'image'", id="no-image"
        ),
    ],
)
def test_a_table_that_cannot_be_read_is_named_with_its_row(edit, problem, tmp_path):
    rows = mia_bench_rows()
    path = tmp_path / PARQUET
    path.parent.mkdir()
    path.write_bytes(edit(rows) or parquet(rows))
    (tmp_path / "new").mkdir()
    with pytest.raises(DataBroken, match=problem):
        DATASET.fill(tmp_path, tmp_path / "new")
