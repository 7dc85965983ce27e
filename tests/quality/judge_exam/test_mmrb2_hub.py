"""MMRB2 from a loopback Hub, as tables with the images inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.hub_server import COMMIT, HubServer, ask
from support.verdict_files import MMRB2_REPO, hub_row, hub_table, picture

TABLES = ("interleaved/test-00000-of-00002.parquet", "interleaved/test-00001-of-00002.parquet")
LOAD = """
import json, os
from dataclasses import asdict
from loguru import logger
from mmie_tasks.quality.judge_exam import mmrb2
lines = []
logger.add(lambda line: lines.append(str(line)))
loaded = asdict(mmrb2.load_mmrb2(None, os.environ))
answer = json.loads(json.dumps({**loaded, "log": "".join(lines)}, default=str))
"""
IN_THE_HUBS_CACHE = """
from huggingface_hub import hf_hub_download
answer = [hf_hub_download("{repo}", name, repo_type="dataset") for name in {names}]
"""


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer() as server:
        server.holds(MMRB2_REPO, "README.md", b"---\nlicense: cc-by-nc-4.0\n---\n")
        server.holds(MMRB2_REPO, "t2i/test-00000-of-00001.parquet", b"another task")
        for index, name in enumerate(TABLES):
            server.holds(MMRB2_REPO, name, hub_table([hub_row(2 * index), hub_row(2 * index + 1)]))
        yield server


def load(hub: HubServer, home: Path, **more: str) -> dict[str, Any]:
    loaded: dict[str, Any] = ask(hub.url, home, LOAD, **more)
    return loaded


def test_the_tables_are_downloaded_once_and_read_in_order(hub: HubServer, tmp_path: Path) -> None:
    first = load(hub, tmp_path)
    assert [pair["id"] for pair in first["pairs"]] == ["pair-0", "pair-1", "pair-2", "pair-3"]
    assert first["source"] == f"{MMRB2_REPO}@{COMMIT} (not the published verdicts)"
    assert (first["has_answers"], first["missing_answers"], first["both_orders"]) == (True, 0, True)
    assert sorted(hub.requested_files()) == sorted(Path(name).name for name in TABLES)
    assert all(
        f"/resolve/{COMMIT}/" in request.path for request in hub.requests
    )  # not at a branch that may move
    requests = len(hub.requests)
    second = load(hub, tmp_path, HF_HUB_OFFLINE="1")
    assert (second["pairs"], second["source"], len(hub.requests)) == (
        first["pairs"],
        first["source"],
        requests,
    )


def test_a_row_becomes_a_pair_with_its_images_byte_for_byte(hub: HubServer, tmp_path: Path) -> None:
    pair = load(hub, tmp_path)["pairs"][1]
    shown = [
        Path(segment).read_bytes() if segment.startswith("/") else segment
        for segments in (pair["question"], *pair["answers"])
        for segment in segments
    ]
    question = ["Continue", picture(1, "JPEG"), "please."]
    assert shown == [*question, picture(11), "First.", picture(51), "One.", picture(91, "WEBP")]
    assert [Path(pair["question"][1]).suffix, Path(pair["answers"][1][1]).suffix] == [
        ".jpg",
        ".webp",
    ]
    assert (pair["sample"], pair["subset"], pair["models"]) == (
        "isgbench/HowTo/1",
        "isgbench",
        ["red", "green"],
    )
    assert (pair["winner"], pair["votes"], pair["images"]) == ("A", ["B", "A", "A"], [2, 1])


def refuse(status: int, code: str) -> Callable[[HubServer], None]:
    return lambda hub: hub.answers(status, code)


def table_of(
    *rows: dict[str, Any], edit: Callable[[Any], Any] = lambda table: table
) -> Callable[[HubServer], None]:
    return lambda hub: hub.holds(MMRB2_REPO, TABLES[1], hub_table(list(rows), edit))


def remove_tables(hub: HubServer) -> None:
    for name in TABLES:
        del hub.files[MMRB2_REPO, name]


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        pytest.param(refuse(403, "GatedRepo"), "DataMissing", "is gated", id="gated"),
        pytest.param(
            remove_tables, "DataBroken", "there is no `interleaved/*.parquet`", id="no-tables"
        ),
        pytest.param(
            lambda hub: hub.holds(MMRB2_REPO, TABLES[1], b"no table"),
            "DataBroken",
            "ArrowInvalid",
            id="no-parquet",
        ),
        pytest.param(
            table_of(hub_row(2), edit=lambda table: table.drop_columns(["chosen"])),
            "DataBroken",
            "chosen",
            id="column",
        ),
        pytest.param(
            table_of(hub_row(2, prompt_images=[None])), "DataBroken", "NoneType", id="no-bytes"
        ),
        pytest.param(table_of(hub_row(1)), "DataBroken", "`pair-1` twice", id="twice"),
    ],
)
def test_a_hub_without_mmrb2_is_an_error_with_two_ways_out(
    hub: HubServer, tmp_path: Path, edit: Callable[[HubServer], None], error: str, message: str
) -> None:
    edit(hub)
    answer = load(hub, tmp_path)
    assert answer["error"] == error
    assert message in answer["message"]
    assert "hint:" in answer["message"]


def test_another_revision_is_named_by_a_variable(hub: HubServer, tmp_path: Path) -> None:
    assert load(hub, tmp_path, MMRB2_REVISION=COMMIT)["source"].startswith(
        f"{MMRB2_REPO}@{COMMIT} "
    )
    assert load(hub, tmp_path, MMRB2_REVISION="v2")["error"] == "DataMissing"
    assert load(hub, tmp_path, MMRB2_REVISION="../main")["error"] == "SettingWrong"


def test_a_pair_whose_image_is_none_is_left_out_and_named(hub: HubServer, tmp_path: Path) -> None:
    broken = [{"bytes": b"no image", "path": None}]
    table_of(hub_row(2, response_b_images=broken), hub_row(3))(hub)
    answer = load(hub, tmp_path)
    assert [pair["id"] for pair in answer["pairs"]] == ["pair-0", "pair-1", "pair-3"]
    assert answer["missing_answers"] == 1
    assert "`pair-2`" in answer["log"]


def test_a_download_that_broke_off_leaves_no_half_written_folder(
    hub: HubServer, tmp_path: Path
) -> None:
    whole = hub.files[MMRB2_REPO, TABLES[1]]
    table_of(hub_row(2), hub_row(3, chosen="C"))(hub)
    assert load(hub, tmp_path)["error"] == "DataBroken"
    hub.holds(MMRB2_REPO, TABLES[1], whole)
    assert len(load(hub, tmp_path)["pairs"]) == 4
    assert hub.requested_files().count(Path(TABLES[0]).name) == 1
    assert list((tmp_path / "cache").rglob("*.unfinished")) == []
