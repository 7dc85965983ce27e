import contextlib
import errno
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.core.files import atomic_write
from mmie_tasks.hub import archives
from mmie_tasks.hub.archives import unpack_once

# Unpacks; once the first member is on disk, prints a line and waits for input.
SLOW = """
import sys
from pathlib import Path
from mmie_tasks.hub import archives
archive, destination, count = map(Path, sys.argv[1:])
extract = archives._extract
def slow(tar, member, folder):
    extract(tar, member, folder)
    if member.name.endswith("0.png"):
        count.open("a").write("x")
        print("half way", flush=True)
        sys.stdin.readline()
archives._extract = slow
archives.unpack_once(archive, destination)
print("done", flush=True)
"""


def member(name, kind=tarfile.REGTYPE, link="", content=b"", pax=None):
    info = tarfile.TarInfo(name)
    info.pax_headers = pax or {}
    info.type, info.linkname, info.size = kind, link, len(content)
    return info, content


def packed(path, *members, mode="w:gz"):
    with tarfile.open(path, mode) as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return path


def some(count=3, size=5_000):
    return [member(f"SET/images/{k}.png", content=os.urandom(size)) for k in range(count)]


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-c", SLOW, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(process, words):
    for line in process.stdout:
        if words in line:
            return
    pytest.fail(f"the process ended without saying {words!r}")


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_an_archive_is_unpacked_completely(tmp_path, mode):
    members = some()
    folder = unpack_once(packed(tmp_path / "a.tar", *members, mode=mode), tmp_path / "deep" / "a")
    assert folder == tmp_path / "deep" / "a"
    for info, content in members:
        assert (folder / info.name).read_bytes() == content
    assert sorted(path.name for path in folder.parent.iterdir()) == ["a", "a.lock"]


needs_filter = pytest.mark.skipif(
    not hasattr(tarfile, "data_filter"), reason="this Python refuses every link"
)
EVIL = [
    pytest.param([member("../x", content=b"1")], "../x", id="dots"),
    pytest.param([member("SET/../../x", content=b"1")], "SET/../../x", id="dots in the middle"),
    pytest.param([member("/x", content=b"1")], "/x", id="absolute"),
    pytest.param([member("l", tarfile.SYMTYPE, "../x")], "l", id="link out"),
    pytest.param([member("l", tarfile.SYMTYPE, "/etc")], "l", id="link to an absolute path"),
    pytest.param([member("l", tarfile.LNKTYPE, "../x")], "l", id="hard link out"),
    pytest.param([member("l", tarfile.LNKTYPE, "/etc/passwd")], "l", id="hard link, absolute"),
    pytest.param([member("dev", tarfile.CHRTYPE)], "dev", id="device"),
    pytest.param([member("pipe", tarfile.FIFOTYPE)], "pipe", id="fifo"),
    pytest.param([member("a", pax={"path": "b\0c"})], "b\0c", id="NUL"),
]


def refused(folder, members, name):
    """Unpack an archive with these members; nothing of it may be left, and the error names one."""
    (folder / "x").write_text("mine")
    archive = packed(folder / "a.tar.gz", *members)
    with pytest.raises(DataBroken) as caught:
        unpack_once(archive, folder / "out" / "a")
    assert f"The archive `{archive}` (" in str(caught.value)
    assert repr(name) in str(caught.value)
    assert (folder / "x").read_text() == "mine"
    assert [path.name for path in (folder / "out").iterdir()] == ["a.lock"]


@pytest.mark.parametrize(("members", "name"), EVIL)
def test_a_member_that_leaves_the_folder_or_is_no_file_is_refused(tmp_path, members, name):
    refused(tmp_path, members, name)


@pytest.mark.filterwarnings("ignore:Python 3.14 will:DeprecationWarning")  # of a newer Python
def test_a_python_without_the_filter_unpacks_only_files_and_folders(tmp_path, monkeypatch):
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    (info, content), empty = some(1)[0], member("empty", tarfile.DIRTYPE)
    folder = unpack_once(packed(tmp_path / "a.tar", (info, content), empty), tmp_path / "a")
    assert (folder / info.name).read_bytes() == content
    assert (folder / "empty").is_dir()
    refused(tmp_path, [member("../x", content=b"1")], "../x")
    refused(tmp_path, [member("a"), member("l", tarfile.SYMTYPE, "a")], "l")


