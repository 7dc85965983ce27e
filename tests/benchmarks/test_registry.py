"""The benchmarks there are: ours, and those of other packages."""

import pytest

from mmie_tasks.benchmarks import registry as module
from mmie_tasks.benchmarks.registry import BenchmarkEntry, entries, entry_of_task
from mmie_tasks.core.errors import SettingWrong


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Puts packages on the path, and their entry points."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(**entries):
        for value in entries.values():
            if not value.startswith("no_such"):
                folder = tmp_path / value.partition(".")[0]
                folder.mkdir()
                (folder / "__init__.py").touch()
        monkeypatch.setattr(module, "_plugins", lambda _path: sorted(entries.items()))
        return tmp_path

    return install


@pytest.mark.parametrize(
    ("task", "name"),
    [
        *[("mmie", "mmie"), ("mmie_sa", "mmie"), ("milebench_Spot-the-Diff", "milebench")],
        *[("mmie2", None), ("mia", None), ("mmmu_val", None)],
    ],
)
def test_a_task_is_of_the_benchmark_that_it_is_named_like(task, name):
    entry = entry_of_task(task)
    assert (entry and entry.name) == name


def test_ours_are_four_and_have_their_task_files():
    ours = [entry for entry in entries() if entry.is_ours]
    assert [entry.name for entry in ours] == ["mia_bench", "milebench", "mmie", "opening"]
    assert all(entry.task_dir().is_dir() for entry in ours)


def test_another_package_adds_a_benchmark(package):
    folder = package(sketch="sketch_package.benchmark:BENCHMARK")
    entry = entry_of_task("sketch_hard")
    assert entry == BenchmarkEntry(name="sketch", target="sketch_package.benchmark:BENCHMARK")
    assert not entry.is_ours
    assert entry.task_dir() == folder / "sketch_package" / "task_yamls"
    assert entry.package == "sketch_package"


def test_the_longer_name_wins_and_ours_cannot_be_replaced(package):
    package(mmie_own="own_package.benchmark:BENCHMARK", mmie="their_package.benchmark:BENCHMARK")
    assert entry_of_task("mmie_own_x").name == "mmie_own"
    assert entry_of_task("mmie_sa").is_ours


@pytest.mark.parametrize("value", ["no_such_package.benchmark:BENCHMARK", "no_such_module:X"])
def test_a_package_that_is_not_installed_is_named(package, value):
    package(sketch=value)
    entry = entry_of_task("sketch")
    for call in (entry.load, entry.task_dir):
        with pytest.raises(SettingWrong, match=rf"`sketch`.*`{value}`"):
            call()


JUDGED = """
from mmie_tasks.extend import Benchmark, BenchmarkJudge, Scale
class Sketch(Benchmark):
    name = "sketch"
    scale = Scale(full_marks=1, unit="points", percent=lambda mean: mean)
    judge = BenchmarkJudge("sketch", "openai:m")
    def question(self, doc, options): return []
BENCHMARK = Sketch()
"""
BY_RULE = JUDGED.replace('BenchmarkJudge("sketch", "openai:m")', "None")
JUDGE_OF_MMIE = """
from mmie_tasks.benchmarks.mmie.benchmark import Mmie
class Sketch(Mmie):
    name = "sketch"
BENCHMARK = Sketch()
"""


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        pytest.param("BENCHMARK = len", "is not a `Benchmark`", id="another-object"),
        pytest.param(JUDGE_OF_MMIE, "judge of `mmie`", id="judge-of-another-benchmark"),
        pytest.param("BENCHMARK = len(5)", "TypeError", id="fails-when-imported"),
        pytest.param(JUDGED, "lacks `title`, `request`, `read`", id="parts-of-a-judged-one"),
        pytest.param(BY_RULE, "lacks `title`, `score`", id="parts-of-one-scored-by-rule"),
    ],
)
def test_an_unusable_benchmark_is_named(package, request, source, problem):
    name = request.node.callspec.id.replace("-", "_")  # each is imported once
    folder = package(sketch=f"{name}.benchmark:BENCHMARK")
    (folder / name / "benchmark.py").write_text(source)
    with pytest.raises(SettingWrong, match=rf"`sketch`.*{problem}"):
        entry_of_task("sketch").load()
