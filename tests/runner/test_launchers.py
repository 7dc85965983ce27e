from __future__ import annotations

from types import SimpleNamespace

import pytest

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges import registry
from mmie_tasks.judges.choice import ALL_OTHERS, as_launcher_args, parse_choices
from mmie_tasks.judges.panel_choice import judges_of
from mmie_tasks.judging.session import launcher_choices
from mmie_tasks.record.panel import Panel
from mmie_tasks.runner import launchers


def added(monkeypatch: pytest.MonkeyPatch, **available: str) -> dict[str, str]:
    """The runner's launchers after ours were added to these, twice."""
    monkeypatch.setattr(registry, "names", lambda: ("of_ours",))
    module = SimpleNamespace(AVAILABLE_LAUNCHERS={"sglang": "SGLangLauncher", **available})
    launchers.add_launchers(module)
    launchers.add_launchers(module)
    return module.AVAILABLE_LAUNCHERS


def test_our_launchers_are_added_and_a_taken_name_keeps_its_meaning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert added(monkeypatch, panel="TheirPanel") == {
        "sglang": "SGLangLauncher",
        "default": "mmie_tasks.runner.launchers.default",
        "panel": "TheirPanel",
        "of_ours": "mmie_tasks.runner.launchers.of_ours",
    }


def test_a_runner_without_launchers_stays_unchanged_with_a_warning(logs: list[str]) -> None:
    launchers.add_launchers(SimpleNamespace())
    assert "no AVAILABLE_LAUNCHERS" in logs[0]


def test_an_unknown_name_ends_the_run_with_the_valid_names(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as error:
        added(monkeypatch)["opnai"]
    assert "no judge or launcher `opnai`" in str(error.value)
    assert "`default`, `panel`, `of_ours`, `sglang`" in str(error.value)
    with pytest.raises(SystemExit, match="did you mean `panel`"):
        added(monkeypatch)["pannel"]


def test_a_judge_is_chosen_while_its_launcher_exists() -> None:
    launcher = launchers.openai(model="m", timeout=60)  # typed by the runner
    launcher.launch()
    launcher.clean()
    chosen = launcher_choices()[ALL_OTHERS]
    assert (chosen.name, chosen.options) == ("openai", {"model": "m", "timeout": "60"})
    del launcher
    assert launcher_choices() == {}


def test_an_invalid_option_ends_the_run_when_the_launcher_is_created() -> None:
    for name, value in {"modle": "m", "timeout": "soon", "api_key": "sk-123"}.items():
        with pytest.raises(SystemExit, match=f"`{name}[`=]") as end:
            launchers.openai(**{name: value})
        assert "sk-123" not in str(end.value)


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(["openai:gpt-4o"], id="plain"),
        pytest.param(
            ["mmie=mmie_score", "mia_bench=openai:gpt-4o-2024-11-20,timeout=60"], id="named"
        ),
        pytest.param(
            ["replay:path=a;b", "mia_bench=openai:base_url=http://[::1]:1/v1?a=b;http://h/v1"],
            id="both",
        ),
        pytest.param(
            ["openai:a", "openai:b,timeout=60", "mmie=replay:path=x", "mmie=mmie_score"],
            id="panels",
        ),
        pytest.param([], id="none"),
    ],
)
def test_choices_survive_the_runners_parser(texts: list[str]) -> None:
    choices = parse_choices(texts, launchers.SOURCE)
    assert launchers.parse_launcher_args(as_launcher_args(choices)) == choices


@pytest.mark.parametrize("launcher_args", [None, "name=sglang,tp=8"])
def test_other_launchers_choose_no_judge(launcher_args: str | None) -> None:
    assert launchers.parse_launcher_args(launcher_args) == {}


def test_a_launcher_chooses_the_judges_of_single_benchmarks() -> None:
    launcher = launchers.default(
        **{"mmie.name": "mmie_score", "mia_bench.name": "openai", "mia_bench.model": "m"}
    )
    chosen = {
        benchmark: (choice.name, choice.options) for benchmark, choice in launcher_choices().items()
    }
    assert chosen == {"mmie": ("mmie_score", {}), "mia_bench": ("openai", {"model": "m"})}
    del launcher


def test_a_launcher_chooses_a_panel_of_judges() -> None:
    launcher = launchers.panel(
        **{"rule": "median", "min_valid": 1, "1.name": "openai", "1.model": 4, "2.name": "replay"}
    )
    chosen = judges_of(launcher_choices()[ALL_OTHERS])
    assert chosen.panel == Panel(rule="median", min_valid=1)
    assert [(judge.name, judge.options) for judge in chosen.judges] == [
        ("openai", {"model": "4"}),
        ("replay", {}),
    ]
    with pytest.raises(SystemExit, match="judge 2: There is no judge `repaly`"):
        launchers.panel(**{"1.name": "openai", "2.name": "repaly"})
    del launcher


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {"mmei.name": "openai"},
            "`mmei`, which is no benchmark[\\s\\S]*hint: .*mia_bench, mmie",
            id="unknown",
        ),
        pytest.param(
            {"milebench.name": "openai"}, "`milebench`, which is scored without one", id="no-judge"
        ),
        pytest.param({"mmie_sa.name": "openai"}, "`mmie_sa`, a task of `mmie`", id="task"),
        pytest.param({"mmie.name": "opnai"}, "no judge `opnai`", id="judge"),
        pytest.param({"mmie.name": "openai", "mmie.modle": "m"}, "no option `modle`", id="option"),
        pytest.param({"mmie.model": "m"}, "hint: add `mmie.name=JUDGE`", id="no-name"),
        pytest.param({"model": "m"}, "hint: add `name=JUDGE`", id="default-with-options"),
    ],
)
def test_an_invalid_judge_of_a_benchmark_ends_the_run(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(SystemExit, match=message):
        launchers.default(**options)


def test_benchmarks_of_the_environment_are_checked() -> None:
    launchers.check_environment({"MMIE_TASKS_JUDGE": "openai mmie=mmie_score"})
    with pytest.raises(SettingWrong, match="`MMIE_TASKS_JUDGE` chooses a judge for `milebench`"):
        launchers.check_environment({"MMIE_TASKS_JUDGE": "milebench=openai"})
