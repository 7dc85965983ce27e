import math
import signal
import time
from importlib.metadata import version

import pytest
from support.hub_files import CONTENT, one_file
from support.hub_files import ONE as REPO
from support.hub_process import ask, assets, start
from support.hub_server import COMMIT, SIGNATURE, HubServer

FETCH = """
import os, shutil
from mmie_tasks.hub.dataset import HubDataset
def fill(snapshot, folder):
    shutil.copyfile(snapshot / "a/one.bin", folder / "one.bin")
dataset = HubDataset(
    repo="owner/images", files=("a/one.bin",), fill=fill,
    alternative="set `IMAGES=DIR`",
)
made = dataset.fetch()
commit = made.source.rpartition("@")[2]
answer = {"content": (made.folder / "one.bin").read_bytes().hex(), "commit": commit}
"""
INTO_THE_HUBS_CACHE = """
from huggingface_hub import hf_hub_download
answer = hf_hub_download("owner/images", "a/one.bin", repo_type="dataset")
"""


def fetch(hub, home):
    return ask(hub.url, home, FETCH)


@pytest.fixture
def hub():
    with HubServer(one_file()) as server:
        yield server


def refusal(status, code=""):
    return lambda hub: hub.refuses(status, code)


TERMS = "accept the terms on https://huggingface.co/datasets/owner/images"


@pytest.mark.parametrize(
    ("trouble", "text"),
    [
        pytest.param(refusal(401, "GatedRepo"), TERMS, id="no-token"),
        pytest.param(refusal(401, "RepoNotFound"), "HTTP 401: no such dataset", id="hidden"),
        pytest.param(refusal(404, "RevisionNotFound"), "no revision `main`", id="no-revision"),
        pytest.param(refusal(404, "EntryNotFound"), "no such file at revision", id="no-file"),
        pytest.param(refusal(503), "the Hub answered HTTP 503", id="down"),
        pytest.param(HubServer.stop, "download failed: [Errno 111] Connection", id="no-server"),
        pytest.param(lambda hub: hub.cuts_off(0, math.inf), "download failed", id="always-breaks"),
    ],
)
def test_a_failed_download_names_the_file_and_a_remedy(hub, tmp_path, trouble, text):
    trouble(hub)
    answer = fetch(hub, tmp_path)
    assert answer["error"] == "DataMissing"
    assert text in answer["message"]
    assert f"`a/one.bin` of the dataset `{REPO}`" in answer["message"]
    assert answer["message"].endswith("or set `IMAGES=DIR`")


def test_the_token_goes_to_the_hub_only_and_a_signed_address_is_not_printed(hub, tmp_path):
    hub.forwards = True
    assert bytes.fromhex(fetch(hub, tmp_path / "one")["content"]) == CONTENT
    hub.refuses(403)
    refused = fetch(hub, tmp_path / "two")["message"]
    hub.faults.clear()
    hub.cuts_off(0, math.inf)
    broken = fetch(hub, tmp_path / "three")["message"]
    assert {request.token for request in hub.requests} == {None}
    assert all(SIGNATURE in request.query for request in hub.requests)
    assert "HTTP 403" in refused
    assert "download failed" in broken
    assert SIGNATURE not in refused + broken


def test_a_file_is_downloaded_once_and_stays_until_the_cache_is_updated(hub, tmp_path):
    first, requests = fetch(hub, tmp_path), len(hub.log)
    hub.commit, new = "beef" * 10, b"newer"
    hub.files[REPO, "a/one.bin"] = new
    assert fetch(hub, tmp_path) == first == {"content": CONTENT.hex(), "commit": COMMIT}
    assert len(hub.log) == requests
    assert hub.downloads("GET") == ["one.bin"]
    names = sorted(path.name for path in (assets(tmp_path, REPO) / COMMIT).iterdir())
    assert names == ["data", "data.lock"]
    ask(hub.url, tmp_path, INTO_THE_HUBS_CACHE)
    assert fetch(hub, tmp_path) == {"content": new.hex(), "commit": hub.commit}


def test_offline_a_cached_file_is_used_and_any_other_is_missing(hub, tmp_path):
    ask(hub.url, tmp_path / "full", INTO_THE_HUBS_CACHE)
    requests = len(hub.requests)
    cached = ask(hub.url, tmp_path / "full", FETCH, HF_HUB_OFFLINE="1")
    missed = ask(hub.url, tmp_path / "empty", FETCH, HF_HUB_OFFLINE="1")
    assert cached["commit"] == COMMIT
    assert "downloads are switched off (`HF_HUB_OFFLINE`)" in missed["message"]
    assert len(hub.requests) == requests


@pytest.mark.skipif(version("huggingface_hub") < "1", reason="0.x ends such a download")
def test_a_broken_download_resumes_within_one_process(hub, tmp_path):
    hub.cuts_off(20_000, 2)
    assert bytes.fromhex(fetch(hub, tmp_path)["content"]) == CONTENT
    assert hub.ranges() == [None, "bytes=19456-", "bytes=38912-"]


def watch(process, until):
    """Return as soon as a condition holds, while the process runs."""
    deadline = time.monotonic() + 300
    while not until():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_killed_download_is_not_taken_for_the_whole(hub, tmp_path):
    hub.hangs_after(30_000)

    def has_begun():
        files = (tmp_path / "hf/hub").rglob("*.incomplete")
        return any(path.stat().st_size > 4_096 for path in files)

    with start(hub.url, tmp_path, FETCH) as process:
        watch(process, until=has_begun)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not assets(tmp_path, REPO).exists()
    assert bytes.fromhex(fetch(hub, tmp_path)["content"]) == CONTENT
    assert len(hub.ranges()) == 2


def test_processes_that_start_at_once_download_once_and_make_one_folder(hub, tmp_path):
    began = f"open(f'{tmp_path}/began-{{os.getpid()}}', 'w').close()"
    fills = f"print('x', end='', file=open('{tmp_path}/filled', 'a'))"
    code = FETCH.replace("made =", f"{began}\nmade =").replace("shutil.c", f"{fills}; shutil.c")
    go_on = hub.hangs_after(30_000)
    processes = [start(hub.url, tmp_path, code)]
    watch(processes[0], until=lambda: hub.downloads("GET") != [])
    processes += [start(hub.url, tmp_path, code) for _ in range(2)]
    watch(processes[2], until=lambda: len(list(tmp_path.glob("began-*"))) == 3)
    go_on.set()
    first, *others = (process.communicate(timeout=300)[0] for process in processes)
    assert all(CONTENT.hex() in answer for answer in others)
    is_old = version("huggingface_hub") < "1"  # it does not go on by itself; the next command does
    assert ("IncompleteRead" if is_old else CONTENT.hex()) in first
    assert [one for one in hub.ranges() if one is None] == [None]
    assert (tmp_path / "filled").read_text() == "x"


def test_a_full_disk_names_the_setting_that_helps(hub, tmp_path):
    full = FETCH.replace(
        "shutil.copyfile(", "import errno; raise OSError(errno.ENOSPC, 'No space left'); ("
    )
    message = ask(hub.url, tmp_path, full)["message"]
    assert "could not be downloaded: it cannot be written ([Errno 28] No space left)" in message
    assert "set `HF_HOME`" in message
