from pathlib import Path

import pytest
from support.hub_server import COMMIT, SIGNATURE, TOKEN, ask
from support.one_file_hub import CONTENT, FETCH, INTO_THE_HUBS_CACHE, REPO, fetch, one_file_hub, part_of

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.hub.download import HubFile, hash_from_cache, verify


@pytest.fixture
def hub():
    with one_file_hub() as server:
        yield server


def test_a_download_that_always_breaks_ends_with_a_hint(hub, tmp_path):
    hub.cuts_off(after=0, times=float("inf"))
    answer = fetch(hub, tmp_path)
    assert answer["error"] == "DataMissing"
    assert "download failed" in answer["message"]
    assert "run again: it resumes where it stopped" in answer["message"]
    assert "set `IMAGES=DIR`" in answer["message"]


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        pytest.param(401, "GatedRepo", "is gated and the Hub answered HTTP 401", id="no token"),
        pytest.param(403, "GatedRepo", "is gated and the Hub answered HTTP 403", id="gated"),
        pytest.param(401, "RepoNotFound", "HTTP 401: no such dataset", id="hidden"),
        pytest.param(404, "RepoNotFound", "HTTP 404: no such dataset", id="no repository"),
        pytest.param(404, "RevisionNotFound", "there is no revision `main`", id="no revision"),
        pytest.param(404, "EntryNotFound", "no such file at revision `main`", id="no file"),
        pytest.param(403, "", "the Hub answered HTTP 403", id="forbidden"),
        pytest.param(503, "", "the Hub answered HTTP 503", id="down"),
    ],
)
def test_a_refusal_names_the_file_and_a_remedy(hub, tmp_path, status, code, text):
    hub.answers(status, code)
    answer = fetch(hub, tmp_path)
    assert answer["error"] == "DataMissing"
    assert text in answer["message"]
    assert f"`a/one.bin` of the dataset `{REPO}`" in answer["message"]
    assert answer["message"].endswith("or set `IMAGES=DIR`")


def test_the_hint_for_a_gated_dataset_names_terms_and_login(hub, tmp_path):
    hub.answers(403, "GatedRepo")
    message = fetch(hub, tmp_path)["message"]
    assert f"accept the terms on https://huggingface.co/datasets/{REPO}" in message
    assert "`hf auth login`" in message


def test_a_hub_that_is_down_briefly_is_retried(hub, tmp_path):
    hub.answers(503, times=2)
    assert fetch(hub, tmp_path)["commit"] == COMMIT


def test_an_error_status_at_the_start_of_a_download_is_reported(hub, tmp_path):
    hub.answers(500, methods=("GET",))
    assert "the Hub answered HTTP 500" in fetch(hub, tmp_path)["message"]


def test_a_refused_connection_is_reported(tmp_path):
    answer = ask("http://127.0.0.1:9", tmp_path, FETCH.format({}))
    assert answer["error"] == "DataMissing"
    assert "the Hub cannot be reached: it refuses connections" in answer["message"]


def test_an_answer_that_is_not_from_a_hub_is_reported(hub, tmp_path):
    hub.commit = "../elsewhere"
    message = fetch(hub, tmp_path)["message"]
    assert "the server's answer has no valid commit and etag" in message
    assert not (tmp_path / "cache").exists()


def test_the_token_goes_to_the_hub_only_and_a_signed_address_is_not_printed(hub, tmp_path):
    hub.forwards = True
    assert bytes.fromhex(fetch(hub, tmp_path / "one")["content"]) == CONTENT
    hub.answers(403)
    refused = fetch(hub, tmp_path / "two")["message"]
    hub.faults.clear()
    hub.cuts_off(after=0, times=float("inf"))
    broken = fetch(hub, tmp_path / "three")["message"]
    assert {request.token for request in hub.requests} == {None}
    assert all(SIGNATURE in request.path for request in hub.requests)
    assert "HTTP 403" in refused
    assert "download failed" in broken
    assert SIGNATURE not in refused + broken


