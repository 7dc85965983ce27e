"""`prefetch` and `doctor` with a loopback Hub; nothing large is downloaded."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.example import archive
from support.golden import GOLDEN
from support.hub_files import SCORE, checkpoint_files, mia_bench_files, mmie_files
from support.hub_process import TOKEN, ask
from support.hub_server import COMMIT, HubServer
from support.loopback import LoopbackServer
from support.mmie_replies import JUDGE_PROMPTS

from mmie_tasks.benchmarks.milebench.data import PARTS, datasets_of
from mmie_tasks.benchmarks.milebench.data import REPO as MILEBENCH
from mmie_tasks.benchmarks.milebench.sample import datasets_in
from mmie_tasks.benchmarks.mmie.benchmark import Mmie
from mmie_tasks.core.errors import DataMissing, SettingWrong
from mmie_tasks.hub.asset import Asset, DownloadPlan, local_asset
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.choice import parse_flags
from mmie_tasks.preflight import prefetch as command
from mmie_tasks.preflight.needed import judges_of, select_tasks

TINY = GOLDEN / "internvl" / "checkpoint"
EVERYTHING = ("mmie", "milebench_DocVQA", "mia_bench", "--judge")
NOWHERE = "mmie_score:/nowhere"
NO_HUB = "http://127.0.0.1:9"  # nothing listens there

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


def prefetch(hub, home, *arguments, before="", **environment):
    """Run the command in a process of its own, whose every cache is below `home`."""
    code = PREFETCH.format(arguments=list(arguments), before=before)
    return SimpleNamespace(**ask(hub.url, home, code, **environment))


DOCTOR = """
import os
from dataclasses import asdict
from mmie_tasks.preflight.checks import examine
from mmie_tasks.preflight.doctor import parser
options = parser().parse_args({arguments})
answer = {{one.subject: asdict(one) for one in examine(options, os.environ)}}
"""


def doctor(url, home, *arguments, before="", **more):
    """The findings of the command in a process of its own, by subject."""
    code = before + DOCTOR.format(arguments=list(arguments))
    return ask(url, home, code, **more)


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
def own_pin():
    content = JUDGE_PROMPTS.encode()
    with LoopbackServer({"/prompts.py": content}) as server:
        yield OWN_PIN.format(content=content, url=f"{server.url}/prompts.py")


@pytest.fixture
def hub():
    """The three benchmarks and the checkpoint; of MileBench the archives 1 and 4."""
    milebench = {(MILEBENCH, f"MileBench_part{n}.tar.gz"): archive(PARTS[n]) for n in (1, 4)}
    files = {**checkpoint_files(), **mmie_files(), **mia_bench_files(), **milebench}
    with HubServer(files) as server:
        yield server


def test_a_dry_run_prints_the_sizes_and_fetches_nothing(hub, tmp_path):
    done = prefetch(hub, tmp_path, *EVERYTHING, "--dry_run")
    for named in (
        f"mmie: data: MMIE/MMIE@{COMMIT[:12]}: data.json, images.tar.gz: to fetch: ",
        "MileBench_part1.tar.gz",
        f"lmms-lab-encoder/MIA-Bench@{COMMIT[:12]}",
        f"MMIE/MMIE-Score@{COMMIT[:12]}: to fetch: 0.7 MiB, in ",
    ):
        assert named in done.log
    assert (done.output, hub.downloads("GET")) == ("", [])
    assert not (tmp_path / "cache").exists()
    assert not (tmp_path / "hf/assets").exists()


def test_after_a_prefetch_neither_command_needs_the_hub(hub, tmp_path, own_pin):
    first = prefetch(hub, tmp_path, *EVERYTHING, before=own_pin)
    requests = len(hub.requests)
    hub.refuses(500)
    again = prefetch(hub, tmp_path, *EVERYTHING, before=own_pin)
    assert (first.error, "to fetch" in again.log, len(hub.requests)) == ("", False, requests)
    for name, folder in (("MMIE_TASKS", "cache"), ("HF_HUB", "hf/hub"), ("HF_ASSETS", "hf/assets")):
        assert f"export {name}_CACHE={tmp_path}/{folder}\n" in first.output
    assert first.output.endswith("export HF_HUB_OFFLINE=1")
    assert TOKEN not in first.output
    tasks = ("--tasks", "mmie,milebench_DocVQA,mia_bench")
    for offline in "01":
        found = doctor(NO_HUB, tmp_path, *tasks, before=own_pin, HF_HUB_OFFLINE=offline)
        problems = {subject for subject, finding in found.items() if finding["hint"]}
        assert problems <= {"mia_bench: judge", "mmie_score: packages"}  # no key; transformers 4
        assert found["mmie: data"]["message"].startswith("3 samples of MMIE/MMIE@")
        assert found["milebench: data"]["message"].startswith("2 samples of 1 dataset;")
        assert found["mia_bench: data"]["message"].startswith("8 samples of ")
        assert found["mmie: judge prompts"]["message"].startswith("official@")
        assert found.keys() >= {"mmie_score: files", "mmie_score: device"}


@pytest.mark.parametrize("arguments", [(), ("--dry_run",)], ids=["fetch", "dry-run"])
def test_a_refusal_of_the_hub_ends_in_its_hint(hub, tmp_path, own_pin, arguments):
    hub.refuses(401, "GatedRepo")
    done = prefetch(hub, tmp_path, "mmie", "--judge", *arguments, before=own_pin)
    assert "2 of 3 could not be fetched" in done.error
    assert done.error.count("accept the terms on https://hugg") == 1
    assert TOKEN not in done.error + done.log


def test_offline_every_missing_asset_is_named(hub, tmp_path):
    done = prefetch(hub, tmp_path, *EVERYTHING, HF_HUB_OFFLINE="1")
    assert "of 5 could not be fetched" in done.error
    for name in ("mmie: data", "milebench: data", "mia_bench: data", "mmie_score: checkpoint"):
        assert name in done.log
    assert hub.requests == []


def test_the_doctor_tells_sizes_and_refusals_and_downloads_nothing(hub, tmp_path):
    words = ("--tasks", "mmie", "--judge", f"mmie_score:{SCORE}")
    found = doctor(hub.url, tmp_path, *words)
    for name in ("mmie: data", "mmie_score: checkpoint"):
        assert "to fetch: " in found[name]["message"]
        assert not found[name]["hint"]
    assert [path for path in hub.downloads("GET") if "prompts" not in path] == []
    hub.refuses(403, "GatedRepo")
    assert "accept the terms" in doctor(hub.url, tmp_path, *words)["mmie: data"]["hint"]
    no_hub = doctor(NO_HUB, tmp_path, *words)
    assert "`model=`" in no_hub["mmie_score: checkpoint"]["hint"]


def test_a_socks_proxy_without_its_package_is_a_problem_with_the_reason(tmp_path):
    before = "import os, sys; sys.modules['socksio'] = None; os.environ['ALL_PROXY'] = 'socks5://h'"
    words = ("--tasks", "mmie", "--judge", "replay")
    found = doctor(NO_HUB, tmp_path, *words, before=before, NO_PROXY="")
    assert "SOCKS" in found["mmie: data"]["message"]
    assert found["mmie: data"]["hint"].startswith("`pip install socksio`")


# Without any Hub


def run(monkeypatch, *assets):
    """Prefetch these assets in place of a benchmark's."""
    monkeypatch.setattr("mmie_tasks.core.log.plain_logs", lambda _level: None)
    monkeypatch.setattr(Mmie, "assets", lambda *_arguments: assets)
    return command.run(["mmie"], {})


