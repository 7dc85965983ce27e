"""What is told of sizes, and whether there is room; without any Hub."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.core.errors import DataMissing
from mmie_tasks.hub.asset import Item, Told, named
from mmie_tasks.preflight.prefetch import check_room, failed, fetch_all, lines, needs_bytes, text

ROOM = Path("/").absolute()
SIZES = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), min_size=1, max_size=6)


def item(
    size_bytes: int | None = 2**30,
    passes_bytes: int = 0,
    *,
    subject: str = "a: data",
    here: bool = False,
    room: Path = ROOM,
) -> Item:
    told = Told(
        source="owner/a@" + "c0ffee" * 6 + "c0ff",
        size_bytes=size_bytes,
        stays={room: size_bytes or 0},
        passes_bytes=passes_bytes,
    )
    return Item(subject=subject, told=told, here=here, room=room, fetch=lambda: "is here")


def refusing(subject: str, error: Exception) -> Item:
    def fetch() -> str:
        raise error

    return Item(subject=subject, told=Told(source="a"), here=False, room=ROOM, fetch=fetch)


@pytest.mark.parametrize(
    ("items", "said"),
    [
        pytest.param([item(), item()], "To fetch: 2.0 GiB.", id="added"),
        pytest.param([item(), item(None)], "To fetch: 1.0 GiB, and 1 of unknown size.", id="some"),
        pytest.param([item(None)], "To fetch: 1 of unknown size.", id="none-known"),
        pytest.param([item(), item(here=True)], "To fetch: 1.0 GiB.", id="one-is-here"),
        pytest.param([item(here=True)], "Everything is here.", id="all-here"),
    ],
)
def test_the_sum_counts_what_is_to_be_fetched(items: list[Item], said: str) -> None:
    assert said in text(items).splitlines()


def test_a_commit_is_shortened_and_a_note_stands_below() -> None:
    told = text([item()], ["something"])
    assert "owner/a@c0ffeec0ffee |" in told
    assert told.endswith("\nNote: something")


@given(SIZES)
def test_what_stays_is_added_and_what_passes_is_there_once(sizes: list[tuple[int, int]]) -> None:
    (needed,) = needs_bytes([item(*pair) for pair in sizes]).values()
    assert needed == sum(size for size, _ in sizes) + max(passes for _, passes in sizes)


@given(SIZES)
def test_what_is_here_needs_no_room(sizes: list[tuple[int, int]]) -> None:
    assert needs_bytes([item(*pair, here=True) for pair in sizes]) == {}


@pytest.mark.parametrize(
    ("free_bytes", "fits"),
    [pytest.param(3 * 2**30, True, id="just"), pytest.param(3 * 2**30 - 1, False, id="not-quite")],
)
def test_room_is_compared_to_the_byte(free_bytes: int, fits: bool) -> None:
    wanted = [item(2**30, 2**30), item(2**30)]
    if fits:
        assert "3.0 GiB free, at most 3.0 GiB" in check_room(wanted, lambda _: free_bytes)
        return
    with pytest.raises(DataMissing, match=r"3\.0 GiB are needed for `/`.*\n\nhint: make room"):
        check_room(wanted, lambda _: free_bytes)


def test_a_place_that_cannot_be_a_folder_is_said_before_anything_is_fetched(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(DataMissing, match="cannot be written"):
        check_room([item(room=file / "below")], lambda _: 2**60)


def test_one_that_fails_is_kept_and_the_next_is_fetched() -> None:
    fetched: list[str] = []

    def fetch() -> str:
        fetched.append("b")
        return "is here"

    last = Item(subject="b", told=Told(source="b"), here=False, room=ROOM, fetch=fetch)
    (failure,) = fetch_all([refusing("a", DataMissing("Gone.", hint="look")), last])
    assert (failure.item.subject, fetched) == ("a", ["b"])
    assert "1 of 2 could not be fetched:\n\na: Gone.\n  hint: look\n" in str(failed([failure], 2))


def test_what_is_here_is_not_fetched() -> None:
    here = Item(
        subject="a",
        told=Told(source="a"),
        here=True,
        room=ROOM,
        fetch=lambda: pytest.fail("it is here"),
    )
    assert fetch_all([here]) == []


def test_a_mistake_of_ours_is_not_a_failed_download() -> None:
    with pytest.raises(KeyError):
        fetch_all([refusing("a", KeyError("b"))])


def test_a_variable_that_is_not_set_names_nothing() -> None:
    assert named("a", "A_DATA", {"A_DATA": ""}) is None


def test_values_of_settings_and_keys_are_not_shown(tmp_path: Path) -> None:
    set_here = {"HF_ENDPOINT": "http://user:secret@mirror", "HF_TOKEN": "hf_secret", "A": "b"}
    at_hand = named("a", "A", {"A": str(tmp_path / "a b")})
    assert at_hand is not None
    told = lines([at_hand], "mmie-tasks doctor", set_here)
    assert f"export A='{tmp_path}/a b'" in told
    assert "Set there what is set here: `HF_ENDPOINT`." in told
    assert "secret" not in told
