import io
import os
import tarfile

import pytest

from mmie_tasks.core.errors import DataBroken
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


OF_A_NEWER_PYTHON = "ignore:Python 3.14 will:DeprecationWarning"


@pytest.fixture(params=[True, False], ids=["filter", "no-filter"])
def has_filter(request, monkeypatch):
    """A Python with or without the filter for archives of strangers."""
    if not request.param:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)


@pytest.mark.usefixtures("has_filter")
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
@pytest.mark.filterwarnings(OF_A_NEWER_PYTHON)
def test_an_archive_is_unpacked_completely(tmp_path, mode):
    members, folders = some(), [member(name, tarfile.DIRTYPE) for name in ("./", "empty")]
    unpack(packed(tmp_path / "a.tar", *folders, *members, mode=mode), tmp_path / "a")
    for info, content in members:
        assert (tmp_path / "a" / info.name).read_bytes() == content
    assert (tmp_path / "a" / "empty").is_dir()


EVIL = [
    pytest.param([member("SET/../../x", content=b"1")], id="dots"),
    pytest.param([member("l", tarfile.SYMTYPE, "../x")], id="link out"),
    pytest.param([member("l", tarfile.LNKTYPE, "/etc/passwd")], id="hard link, absolute"),
    pytest.param([member("dev", tarfile.CHRTYPE)], id="device"),
    pytest.param([member("a", pax={"path": "b\0c"})], id="NUL"),
]


@pytest.mark.usefixtures("has_filter")
@pytest.mark.parametrize("members", EVIL)
@pytest.mark.filterwarnings(OF_A_NEWER_PYTHON)
def test_a_member_that_leaves_the_folder_or_is_no_file_is_refused(tmp_path, members):
    (tmp_path / "x").write_text("mine")
    archive = packed(tmp_path / "a.tar.gz", *members)
    with pytest.raises(DataBroken) as caught:
        unpack(archive, tmp_path / "out" / "a")
    assert f"The archive `{archive}` cannot" in str(caught.value)
    assert (tmp_path / "x").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} <= {"a.tar.gz", "out", "x"}


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="this Python refuses every link")
def test_a_link_that_stays_inside_is_kept(tmp_path):
    link = member("SET/soft.png", tarfile.SYMTYPE, "1.png")
    unpack(packed(tmp_path / "a", member("SET/1.png", content=b"one"), link), tmp_path / "b")
    assert (tmp_path / "b/SET/soft.png").read_bytes() == b"one"


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    ("mode", "damage"),
    [
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
