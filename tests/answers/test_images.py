"""References of an answer resolve to complete image files or to a problem; none raises."""

import base64
import hashlib
import io
import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image, features
from support.pictures import header_only

from mmie_tasks.answers.images import ImageResolver, check_image
from mmie_tasks.record.segment import Segment

NOISE = Image.frombytes("RGB", (48, 40), os.urandom(5_760))
KINDS = ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"]


def encoded(kind="PNG"):
    file = io.BytesIO()
    NOISE.save(file, kind)
    return file.getvalue()


def uri(data, kind="image/png"):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


@pytest.fixture
def roots(tmp_path):
    """Two folders; ``both.png`` lies in both, ``second.png`` in the second."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        (folder / "sub").mkdir(parents=True)
        (folder / "both.png").write_bytes(encoded())
    (folders[1] / "second.png").write_bytes(encoded())
    (folders[1] / "sub" / "a b%20.png").write_bytes(encoded())
    (tmp_path / "secret.png").write_bytes(encoded())
    return folders


@pytest.fixture
def resolver(roots, tmp_path):
    return ImageResolver(roots, tmp_path / "keep")


def test_a_relative_path_is_searched_in_every_root(resolver, roots):
    assert resolver.resolve("both.png").path == roots[0] / "both.png"  # the first root wins
    assert resolver.resolve("second.png").path == roots[1] / "second.png"
    assert resolver.resolve(r"sub\a b%20.png").path == roots[1] / "sub/a b%20.png"


def test_an_absolute_path_is_used_as_it_is(resolver, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for reference in (f"{tmp_path}/secret.png", "~/secret.png"):
        assert resolver.resolve(reference).path == tmp_path / "secret.png"


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        pytest.param("no.png", "missing", id="no such file"),
        pytest.param("a\0.png", "missing", id="NUL"),
        pytest.param("/a\0.png", "missing", id="NUL in an absolute path"),
        pytest.param("/" + "a" * 10_000, "missing", id="very long"),
        pytest.param("~nobody-of-this-name/a.png", "missing", id="the home of an unknown user"),
        pytest.param("../secret.png", "missing", id="leaves"),
        pytest.param(r"C:\a.png", "missing", id="drive"),
        pytest.param("", "missing", id="empty"),
        pytest.param("sub", "unreadable", id="folder"),
        pytest.param("https://example.org/a.png", "remote", id="https"),
        pytest.param("data:image/png,abc", "unreadable", id="data without base64"),
        pytest.param("data:image/png;base64,\ud800é", "unreadable", id="not ASCII"),
        pytest.param(uri(b"<svg/>", "image/svg+xml"), "unreadable", id="data of a drawing"),
        pytest.param(uri(encoded()[:-30]), "unreadable", id="data cut off"),
    ],
)
def test_a_reference_to_no_image_has_a_problem(resolver, tmp_path, reference, problem):
    file = resolver.resolve(reference)
    assert (file.path, file.problem) == (None, problem)
    assert 0 < len(file.detail) < 1_100
    file.detail.encode()
    written_files = tmp_path / "keep"
    assert not written_files.exists() or not list(written_files.iterdir())


def test_the_sha256_of_a_usable_image_is_known(resolver, roots):
    content = (roots[1] / "second.png").read_bytes()
    segments = [Segment("a", image) for image in ("second.png", uri(content), "none.png", None)]
    digests = [segment.sha256 for segment in resolver.resolved(segments)]
    assert digests == [hashlib.sha256(content).hexdigest()] * 2 + [""] * 2


def test_a_link_must_end_inside_its_root(resolver, roots, tmp_path):
    (roots[0] / "good.png").symlink_to("both.png")
    (roots[0] / "out.png").symlink_to(tmp_path / "secret.png")
    (roots[0] / "second.png").symlink_to(tmp_path / "secret.png")
    assert resolver.resolve("good.png").path == roots[0] / "good.png"
    assert resolver.resolve("out.png").problem == "missing"
    assert resolver.resolve("second.png").path == roots[1] / "second.png"


def test_a_path_of_another_machine_is_looked_for_inside_the_folders_only(roots, tmp_path):
    resolver = ImageResolver([], tmp_path / "keep", roots)
    (roots[0] / "out.png").symlink_to(tmp_path / "secret.png")
    (roots[0] / "link").symlink_to(tmp_path)
    for reference in ("/run/out.png", "/run/link/secret.png", "/run/../secret.png"):
        assert resolver.resolve(reference).problem == "missing"
    assert resolver.resolve("/run/sub/second.png").path == roots[1] / "second.png"
    assert resolver.resolve("/run/sub/a b%20.png").path == roots[1] / "sub/a b%20.png"
    assert resolver.resolve("run/second.png").path is None  # may be any other file of that name
    assert resolver.locate("/run/second.png").is_moved
    assert resolver.locate("/run/sub").path is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_complete_image_has_no_problem(resolver, roots, kind):
    path = roots[0] / "a"
    path.write_bytes(encoded(kind))
    assert resolver.resolve("a").path == path
    assert not check_image(path).problem
    path.write_bytes(encoded(kind) + b"\0\n")  # some programs append something
    assert not check_image(path).problem


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "TIFF"])  # has no end
@pytest.mark.parametrize("left", [0.5, 0.9])
def test_an_image_that_is_cut_off_is_unreadable(resolver, roots, kind, left):
    data = encoded(kind)
    (roots[0] / "a").write_bytes(data[: int(len(data) * left)])
    assert (resolver.resolve("a").path, resolver.resolve("a").problem) == (None, "unreadable")


@pytest.mark.parametrize(("data", "words"), [(b"", "empty"), (b"<html>404</html>", "not an image")])
def test_a_file_that_is_no_image_is_unreadable(resolver, roots, data, words):
    (roots[0] / "a.png").write_bytes(data)
    file = resolver.resolve("a.png")
    assert (file.problem, words in file.detail) == ("unreadable", True)


def test_only_regular_files_are_opened(resolver, roots):
    os.mkfifo(roots[0] / "fifo.png")
    (roots[0] / "round.png").symlink_to("round.png")
    assert resolver.resolve("fifo.png").problem == "unreadable"  # and does not wait for a writer
    assert resolver.resolve("/dev/zero").problem == "unreadable"
    assert resolver.resolve("round.png").problem == "missing"


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow cannot read AVIF")
def test_a_damaged_avif_is_unreadable_too(resolver, roots):
    """Its decoder raises what no other of Pillow's decoders does."""
    data = encoded("AVIF")
    (roots[0] / "a.avif").write_bytes(data)
    assert resolver.resolve("a.avif").problem == ""
    for at in (b"iloc", b"av1C"):
        (roots[0] / "a.avif").write_bytes(data.replace(at, b"free"))
        assert resolver.resolve("a.avif").problem == "unreadable"


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("width", "height", "problem"),
    [
        pytest.param(13_377, 13_377, "", id="as many as Pillow opens"),
        pytest.param(13_378, 13_377, "too_large", id="one column more"),
        pytest.param(2**30, 2**30, "too_large", id="absurd"),
    ],
)
def test_more_pixels_than_pillow_opens_are_too_many(resolver, roots, width, height, problem):
    (roots[0] / "a.png").write_bytes(header_only(width, height))
    assert resolver.resolve("a.png").problem == problem