@needs_filter
def test_links_that_stay_inside_are_kept(tmp_path):
    file = member("SET/1.png", content=b"one")
    links = [
        member("SET/soft.png", tarfile.SYMTYPE, "1.png"),
        member("SET/hard.png", tarfile.LNKTYPE, "SET/1.png"),
    ]
    folder = unpack_once(packed(tmp_path / "a.tar.gz", file, *links), tmp_path / "a")
    assert (folder / "SET/soft.png").read_bytes() == b"one"
    assert (folder / "SET/hard.png").read_bytes() == b"one"


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    ("mode", "damage"),
    [
        pytest.param("w:gz", lambda content: content[:99], id="gzip cut off"),
        pytest.param("w:gz", lambda content: content[:-4], id="gzip cut off at the very end"),
        pytest.param("w:gz", flipped, id="gzip with one bit changed"),
        pytest.param("w", lambda content: content[:999], id="tar cut off in a member"),
        pytest.param("w", lambda _: b"", id="nothing"),
    ],
)
def test_a_damaged_archive_is_named_and_leaves_nothing(tmp_path, mode, damage):
    archive = packed(tmp_path / "a.tar.gz", *some(), mode=mode)
    archive.write_bytes(damage(archive.read_bytes()))
    with pytest.raises(DataBroken) as caught:
        unpack_once(archive, tmp_path / "out" / "a")
    assert f"The archive `{archive}` (" in str(caught.value)
    assert f"`rm '{archive}'`" in str(caught.value)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.lock"]


@pytest.mark.parametrize(("limit", "value"), [("MAX_MEMBERS", 2), ("MAX_UNPACKED_BYTES", 14_999)])
def test_an_absurdly_large_archive_is_refused(tmp_path, monkeypatch, limit, value):
    monkeypatch.setattr(archives, limit, value)
    with pytest.raises(DataBroken, match="too many or too large"):
        unpack_once(packed(tmp_path / "a.tar.gz", *some(3, 5_000)), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_the_error_for_a_full_disk_names_the_required_space(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    archive = packed(tmp_path / "a.tar.gz", *some(3, 50_000))
    monkeypatch.setattr(archives, "_extract", full)
    with pytest.raises(DataMissing, match=r"No space left(.|\n)*at least 14\d\.\d KiB free"):
        unpack_once(archive, tmp_path / "out" / "a")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.lock"]


def test_a_killed_unpacking_is_not_mistaken_for_a_finished_one(tmp_path):
    archive, folder = packed(tmp_path / "a.tar.gz", *some()), tmp_path / "a"
    with start(archive, folder, tmp_path / "count") as process:
        wait_for(process, "half way")
        process.kill()
    assert not folder.exists()
    left = tmp_path / "a.unfinished"
    assert [path.name for path in left.rglob("*.png")] == ["0.png"]
    (left / "junk").touch()
    unpack_once(archive, folder)
    names = sorted(path.name for path in folder.rglob("*") if path.is_file())
    assert names == ["0.png", "1.png", "2.png"]
    assert not left.exists()


def test_only_one_of_two_processes_unpacks_while_the_other_waits(tmp_path):
    archive = packed(tmp_path / "a.tar.gz", *some())
    arguments = (archive, tmp_path / "a", tmp_path / "count")
    with start(*arguments) as first:
        wait_for(first, "half way")
        with start(*arguments) as second:
            wait_for(second, "Another process is unpacking")
            print("go on", file=first.stdin, flush=True)
            wait_for(first, "done")
            second.stdin.close()
            wait_for(second, "done")
    assert (tmp_path / "count").read_text() == "x"
    assert len(list((tmp_path / "a").rglob("*.png"))) == 3


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "new" / "note.txt"
    with contextlib.suppress(InterruptedError), atomic_write(target) as part:
        part.write_text("ha")
        raise InterruptedError
    assert list(target.parent.iterdir()) == []
    with atomic_write(target) as part:
        part.write_text("whole")
    assert [(path.name, path.read_text()) for path in Path(target.parent).iterdir()] == [
        ("note.txt", "whole")
    ]
