import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from support.hub_server import COMMIT, PROGRAM, HubServer, ask, environment

from mmie_tasks.errors import DataMissing, SettingWrong
from mmie_tasks.sources.milebench_hub import PARTS, REPO, dataset_folder

ASK = """
import os
from mmie_tasks.sources import milebench_hub
milebench_hub._PINS = {pins}
got = milebench_hub.dataset_folder("{dataset}", os.environ)
answer = {{"folder": str(got.folder), "revision": got.revision}}
"""


def archive(*datasets, prefix=""):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for dataset in datasets:
            info = tarfile.TarInfo(f"{prefix}{dataset}/{dataset}.json")
            info.size = 2
            tar.addfile(info, io.BytesIO(b"{}"))
    return content.getvalue()


@pytest.fixture
def hub():
    with HubServer() as server:
        for part, datasets in enumerate(PARTS):
            server.holds(REPO, f"MileBench_part{part}.tar.gz", archive(*datasets))
        yield server


def code(dataset, pins="milebench_hub._PINS"):
    return ASK.format(dataset=dataset, pins=pins)


def unpinned(hub, home, dataset, **more):
    return ask(hub.url, home, code(dataset), **{"MILEBENCH_REVISION": "main", **more})


def pins_of(hub):
    content = [hub.files[REPO, f"MileBench_part{part}.tar.gz"] for part in range(6)]
    known = [(len(one), hashlib.sha256(one).hexdigest()) for one in content]
    pins = [f'_Pin(size_bytes={n}, sha256=("{x[:8]}", "{x[-6:]}"))' for n, x in known]
    return f"[milebench_hub.{', milebench_hub.'.join(pins)}]"


def test_the_table_has_29_datasets_in_six_archives():
    names = [name for part in PARTS for name in part]
    assert len(PARTS) == 6
    assert len(set(names)) == len(names) == 29


def test_only_the_archive_that_holds_the_dataset_is_asked_for(hub, tmp_path):
    answer = unpinned(hub, tmp_path, "OCR-VQA")
    folder = tmp_path / "cache/milebench" / COMMIT / "MileBench_part4/OCR-VQA"
    assert answer == {"folder": str(folder), "revision": COMMIT}
    assert (folder / "OCR-VQA.json").is_file()
    assert set(hub.asked_for("HEAD") + hub.asked_for("GET")) == {"MileBench_part4.tar.gz"}


def test_a_second_dataset_of_an_archive_asks_nobody(hub, tmp_path):
    unpinned(hub, tmp_path, "OCR-VQA")
    asked = len(hub.requests)
    assert unpinned(hub, tmp_path, "SlideVQA")["folder"].endswith("MileBench_part4/SlideVQA")
    assert len(hub.requests) == asked


@pytest.mark.parametrize("prefix", ["MileBench/", "MLBench/", "./"])
def test_a_folder_around_the_datasets_does_not_matter(hub, tmp_path, prefix):
    hub.holds(REPO, "MileBench_part4.tar.gz", archive("SlideVQA", prefix=prefix))
    assert Path(unpinned(hub, tmp_path, "SlideVQA")["folder"], "SlideVQA.json").is_file()


def test_an_archive_without_the_dataset_says_what_it_holds(hub, tmp_path):
    hub.holds(REPO, "MileBench_part4.tar.gz", archive("nuscenes"))
    answer = unpinned(hub, tmp_path, "SlideVQA")
    assert answer["error"] == "DataBroken"
    assert "should hold `SlideVQA/SlideVQA.json`, and holds nuscenes" in answer["message"]


def test_the_pinned_archive_is_taken(hub, tmp_path):
    answer = ask(hub.url, tmp_path, code("nuscenes", pins_of(hub)))
    assert answer["folder"].endswith("MileBench_part3/nuscenes")


@pytest.mark.parametrize("dataset", ["ALFRED", "TQA"])
def test_another_archive_than_the_pinned_one_is_refused(hub, tmp_path, dataset):
    answer = ask(hub.url, tmp_path, code(dataset))
    assert answer["error"] == "DataBroken"
    assert "or `MILEBENCH_REVISION` to the commit you want" in answer["message"]
    assert not (tmp_path / "cache").exists()