def missing(name, error=None):
    def fetch():
        if error:
            raise error
        return "was fetched"

    return Asset(
        name=name,
        source="owner/a",
        folder=Path("/"),
        is_here=lambda: False,
        plan=lambda: DownloadPlan(source="owner/a", size_bytes=2**30),
        fetch=fetch,
    )


def test_after_a_failure_the_next_asset_is_fetched(monkeypatch, capsys):
    broken = missing("a", DataMissing("Gone.", hint="look"))
    with pytest.raises(DataMissing, match=r"1 of 2[\s\S]*look"):
        run(monkeypatch, broken, missing("b"))
    assert "b: was fetched" in capsys.readouterr().out
    with pytest.raises(KeyError):  # not ours, and not a failed download
        run(monkeypatch, missing("a", KeyError("b")))


def test_a_path_to_copy_is_quoted(tmp_path, monkeypatch):
    (tmp_path / "a b").mkdir()
    local = local_asset("a", "A", tmp_path / "a b")
    assert f"export A='{tmp_path}/a b'" in run(monkeypatch, local)


def test_the_tasks_of_a_benchmark_are_selected_once_each():
    selection = select_tasks(["milebench_OCR-VQA", "mmie", "mmie_sa", "mmie"])
    tasks_of = {benchmark.name: tasks for benchmark, tasks in selection.items()}
    assert tasks_of == {"milebench": ("milebench_OCR-VQA",), "mmie": ("mmie", "mmie_sa")}
    datasets = datasets_of(["milebench_adv", "milebench_OCR-VQA"])
    assert set(datasets) == {*datasets_in("adv"), "OCR-VQA"}


def test_judges_are_those_that_are_named_or_chosen_each_once():
    benchmarks = [*select_tasks(["mmie", "mia_bench"])]
    judge = f"mmie_score:{TINY}"
    panel = parse_flags(["openai:gpt-4o", judge, f"{judge},dtype=float32"], ())
    for entries in (benchmarks, [*select_tasks(["milebench"])]):  # also where none is needed
        names = [one.name for one in judges_of(entries, panel, {})]
        assert names == ["openai", "mmie_score", "mmie_score"]
    one = parse_flags([f"mia_bench={judge}"], ())
    assert len(judges_of(benchmarks, one, {"MMIE_TASKS_JUDGE": judge})) == 1


@pytest.mark.parametrize(
    ("words", "error", "text"),
    [
        pytest.param([], SettingWrong, "there are mia_bench, milebench, mmie", id="no-name"),
        pytest.param(["DocVQA"], SettingWrong, "there is `milebench_DocVQA`", id="a-dataset"),
        pytest.param(["mmie", "--judge", NOWHERE], JudgeMisconfigured, "neither", id="folder"),
    ],
)
def test_an_impossible_name_is_an_error(monkeypatch, words, error, text):
    monkeypatch.setattr("mmie_tasks.core.log.plain_logs", lambda _level: None)
    with pytest.raises(error, match=text):
        command.run(words, {"MMIE_DATA": "/nowhere"})
