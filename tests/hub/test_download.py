import os

import pytest
from support.hub_server import COMMIT
from support.one_file_hub import CONTENT, REPO, fetch, fetch_and_kill, one_file_hub, part_of


@pytest.fixture
def hub():
    with one_file_hub() as server:
        yield server


def test_a_file_is_downloaded_once_with_its_commit(hub, tmp_path):
    first = fetch(hub, tmp_path)
    second = fetch(hub, tmp_path)
    assert first == second
    assert bytes.fromhex(first["content"]) == CONTENT
    assert first["commit"] == COMMIT
    assert hub.requested_files("GET") == ["one.bin"]


def test_a_broken_download_resumes_where_it_stopped(hub, tmp_path):
    hub.cuts_off(after=20_000, times=2)
    assert bytes.fromhex(fetch(hub, tmp_path)["content"]) == CONTENT
    assert hub.ranges() == [None, "bytes=19456-", "bytes=38912-"]


def test_a_killed_download_resumes_in_the_next_process(hub, tmp_path):
    left = fetch_and_kill(hub, tmp_path)
    answer = fetch(hub, tmp_path)
    assert bytes.fromhex(answer["content"]) == CONTENT
    assert hub.ranges() == [None, f"bytes={left}-"]
    assert not part_of(hub, tmp_path).exists()


def test_an_abandoned_download_resumes_in_the_next_process(hub, tmp_path):
    hub.cuts_off(after=20_000)
    hub.answers(403, times=1, methods=("GET",))
    assert fetch(hub, tmp_path)["error"] == "DataMissing"
    assert bytes.fromhex(fetch(hub, tmp_path)["content"]) == CONTENT
    assert hub.ranges() == [None, "bytes=19456-", "bytes=19456-"]


def test_a_changed_file_starts_at_zero_and_its_old_part_is_deleted(hub, tmp_path):
    fetch_and_kill(hub, tmp_path)
    old, new = part_of(hub, tmp_path), os.urandom(50_000)
    hub.holds(REPO, "a/one.bin", new)
    assert bytes.fromhex(fetch(hub, tmp_path)["content"]) == new
    assert hub.ranges() == [None, None]
    assert not old.parent.exists()


def test_a_hub_that_sends_everything_again_still_gives_a_whole_file(hub, tmp_path):
    fetch_and_kill(hub, tmp_path)
    hub.obeys_ranges = False
    hub.cuts_off(after=20_000)
    assert bytes.fromhex(fetch(hub, tmp_path)["content"]) == CONTENT


@pytest.mark.parametrize(
    ("content", "ranges"),
    [
        pytest.param(CONTENT, [], id="whole, and not yet renamed"),
        pytest.param(CONTENT + b"more", [None], id="too long"),
        pytest.param(b"", [None], id="empty"),
    ],
)
def test_a_partial_file_is_completed_or_replaced(hub, tmp_path, content, ranges):
    part = part_of(hub, tmp_path)
    part.parent.mkdir(parents=True)
    part.write_bytes(content)
    assert bytes.fromhex(fetch(hub, tmp_path)["content"]) == CONTENT
    assert hub.ranges() == ranges
