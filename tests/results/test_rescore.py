"""``mmie-tasks rescore``: saved replies are read again."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.logged_runs import mia_lines, milebench_lines, mmie_lines, write_run

from mmie_tasks import __version__
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.results.commands import open_run
from mmie_tasks.results.rescore.command import run


def as_logged(lines):
    """Lines as they are read from a file."""
    return [json.loads(json.dumps(line)) for line in lines]


LINES = {
    "mmie": as_logged(mmie_lines(12, unscored=0)),
    "mia_bench": as_logged(mia_lines(12)),
    "milebench": as_logged(milebench_lines(2, datasets=("DocVQA", "TQA", "GPR1200"))),
}
WRONG = {
    "mmie": {"reading": "?", "points": 1},
    "mia_bench": {"reading": "", "points": 1.5},
    "milebench": {"reading": "", "points": 0.5},
}
every_task = pytest.mark.parametrize("task", LINES)


def rescore(*words):
    return run([str(word) for word in words], {})


def rescore_json(*words):
    return json.loads(rescore(*words, "--json"))


def with_wrong_verdict(task, number=2, kind="official", verdict=None):
    """Lines of a log; one has a verdict that the current reader does not return."""
    lines = copy.deepcopy(LINES[task])
    lines[number]["record"][kind] = verdict or WRONG[task]
    return lines


@every_task
def test_unchanged_readers_change_no_verdict(tmp_path, task):
    write_run(tmp_path, task, LINES[task])
    output = rescore(tmp_path)
    assert "Nothing changed." in output
    assert f"{len(LINES[task])} samples, {len(LINES[task])} rescored" in output
    assert rescore_json(tmp_path)[0]["changes"] == []


@every_task
@pytest.mark.parametrize("kind", ["official", "robust"])
def test_a_verdict_that_differs_from_the_log_is_a_change(tmp_path, task, kind):
    write_run(tmp_path, task, with_wrong_verdict(task, kind=kind))
    (result,) = rescore_json(tmp_path)
    sound = LINES[task][2]["record"]
    other = "robust" if kind == "official" else "official"
    assert result["changed"] == {kind: 1, other: 0}
    (change,) = result["changes"]
    assert (change["id"], change["score_kind"]) == (sound["id"], kind)
    assert change["after"]["points"] == pytest.approx(sound[kind]["points"])


def test_the_headline_is_shown_before_and_after(tmp_path):
    write_run(tmp_path / "wrong", "mmie", with_wrong_verdict("mmie"))
    write_run(tmp_path / "right", "mmie", LINES["mmie"])
    official = rescore_json(tmp_path / "wrong")[0]["metrics"][0]
    right = rescore_json(tmp_path / "right")[0]["metrics"][0]
    before, after = (official[when]["percent"] for when in ("before", "after"))
    assert before != after == right["before"]["percent"]
    cells = [cell.strip() for cell in rescore(tmp_path / "wrong").split("|")]
    assert {f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}"} <= {*cells}


def test_a_different_unscored_reason_is_a_change(tmp_path):
    lines = with_wrong_verdict("mmie", verdict={"reason": "refused", "detail": "old"})
    lines[2]["record"]["judgements"][0]["result"]["reply"]["text"] = "### Score\n9"
    write_run(tmp_path, "mmie", lines)
    change = rescore_json(tmp_path)[0]["changes"][0]
    assert (change["before"]["unscored"], change["after"]["unscored"]) == ("refused", "off_scale")
    assert "unscored, refused: old" in rescore(tmp_path)


def test_samples_that_cannot_be_rescored_are_named_and_written_unchanged(tmp_path):
    lines = with_wrong_verdict("mmie")
    del lines[2]["record"]["judgements"]
    write_run(tmp_path / "model", "mmie", lines)
    (result,) = rescore_json(tmp_path / "model")
    assert list(result["not_rescored"]) == ["MSR-2"]
    assert result["changes"] == []
    output = rescore(tmp_path / "model", "-o", tmp_path / "new")
    assert "12 samples, 11 rescored" in output
    assert "1: the log does not hold the reply or answer (MSR-2)" in output
    assert written(tmp_path / "new")[2] == lines[2]


def test_top_limits_the_listed_changes(tmp_path):
    lines = copy.deepcopy(LINES["mmie"])
    for line in lines:
        line["record"]["official"] = {"reason": "refused"}
    write_run(tmp_path, "mmie", lines)
    output = rescore(tmp_path, "--top", 2)
    assert output.count("unscored, refused") == 2
    assert "10 more" in output
    assert len(rescore_json(tmp_path, "--top", 2)[0]["changes"]) == 12
    assert "unscored, refused" not in rescore(tmp_path, "--top", 0)


def test_untrusted_text_cannot_control_a_terminal(tmp_path):
    verdict = {"points": 1, "reading": "\x1b[2Ja | b\n\ud800"}
    write_run(tmp_path, "mmie", with_wrong_verdict("mmie", verdict=verdict))
    output = rescore(tmp_path)
    assert "\x1b" not in output
    assert output.encode()
    assert "a ¦ b" in output


@every_task
def test_the_written_log_is_a_run_with_the_new_verdicts(tmp_path, task):
    log = write_run(
        tmp_path / "model", task, with_wrong_verdict(task), results={"official,none": 3.0}
    )
    output = rescore(tmp_path / "model", "-o", tmp_path / "new")
    assert f"Written to `{tmp_path / 'new'}`" in output
    assert (tmp_path / "new" / "model" / log.name).is_file()
    write_run(tmp_path / "sound", task, LINES[task])
    before, after = open_run(str(tmp_path / "sound")), open_run(str(tmp_path / "new"))
    assert after.tasks[task].samples == before.tasks[task].samples
    assert rescore_json(tmp_path / "new")[0]["changes"] == []


def written(folder: Path):
    (log,) = folder.rglob("*.jsonl")
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def test_the_record_its_columns_and_the_runners_keys_are_written(tmp_path):
    lines = with_wrong_verdict("mmie")
    lines[2]["record"]["signature"]["package"] = "0.0.1"
    lines[2]["official"] = 0.5
    write_run(tmp_path / "model", "mmie", lines)
    rescore(tmp_path / "model", "-o", tmp_path / "new")
    line = written(tmp_path / "new")[2]
    assert line.keys() == LINES["mmie"][2].keys()
    record = line["record"]
    assert record["rescored"] == {"pkg": __version__, "changed": True}
    sound = LINES["mmie"][2]["record"]
    assert record["signature"] == {**sound["signature"], "package": __version__}
    assert record["official"] == sound["official"]
    assert written(tmp_path / "new")[0]["record"]["rescored"]["changed"] is False


def test_lines_without_a_sample_are_not_written(tmp_path):
    lines = [*LINES["mmie"], LINES["mmie"][0], {"bypass": 999}]
    log = write_run(tmp_path / "model", "mmie", lines)
    log.write_text(f"{log.read_text()}{{'cut")
    output = rescore(tmp_path / "model", "-o", tmp_path / "new")
    assert len(written(tmp_path / "new")) == 12
    for note in ("cut off", "logged twice", "--predict_only"):
        assert note in output


def test_runs_are_written_beside_each_other_below_the_folder(tmp_path):
    for name in ("a", "b"):
        write_run(tmp_path / name / "model", "mmie", LINES["mmie"])
    words = (f"x/../y={tmp_path / 'a'}", f"x_.._y={tmp_path / 'b'}")
    rescore(*words, "-o", tmp_path / "new")
    folders = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert folders == ["x_.._y", "x_.._y+"]
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_folder_that_exists_or_cannot_be_made_is_an_error(tmp_path):
    write_run(tmp_path / "model", "mmie", LINES["mmie"])
    (tmp_path / "new").mkdir()
    (tmp_path / "file").touch()
    for name, message in (("new", "already exists"), ("file/new", "cannot be written")):
        with pytest.raises(SettingWrong, match=message):
            rescore(tmp_path / "model", "-o", tmp_path / name)
    assert not list((tmp_path / "new").iterdir())


def test_a_run_without_a_total_shows_its_other_numbers(tmp_path):
    lines = [line for line in LINES["milebench"] if line["record"]["dataset"] == "DocVQA"]
    write_run(tmp_path, "milebench_DocVQA", lines)
    (result,) = rescore_json(tmp_path)
    assert result["metrics"]
    assert all(metric["before"]["percent"] is not None for metric in result["metrics"])


ODD = """
from mmie_tasks.benchmarks.mmie.benchmark import Mmie, MmieRecord

