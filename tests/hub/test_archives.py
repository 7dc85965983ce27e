import contextlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.core.files import atomic_write
from mmie_tasks.hub.archives import unpack


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


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_an_archive_is_unpacked_completely(tmp_path, mode):
    members = some()
    unpack(packed(tmp_path / "a.tar", *members, mode=mode), tmp_path / "a")
    for info, content in members:
        assert (tmp_path / "a" / info.name).read_bytes() == content


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
    """Unpack an archive with these members: nothing leaves the folder, the error names one."""
    (folder / "x").write_text("mine")
    archive = packed(folder / "a.tar.gz", *members)
    with pytest.raises(DataBroken) as caught:
        unpack(archive, folder / "out" / "a")
    assert f"The archive `{archive}` cannot" in str(caught.value)
    assert repr(name) in str(caught.value)
    assert (folder / "x").read_text() == "mine"
    assert {path.name for path in folder.iterdir()} <= {"a.tar.gz", "out", "x"}


@pytest.mark.parametrize(("members", "name"), EVIL)
def test_a_member_that_leaves_the_folder_or_is_no_file_is_refused(tmp_path, members, name):
    refused(tmp_path, members, name)


@pytest.mark.filterwarnings("ignore:Python 3.14 will:DeprecationWarning")  # of a newer Python
def test_a_python_without_the_filter_unpacks_only_files_and_folders(tmp_path, monkeypatch):
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    (info, content), empty = some(1)[0], member("empty", tarfile.DIRTYPE)
    folder = tmp_path / "a"
    unpack(packed(tmp_path / "a.tar", (info, content), empty), folder)
    assert (folder / info.name).read_bytes() == content
    assert (folder / "empty").is_dir()
    for folder in (tmp_path / "1", tmp_path / "2"):
        folder.mkdir()
    refused(tmp_path / "1", [member("../x", content=b"1")], "../x")
    refused(tmp_path / "2", [member("a"), member("l", tarfile.SYMTYPE, "a")], "l")


@needs_filter
def test_links_that_stay_inside_are_kept(tmp_path):
    file = member("SET/1.png", content=b"one")
    links = [
        member("SET/soft.png", tarfile.SYMTYPE, "1.png"),
        member("SET/hard.png", tarfile.LNKTYPE, "SET/1.png"),
    ]
    folder = tmp_path / "a"
    unpack(packed(tmp_path / "a.tar.gz", file, *links), folder)
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
def test_a_damaged_archive_is_named(tmp_path, mode, damage):
    archive = packed(tmp_path / "a.tar.gz", *some(), mode=mode)
    archive.write_bytes(damage(archive.read_bytes()))
    with pytest.raises(DataBroken) as caught:
        unpack(archive, tmp_path / "out" / "a")
    assert f"The archive `{archive}` cannot" in str(caught.value)
    assert f"`rm '{archive}'`" in str(caught.value)


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
