"""The benchmark of another package in ``examples/``: installed, run, and read again."""

from __future__ import annotations

import json
import math
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.runner import TESTS, CommandResult, Workplace, write
from support.settings import change
from support.wheels import build, unpack

from mmie_tasks import __version__, load_run
from mmie_tasks.extend import BadRecord, Benchmark, Record, Signature, Unscored

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXAMPLE, MMIE = EXAMPLES / "own_benchmark", EXAMPLES / "mmie"
GROUP = "mmie_tasks.benchmarks"
DOC = {"id": "00", "category": "colour", "gold": "C"}
TABLE = {
    "coverage": "91.6667",
    "official": "45.4545",
    "official_colour": "25.0000",
    "official_shape": "50.0000",
    "robust": "81.8182",
}
DETAILS = {  # in the results file only
    "differ": 4.0,
    "robust_colour": 75.0,
    "robust_shape": 75.0,
    "scored": 11.0,
    "samples": 12.0,
    "samples_size": 4.0,
    "unscored_no_answer": 1.0,
    "robust_unscored_no_answer": 1.0,
    "points_0": 6.0,
    "points_1": 5.0,
}


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    workplace = Workplace(folder=tmp_path_factory.mktemp("own_benchmark"))
    workplace.install(EXAMPLE)
    return workplace


@pytest.fixture(scope="module")
def result(workplace: Workplace) -> CommandResult:
    """An evaluation of the example benchmark and of MMIE."""
    answers = f"path={EXAMPLE / 'answers.json'};{MMIE / 'answers'},images={MMIE / 'answers'}"
    judge = f"replay:path={MMIE / 'replies.jsonl'},prompts={MMIE / 'prompts.json'}"
    return workplace.run(
        *("mmie-tasks", "eval", "--model", "predictions", "--model_args", answers),
        *("--tasks", "odd_one_out,mmie", "--judge", judge),
        *("--output_path", "out", "--log_samples"),
        MMIE_DATA=str(MMIE / "data"),
    )