class Odd(Mmie):
    name, judge = "odd", None

    def regraded(self, record, line):
        return {}[record.id]

class WeirdRecord(MmieRecord):
    def model_dump(self):
        raise RuntimeError("no more")

class Weird(Mmie):
    name, judge, record = "weird", None, WeirdRecord

BENCHMARK, ODDER = Odd(), Weird()
"""


@pytest.fixture
def rescore_with_odd_package(tmp_path):
    """Runs the command where a package with two broken benchmarks is installed."""
    package = tmp_path / "lib" / "odd-1.dist-info"
    package.mkdir(parents=True)
    (tmp_path / "lib" / "odd.py").write_text(ODD)
    entries = "[mmie_tasks.benchmarks]\nodd = odd:BENCHMARK\nweird = odd:ODDER\n"
    (package / "entry_points.txt").write_text(entries)
    (package / "METADATA").write_text("Name: odd\nVersion: 1\n")
    for task in ("odd", "weird", "mmie"):
        write_run(tmp_path / task / "model", task, with_wrong_verdict("mmie"))

    def command(*words):
        command = [sys.executable, "-m", "mmie_tasks", "rescore", *words]
        paths = os.pathsep.join([str(tmp_path / "lib"), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": paths}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    return command


@pytest.mark.slow
def test_a_bug_in_one_packages_functions_costs_only_its_own_task_or_log(
    rescore_with_odd_package, tmp_path
):
    ended = rescore_with_odd_package("odd", "weird", "mmie", "-o", "new")
    assert ended.returncode == 1
    reading, writing = ended.stderr.splitlines()
    assert "odd is not rescored: `regraded` in " in reading
    assert "odd.py, line 8, failed with KeyError: 'SA-0'" in reading
    assert "weird is not written: `model_dump` in " in writing
    assert "failed with RuntimeError: no more" in writing
    done = "12 samples, 12 rescored. Changed verdicts: 1 official, 0 robust."
    assert ended.stdout.count(done) == 2
    (log,) = (tmp_path / "new").rglob("*.jsonl")
    assert "mmie" in log.name


def test_the_number_of_changes_to_print_is_not_negative(tmp_path):
    with pytest.raises(SystemExit):
        rescore(tmp_path, "--top", "-1")