def test_the_hub_itself_gets_the_token(hub, tmp_path):
    fetch(hub, tmp_path)
    assert {request.token for request in hub.requests} == {f"Bearer {TOKEN}"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full here")
def test_a_full_disk_names_the_setting_that_helps(hub, tmp_path):
    part = part_of(hub, tmp_path)
    part.parent.mkdir(parents=True)
    part.symlink_to("/dev/full")
    message = fetch(hub, tmp_path)["message"]
    assert "could not be downloaded: the disk is full" in message
    assert "set `MMIE_TASKS_CACHE` to a folder on a bigger disk" in message


def test_a_folder_that_cannot_be_created_is_named(hub, tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert f"{tmp_path}/cache" in fetch(hub, tmp_path)["message"]


def test_a_file_in_the_hubs_cache_is_used_and_stays(hub, tmp_path):
    path = ask(hub.url, tmp_path, INTO_THE_HUBS_CACHE)
    answer = fetch(hub, tmp_path)
    assert answer == {"content": CONTENT.hex(), "commit": COMMIT, "path": path}
    assert hub.requested_files("GET") == ["one.bin"]
    assert Path(path).is_file()


def test_a_branch_that_moved_without_changing_the_file_downloads_nothing(hub, tmp_path):
    ask(hub.url, tmp_path, INTO_THE_HUBS_CACHE)
    hub.commit = "beef" * 10
    assert fetch(hub, tmp_path)["commit"] == COMMIT
    assert hub.requested_files("GET") == ["one.bin"]


def test_a_newer_file_is_preferred_to_the_hubs_cache_unless_the_hub_is_down(hub, tmp_path):
    ask(hub.url, tmp_path, INTO_THE_HUBS_CACHE)
    hub.commit, new = "beef" * 10, b"newer"
    hub.holds(REPO, "a/one.bin", new)
    hub.answers(503, times=1)
    assert bytes.fromhex(fetch(hub, tmp_path)["content"]) == CONTENT
    assert bytes.fromhex(fetch(hub, tmp_path)["content"]) == new


def test_offline_a_cached_file_is_used_and_any_other_is_missing(hub, tmp_path):
    ask(hub.url, tmp_path / "full", INTO_THE_HUBS_CACHE)
    requests = len(hub.requests)
    cached = ask(hub.url, tmp_path / "full", FETCH.format({}), HF_HUB_OFFLINE="1")
    missed = ask(hub.url, tmp_path / "empty", FETCH.format({}), HF_HUB_OFFLINE="1")
    assert cached["commit"] == COMMIT
    assert "downloads are switched off (`HF_HUB_OFFLINE`)" in missed["message"]
    assert len(hub.requests) == requests


def test_wrong_bytes_of_the_right_length_are_detected_with_a_hint_to_delete_them(hub, tmp_path):
    hub.sends_wrong_bytes(REPO, "a/one.bin")
    answer = fetch(hub, tmp_path)
    expected = hub.hashes[REPO, "a/one.bin"]
    assert answer["error"] == "DataBroken"
    assert f"expected SHA-256 {expected}" in answer["message"]
    assert f"rm '{tmp_path}/cache/{expected}/a%2Fone.bin'" in answer["message"]


def test_wrong_bytes_in_the_hubs_cache_name_the_content_and_not_the_link(hub, tmp_path):
    hub.sends_wrong_bytes(REPO, "a/one.bin")
    ask(hub.url, tmp_path, INTO_THE_HUBS_CACHE)
    message = fetch(hub, tmp_path)["message"]
    digits = hub.hashes[REPO, "a/one.bin"]
    assert f"rm '{tmp_path}/hf/hub/datasets--owner--images/blobs/{digits}'" in message


def test_a_file_deleted_as_the_hint_says_is_downloaded_again(hub, tmp_path):
    hub.sends_wrong_bytes(REPO, "a/one.bin")
    message = fetch(hub, tmp_path)["message"]
    Path(message.split("rm '")[1].rstrip("'`")).unlink()
    hub.holds(REPO, "a/one.bin", CONTENT)
    assert bytes.fromhex(fetch(hub, tmp_path)["content"]) == CONTENT


@pytest.mark.parametrize(
    ("pins", "text"),
    [
        pytest.param({"size_bytes": 49_999}, "expected 49999 bytes, got 50000", id="size"),
        pytest.param({"sha256": ("zz", "")}, "expected SHA-256 zz…, got ", id="first digits"),
        pytest.param({"sha256": ("", "zz")}, "expected SHA-256 …zz, got ", id="last digits"),
    ],
)
def test_a_file_other_than_the_pinned_one_is_not_even_downloaded(hub, tmp_path, pins, text):
    answer = fetch(hub, tmp_path, **pins)
    assert answer["error"] == "DataBroken"
    assert text in answer["message"]
    assert "if the Hub has another version now, set `IMAGES=DIR`" in answer["message"]
    assert hub.requested_files("GET") == []


def test_a_cached_file_other_than_the_pinned_one_may_be_deleted(hub, tmp_path):
    ask(hub.url, tmp_path, INTO_THE_HUBS_CACHE)
    message = fetch(hub, tmp_path, size_bytes=49_999)["message"]
    assert "if the Hub has another version now, set `IMAGES=DIR`; else delete it" in message


def test_a_file_that_matches_its_pin_is_used(hub, tmp_path):
    digits = hub.hashes[REPO, "a/one.bin"]
    pins = {"size_bytes": len(CONTENT), "sha256": (digits[:8], digits[-5:])}
    assert fetch(hub, tmp_path, **pins)["commit"] == COMMIT


def test_without_links_in_the_cache_the_pinned_digits_are_compared_with_the_content(tmp_path):
    path = tmp_path / "one.bin"
    path.write_bytes(b"other")
    file = HubFile(repo=REPO, filename="one.bin", sha256=("00000000", ""), alternative="look")
    assert hash_from_cache(path) is None
    with pytest.raises(DataBroken, match="expected SHA-256 00000000…"):
        verify(file, path, None)