@pytest.fixture
def odd_one_out(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of the package, which this process can import during a test."""
    monkeypatch.syspath_prepend(str(workplace.plugins))
    from odd_one_out import benchmark

    yield benchmark
    for name in [name for name in sys.modules if name.partition(".")[0] == "odd_one_out"]:
        del sys.modules[name]


def benchmark() -> Benchmark:
    from odd_one_out.benchmark import BENCHMARK

    loaded: Benchmark = BENCHMARK
    return loaded


def test_the_runner_prints_its_table_beside_one_of_ours(result: CommandResult) -> None:
    printed = {metric: value for (task, metric), value in result.table.items() if task[:3] == "Odd"}
    assert printed == TABLE, result.output
    assert result.values["MMIE", "official"] == "68.5200"


def test_what_the_table_does_not_show_is_in_the_results_file(
    workplace: Workplace, result: CommandResult
) -> None:
    (path,) = (workplace.folder / "out").rglob("*_results.json")
    saved = json.loads(path.read_text(encoding="utf-8"))
    details = saved["mmie_tasks"]["odd_one_out"]
    assert {name: details[name] for name in DETAILS} == DETAILS
    assert details["ci95_low"] < details["official"] < details["ci95_high"]
    assert not {"official_size", "robust_size", "unscored_unavailable"} & details.keys()
    assert not DETAILS.keys() & {
        name.removesuffix(",none") for name in saved["results"]["odd_one_out"]
    } - {"samples"}
    assert saved["mmie_tasks"]["mmie"]["dropped"] == 1
    assert ("MMIE", "dropped") not in result.table


def test_the_run_ends_with_a_line_for_each_task_and_the_command_for_a_report(
    result: CommandResult,
) -> None:
    _, _, block = result.output.rpartition("mmie-tasks: scores in percent")
    odd_one_out, mmie = (
        line for line in block.splitlines() if line.startswith(("odd_one_out", "mmie "))
    )
    assert "45.45 [" in odd_one_out
    assert "  68.52  " in mmie
    assert "9 of 10, 1 left out" in mmie
    assert (
        "1 unscored: no_answer; 11 of 20,103 samples; categories not in MMIE's proportions; "
        "judge: made-up, not the paper's; other prompt words" in mmie
    )
    assert block.rstrip().splitlines()[-1] == "mmie-tasks report out -o report.html"


def test_a_package_that_overrides_no_task_is_not_mentioned(result: CommandResult) -> None:
    assert (
        "mmie-tasks: mia_bench, mmie: ours instead of the built-in of the same name"
        in result.output
    )
    assert "left out" not in result.output.partition("Selected Tasks")[0]


def test_the_signature_is_in_the_results(workplace: Workplace, result: CommandResult) -> None:
    (path,) = (workplace.folder / "out").rglob("*_results.json")
    metadata = json.loads(path.read_text(encoding="utf-8"))["configs"]["odd_one_out"]["metadata"]
    assert metadata["signature"].startswith("reader:official+robust|task:odd_one_out@1-B|data:sha")
    assert metadata["signature"].endswith(f"|pkg:{__version__}")
    assert metadata["signature"] in result.output


@pytest.mark.usefixtures("odd_one_out")
def test_another_floor_of_coverage_is_in_the_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    change(monkeypatch, benchmark(), min_coverage=0.5)
    provenance = str(Signature(benchmark=benchmark().provenance({})))
    assert str(benchmark().signature({})) == f"{provenance}|min_coverage:0.5|pkg:{__version__}"


@pytest.mark.usefixtures("result", "odd_one_out")
def test_metric_values_of_the_log_equal_the_table(workplace: Workplace) -> None:
    scores = load_run(workplace.folder / "out").scores()
    ours = scores[scores["task"] == "odd_one_out"]
    percents = dict(zip(ours["metric"], ours["percent"], strict=True))
    assert math.isnan(percents.pop("official_size"))
    assert math.isnan(percents.pop("robust_size"))
    assert percents.keys() >= TABLE.keys() - {"coverage"}
    for name, percent in percents.items():
        assert TABLE.get(name, f"{percent:.4f}") == f"{percent:.4f}"
        assert DETAILS.get(name, percent) == percent


@pytest.mark.usefixtures("result", "odd_one_out")
def test_saved_answers_that_are_scored_again_have_the_same_verdicts(workplace: Workplace) -> None:
    (log,) = (workplace.folder / "out").rglob("*_samples_odd_one_out.jsonl")
    read = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert len(read) == 12
    for line in read:
        record = Record.of_line(line)
        assert benchmark().regraded(record) == record
        assert Path(str(record.question[0].image)).is_file()
    assert [Record.of_line(line).official for line in read][-1] == Unscored(
        "no_answer", "no saved answer"
    )


@pytest.mark.usefixtures("odd_one_out")
def test_a_line_of_another_benchmark_is_a_bad_record() -> None:
    for line in ({}, {"record": 1.0}, {"record": {"id": "00", "category": "size"}}):
        with pytest.raises(BadRecord):
            Record.of_line(line)


def test_an_answer_has_an_official_and_a_robust_score(odd_one_out: ModuleType) -> None:
    points = {
        (answer, odd_one_out.official(answer, "C").points, odd_one_out.robust(answer, "C").points)
        for answer in ("C", "(C).", "A circle among squares: C", "B or C", "Cats")
    }
    assert points == {
        ("C", 1, 1),
        ("(C).", 0, 1),
        ("A circle among squares: C", 0, 1),
        ("B or C", 0, 0),
        ("Cats", 0, 0),
    }


@pytest.mark.usefixtures("odd_one_out")
@pytest.mark.parametrize(
    ("results", "reason"), [(["[GENERATION_FAILED] x"], "no_answer"), (["A"] * 2, "not_text")]
)
def test_an_unreadable_answer_is_unscored_and_not_zero(results: list[str], reason: str) -> None:
    record = Record.of_line(benchmark().process_results(DOC, results))
    assert isinstance(record.official, Unscored)
    assert record.official.reason == reason
    assert record.robust == record.official == benchmark().regraded(record).official


@pytest.mark.usefixtures("odd_one_out")
def test_an_answer_to_an_unreadable_picture_stays_unscored() -> None:
    benchmark().opener.open("00", Path("no such file"))
    record = Record.of_line(benchmark().process_results(DOC, ["C"]))
    assert isinstance(record.official, Unscored)
    assert record.official.reason == "bad_image"
    assert benchmark().regraded(record) == record


def test_the_doctor_reports_on_the_benchmark(workplace: Workplace) -> None:
    result = workplace.run("mmie-tasks", "doctor", "--tasks", "odd_one_out")
    assert result.status == 0
    assert "ok       odd_one_out: of the package `odd_one_out`, task files: 1" in result.output
    assert "odd_one_out: judge: none is needed: it is scored by rule" in result.output


def test_the_doctor_reports_broken_packages_as_problems(tmp_path: Path) -> None:
    workplace = Workplace(folder=tmp_path)
    write(workplace.plugins / "sketch" / "__init__.py", "")
    shutil.copy(TESTS / "support" / "sketch_task.py", workplace.plugins / "sketch" / "benchmark.py")
    write(workplace.plugins / "broken" / "__init__.py", "len(5)")
    for name in ("sketch", "broken"):
        workplace.install_entry_point(GROUP, name, f"{name}.benchmark:BENCHMARK")
    result = workplace.run("mmie-tasks", "doctor", "--tasks", "broken,sketch")
    lines = [line for line in result.output.splitlines() if line.startswith("problem")]
    assert result.status == 1
    assert [line.split()[1] for line in lines] == ["broken:", "sketch:"], result.output
    assert "TypeError" in result.output
    assert "task files: 0" in lines[1]


def test_an_editable_install_has_its_tasks_in_the_checkout(tmp_path: Path) -> None:
    workplace = Workplace(folder=tmp_path)
    source = shutil.copytree(EXAMPLE, tmp_path / "source")
    unpack(build("editable", source, tmp_path), workplace.plugins)
    (link,) = workplace.plugins.glob("*.pth")
    assert Path(link.read_text().strip()) == source
    listed = workplace.run(
        *("lmms-eval", "--tasks", "list_subtasks"), PYTHONPATH=f"{workplace.plugins}:{source}"
    )
    (line,) = [line for line in listed.output.splitlines() if line.startswith("|odd_one_out")]
    assert str(source / "odd_one_out" / "task_yamls") in line


def test_a_missing_picture_stops_a_run_and_another_broken_package_does_not(tmp_path: Path) -> None:
    workplace = Workplace(folder=tmp_path)
    workplace.install_stub_model()
    shutil.copytree(EXAMPLE / "odd_one_out", workplace.plugins / "odd_one_out")
    (workplace.plugins / "odd_one_out" / "images" / "03.png").unlink()
    write(workplace.plugins / "bare" / "__init__.py", "")
    for name, package in (
        ("odd_one_out", "odd_one_out.benchmark:BENCHMARK"),
        ("bare", "bare.benchmark:BENCHMARK"),
        ("gone", "not_there.benchmark:BENCHMARK"),
    ):
        workplace.install_entry_point(GROUP, name, package)
    result = workplace.run("lmms-eval", "--model", "stub", "--tasks", "odd_one_out")
    assert result.status == 1, result.output
    assert "1 of the 12 images of odd_one_out do not exist" in result.output
    assert "Traceback" not in result.output
    assert result.output.count("mmie-tasks: the benchmark `gone` is left out:") == 1
    assert result.output.count("mmie-tasks: the benchmark `bare` has no task in") == 1


def test_the_committed_example_is_the_output_of_make(tmp_path: Path) -> None:
    runpy.run_path(str(EXAMPLE / "make.py"))["main"](tmp_path)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 14
    for path in written:
        committed = EXAMPLE / path.relative_to(tmp_path)
        assert committed.read_bytes() == path.read_bytes(), "run make.py"
