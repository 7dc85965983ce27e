"""The command with a loopback Hub: sizes, downloads, and a doctor offline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.example import archive
from support.hub_files import checkpoint_files, mia_bench_files, mmie_files
from support.hub_process import TOKEN, ask
from support.hub_server import COMMIT, HubServer
from support.loopback import LoopbackServer
from support.mmie_replies import JUDGE_PROMPTS

from mmie_tasks.benchmarks.milebench.data import PARTS
from mmie_tasks.benchmarks.milebench.data import REPO as MILEBENCH

EVERYTHING = ("mmie", "milebench_DocVQA", "mia_bench", "--judge")


PREFETCH = """
import contextlib, io, os, sys
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.preflight.prefetch import run
sys.stderr = log = io.StringIO()
{before}
with contextlib.redirect_stdout(log):
    try:
        answer = {{"output": run({arguments}, os.environ), "error": ""}}
    except MmieTasksError as error:
        answer = {{"output": "", "error": f"{{type(error).__name__}}: {{error}}"}}
answer["log"] = log.getvalue()
"""


@dataclass(frozen=True)
class Done:
    """The output of a prefetch or its error, and its log."""

    output: str
    error: str
    log: str


def everything() -> HubServer:
    """The three benchmarks and the checkpoint; of MileBench the archives 1 and 4."""
    milebench = {(MILEBENCH, f"MileBench_part{n}.tar.gz"): archive(PARTS[n]) for n in (1, 4)}
    return HubServer({**checkpoint_files(), **mmie_files(), **mia_bench_files(), **milebench})


def prefetch(
    hub: HubServer, home: Path, *arguments: str, before: str = "", **environment: str
) -> Done:
    """Run the command in a process of its own, whose every cache is below `home`."""
    code = PREFETCH.format(arguments=list(arguments), before=before)
    return Done(**ask(hub.url, home, code, **environment))


DOCTOR = """
import os
from dataclasses import asdict
from mmie_tasks.preflight.checks import examine
from mmie_tasks.preflight.doctor import parser
options = parser().parse_args(["--tasks", "mmie,milebench_DocVQA,mia_bench"])
answer = [asdict(finding) for finding in examine(options, os.environ)]
"""

# The official words are not ours: the pin is moved to words of our own.
OWN_PIN = """
import dataclasses, hashlib
from mmie_tasks.benchmarks.mmie import judge_prompts as file
content = {content!r}
pin = file.OFFICIAL = dataclasses.replace(
    file.OFFICIAL, url="{url}", size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest()
)
file.prompts_file.__defaults__ = (None, pin)
"""


@pytest.fixture(scope="module")
def own_pin() -> Iterator[str]:
    content = JUDGE_PROMPTS.encode()
    with LoopbackServer({"/prompts.py": content}) as server:
        yield OWN_PIN.format(content=content, url=f"{server.url}/prompts.py")


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with everything() as server:
        yield server


def test_a_dry_run_prints_the_sizes_and_fetches_nothing(hub: HubServer, tmp_path: Path) -> None:
    done = prefetch(hub, tmp_path, *EVERYTHING, "--dry_run")
    assert f"mmie: data: MMIE/MMIE@{COMMIT[:12]}: data.json, images.tar.gz" in done.log
    assert "MileBench_part1.tar.gz" in done.log
    assert f"lmms-lab-encoder/MIA-Bench@{COMMIT[:12]}" in done.log
    assert f"MMIE/MMIE-Score@{COMMIT[:12]}" in done.log
    assert "to fetch: 0.7 MiB, in " in done.log
    assert done.output == ""
    assert hub.downloads("GET") == []
    assert not (tmp_path / "cache").exists()
    assert not (tmp_path / "hf/assets").exists()


def test_a_second_run_sends_no_request(hub: HubServer, tmp_path: Path, own_pin: str) -> None:
    first = prefetch(hub, tmp_path, *EVERYTHING, before=own_pin)
    assert first.error == ""
    requests = len(hub.requests)
    hub.refuses(500)
    again = prefetch(hub, tmp_path, *EVERYTHING, before=own_pin)
    assert "to fetch" not in again.log
    assert len(hub.requests) == requests


def test_the_output_ends_with_the_folders_to_copy_and_variables_to_set(
    hub: HubServer, tmp_path: Path, own_pin: str
) -> None:
    output = prefetch(hub, tmp_path, *EVERYTHING, before=own_pin).output
    assert f"export MMIE_TASKS_CACHE={tmp_path}/cache\n" in output
    assert f"export HF_HUB_CACHE={tmp_path}/hf/hub\n" in output
    assert f"export HF_ASSETS_CACHE={tmp_path}/hf/assets\n" in output
    assert output.endswith("export HF_HUB_OFFLINE=1")
    assert TOKEN not in output


def test_without_judge_the_checkpoint_is_left_out(hub: HubServer, tmp_path: Path) -> None:
    prefetch(hub, tmp_path, "mmie", "milebench_DocVQA")
    assert "MMIE-Score" not in " ".join(request.path for request in hub.requests)


@dataclass(frozen=True)
class Filled:
    """A machine with all assets and without a Hub."""

    hub_url: str
    home: Path
    setup: str
    error: str


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, own_pin: str) -> Filled:
    home = tmp_path_factory.mktemp("filled")
    with everything() as hub:
        done = prefetch(hub, home, *EVERYTHING, before=own_pin)
        return Filled(hub_url=hub.url, home=home, setup=own_pin, error=done.error)


@pytest.mark.parametrize("switched_off", ["0", "1"], ids=["no-network", "switched-off"])
def test_the_doctor_has_no_problem_without_the_hub(filled: Filled, switched_off: str) -> None:
    assert filled.error == ""
    code = f"{filled.setup}{DOCTOR}"
    findings = ask(filled.hub_url, filled.home, code, HF_HUB_OFFLINE=switched_off)
    text = "\n".join(f"{one['subject']}: {one['message']}" for one in findings)
    problems = {finding["subject"] for finding in findings if finding["is_problem"]}
    assert problems <= {"mia_bench: judge", "mmie_score: packages"}  # no key; transformers 4
    assert "mmie: data: 3 samples of MMIE/MMIE@" in text
    assert "milebench: data: 2 samples of 1 dataset;" in text
    assert "mia_bench: data: 8 samples of lmms-lab-encoder/MIA-Bench@" in text
    assert "mmie: judge prompts: official@" in text
    assert "mmie_score: files: " in text
    assert "mmie_score: device: " in text


@pytest.mark.parametrize("arguments", [(), ("--dry_run",)], ids=["fetch", "dry-run"])
def test_a_refusal_of_the_hub_ends_in_its_hint(
    hub: HubServer, tmp_path: Path, own_pin: str, arguments: tuple[str, ...]
) -> None:
    hub.refuses(401, "GatedRepo")
    done = prefetch(hub, tmp_path, "mmie", "--judge", *arguments, before=own_pin)
    assert "2 of 3 could not be fetched" in done.error
    assert done.error.count("accept the terms on https://hugg") == 1
    assert TOKEN not in done.error + done.log


def test_data_named_by_a_variable_needs_no_request(
    hub: HubServer, tmp_path: Path, own_pin: str
) -> None:
    (tmp_path / "data").mkdir()
    done = prefetch(hub, tmp_path, "mmie", before=own_pin, MMIE_DATA=str(tmp_path / "data"))
    assert f"export MMIE_DATA={tmp_path}/data" in done.output
    assert hub.requests == []


@pytest.mark.parametrize("arguments", [(), ("--dry_run",)], ids=["fetch", "dry-run"])
def test_offline_every_missing_asset_is_named(
    hub: HubServer, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = prefetch(hub, tmp_path, *EVERYTHING, *arguments, HF_HUB_OFFLINE="1")
    assert done.error.startswith("DataMissing: ")
    names = (
        "mmie: data",
        "milebench: data, part",
        "mia_bench: data",
        "mmie_score: checkpoint",
        "mmie: judge prompts",
    )
    assert all(name in done.log for name in names)
    assert "of 5 could not be fetched" in done.error
    assert hub.requests == []