@pytest.mark.parametrize("kind", KINDS)
def test_a_data_uri_becomes_a_file_of_its_bytes_once(resolver, tmp_path, kind):
    data = encoded(kind)
    first = resolver.resolve(uri(data)).path
    assert first.read_bytes() == data
    assert first.parent == tmp_path / "keep"
    written = first.stat().st_mtime_ns
    assert resolver.resolve(uri(data, "IMAGE/x;charset=y")).path == first
    assert (first.stat().st_mtime_ns, len(list(first.parent.iterdir()))) == (written, 1)


def test_a_data_uri_that_is_too_long_is_not_decoded(resolver, monkeypatch):
    monkeypatch.setattr("mmie_tasks.answers.images._MAX_DATA_CHARACTERS", 1_000)
    assert resolver.resolve(uri(encoded())).problem == "too_large"


@given(st.text() | st.text(alphabet="~./\\:%file data;base64,image/pngAé\0\n\ud800", max_size=60))
@example("~")
@example("data:;base64," + "%" * 50)
def test_no_reference_raises(reference):
    nowhere = Path("/nowhere")
    resolver = ImageResolver([nowhere / "at/all", nowhere / "else"], nowhere / "keep", [nowhere])
    assert not resolver.resolve(f"nowhere{reference}").path
    assert resolver.resolve(reference).problem != ""
    resolver.locate(reference)