def test_an_archive_taken_without_pins_is_still_refused_by_a_pinned_run(hub, tmp_path):
    unpinned(hub, tmp_path, "TQA")
    assert ask(hub.url, tmp_path, code("TQA"))["error"] == "DataBroken"


def test_a_revision_that_is_not_there_is_named(hub, tmp_path):
    answer = unpinned(hub, tmp_path, "TQA", MILEBENCH_REVISION="v2")
    assert answer["error"] == "DataMissing"
    assert "there is no revision `v2`" in answer["message"]
    assert "`MILEBENCH_DATA`" in answer["message"]


def test_wrong_bytes_are_found_before_anything_is_unpacked(hub, tmp_path):
    hub.sends_wrong_bytes(REPO, "MileBench_part5.tar.gz")
    answer = unpinned(hub, tmp_path, "TQA")
    assert answer["error"] == "DataBroken"
    assert "expected SHA-256" in answer["message"]
    assert not list((tmp_path / "cache").rglob("*.json"))


def test_an_archive_is_read_for_its_hash_only_once(hub, tmp_path):
    counted = code("TQA").replace(
        "got =",
        "calls = []\nverify = milebench_hub.verify\n"
        "milebench_hub.verify = lambda *a: (calls.append(1), verify(*a))\ngot =",
    )
    counted += "\nanswer = len(calls)"
    main = {"MILEBENCH_REVISION": "main"}
    assert ask(hub.url, tmp_path, counted, **main) == 1
    shutil.rmtree(tmp_path / "cache/milebench/commits")  # the folder is there, the note is not
    assert ask(hub.url, tmp_path, counted, **main) == 0


def test_offline_what_is_unpacked_is_used_even_when_its_archive_was_deleted(hub, tmp_path):
    online = unpinned(hub, tmp_path, "WebQA")
    asked = len(hub.requests)
    shutil.rmtree(tmp_path / "hf")
    assert unpinned(hub, tmp_path, "WebQA", HF_HUB_OFFLINE="1") == online
    assert unpinned(hub, tmp_path, "WikiVQA") == {
        "folder": online["folder"].replace("WebQA", "WikiVQA"),
        "revision": COMMIT,
    }
    assert len(hub.requests) == asked


def test_offline_an_archive_in_the_hubs_cache_is_unpacked(hub, tmp_path):
    online = unpinned(hub, tmp_path, "WebQA")
    shutil.rmtree(tmp_path / "cache")
    assert unpinned(hub, tmp_path, "WebQA", HF_HUB_OFFLINE="1") == online


def test_offline_with_nothing_says_what_helps(hub, tmp_path):
    answer = unpinned(hub, tmp_path, "WebQA", HF_HUB_OFFLINE="1")
    assert answer["error"] == "DataMissing"
    assert "`HF_HUB_OFFLINE`" in answer["message"]
    assert "set `MILEBENCH_DATA` to a folder" in answer["message"]


def test_two_processes_at_once_get_the_same_folder(hub, tmp_path):
    known = environment(hub.url, tmp_path, MILEBENCH_REVISION="main")
    both = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, code("GPR1200")],
            env=known,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    answers = {process.communicate(timeout=60)[0] for process in both}
    assert len(answers) == 1
    assert "MileBench_part1/GPR1200" in answers.pop()


@pytest.mark.parametrize(
    ("asked", "close"),
    [
        pytest.param("alfred", "it has `ALFRED`", id="case"),
        pytest.param("CLEVR_Change", "it has `CLEVR-Change`", id="hyphen"),
        pytest.param("qqqq", "`WikiVQA`", id="nothing close: all"),
    ],
)
def test_an_unknown_dataset_lists_close_names(tmp_path, asked, close):
    with pytest.raises(DataMissing) as caught:
        dataset_folder(asked, {"MMIE_TASKS_CACHE": str(tmp_path)})
    assert close in str(caught.value)


@pytest.mark.parametrize("revision", ["../x", "a b", "-x", "/etc", "x/../../y"])
def test_what_cannot_be_a_revision_is_refused_before_anything_else(tmp_path, revision):
    known = {"MMIE_TASKS_CACHE": str(tmp_path), "MILEBENCH_REVISION": revision}
    with pytest.raises(SettingWrong, match="MILEBENCH_REVISION"):
        dataset_folder("ALFRED", known)
