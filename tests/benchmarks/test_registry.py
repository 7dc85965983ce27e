"""The benchmarks there are: ours, and those of other packages."""

import pytest

from mmie_tasks.benchmarks import registry as module
from mmie_tasks.benchmarks.registry import BenchmarkEntry, entries, entry_names, entry_of_task
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import task_dir


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Puts packages on the path, and their entry points."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(**entries):
        for value in entries.values():
            package = value.partition(":")[0].partition(".")[0]
            if package not in ("no_such_package", "no_such", "no_such_module", "json"):
                (tmp_path / package).mkdir(exist_ok=True)
                (tmp_path / package / "__init__.py").touch()
        monkeypatch.setattr(module, "_plugins", lambda _path: sorted(entries.items()))
        return tmp_path

    return install


@pytest.mark.parametrize(
    ("task", "room"),
    [
        pytest.param("mmie", "mmie", id="the-benchmark"),
        pytest.param("mmie_sa", "mmie", id="a-task"),
        pytest.param("milebench_Spot-the-Diff", "milebench", id="a-dataset"),
        pytest.param("mmie2", None, id="another-name"),
        pytest.param("mia", None, id="part-of-a-name"),
        pytest.param("mmmu_val", None, id="not-ours"),
    ],
)
def test_a_task_is_of_the_benchmark_that_it_is_named_like(task, room):
    entry = entry_of_task(task)
    assert (entry and entry.name) == room


def test_ours_are_four_and_have_their_task_files():
    ours = [room for room in entries() if room.is_ours]
    assert entry_names(tuple(ours)) == "mia_bench, milebench, mmie, opening"
    assert [room.task_dir() for room in ours] == [task_dir() / room.name for room in ours]
    assert all(room.task_dir().is_dir() for room in ours)


def test_another_package_adds_a_benchmark(package):
    folder = package(sketch="sketch_package.benchmark:BENCHMARK")
    room = entry_of_task("sketch_hard")
    assert room == BenchmarkEntry(name="sketch", target="sketch_package.benchmark:BENCHMARK")
    assert not room.is_ours
    assert room.task_dir() == folder / "sketch_package" / "task_yamls"
    assert room.package == "sketch_package"


def test_the_longer_name_wins(package):
    package(mmie_own="own_package.benchmark:BENCHMARK")
    assert entry_of_task("mmie_own_x").name == "mmie_own"
    assert entry_of_task("mmie_sa").name == "mmie"


def test_no_package_takes_a_name_of_ours(package):
    package(mmie="their_package.benchmark:BENCHMARK")
    assert entry_of_task("mmie").is_ours


@pytest.mark.parametrize(
    "value", ["no_such_package.benchmark:BENCHMARK", "no_such.package.x:Y", "no_such_module:X"]
)
def test_a_package_that_is_not_there_is_said_in_words(package, value):
    package(sketch=value)
    room = entry_of_task("sketch")
    with pytest.raises(SettingWrong, match="`sketch`"):
        room.load()
    with pytest.raises(SettingWrong, match="not in an installed package"):
        room.task_dir()


def test_an_object_that_is_not_a_benchmark_is_refused(package):
    package(sketch="json:loads")
    with pytest.raises(SettingWrong, match="is not a `Benchmark`"):
        entry_of_task("sketch").load()


def test_a_judge_of_another_benchmark_is_refused(package):
    folder = package(sketch="judged_package.benchmark:BENCHMARK")
    (folder / "judged_package" / "benchmark.py").write_text(
        "from mmie_tasks.benchmarks.mmie.benchmark import Mmie\n"
        "class Sketch(Mmie):\n"
        "    name = 'sketch'\n"
        "BENCHMARK = Sketch()\n"
    )
    with pytest.raises(SettingWrong, match=r"`sketch`.*judge of `mmie`"):
        entry_of_task("sketch").load()


@pytest.mark.parametrize(
    ("name", "judge", "missing"),
    [
        pytest.param("judged_parts", "BenchmarkJudge('sketch', 'openai:m')", ["request", "read"]),
        pytest.param("rule_parts", "None", ["score"]),
    ],
)
def test_what_a_benchmark_lacks_is_named(package, name, judge, missing):
    folder = package(sketch=f"{name}.benchmark:BENCHMARK")
    (folder / name / "benchmark.py").write_text(
        "from mmie_tasks.extend import Benchmark, BenchmarkJudge, Scale\n"
        "class Sketch(Benchmark):\n"
        "    name = 'sketch'\n"
        "    scale = Scale(full_marks=1, unit='points', percent=lambda mean: mean)\n"
        f"    judge = {judge}\n"
        "    def question(self, doc, options): return []\n"
        "BENCHMARK = Sketch()\n"
    )
    with pytest.raises(SettingWrong) as refused:
        entry_of_task("sketch").load()
    parts = ", ".join(f"`{part}`" for part in ["title", *missing])
    assert refused.value.message.endswith(f"lacks {parts}.")


@pytest.mark.parametrize(
    ("name", "source", "named"),
    [pytest.param("fails", "BENCHMARK = len(5)", "TypeError", id="fails-in-its-own-way")],
)
def test_a_module_that_cannot_be_imported_is_said_in_words(package, name, source, named):
    folder = package(sketch=f"{name}_package.benchmark:BENCHMARK")
    (folder / f"{name}_package" / "benchmark.py").write_text(source)
    with pytest.raises(SettingWrong) as refused:
        entry_of_task("sketch").load()
    assert named in refused.value.message
    assert "`sketch`" in refused.value.message
