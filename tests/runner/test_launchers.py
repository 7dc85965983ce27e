from __future__ import annotations

import pytest

from mmie_tasks.judges.choice import ALL_OTHERS, JudgeChoices
from mmie_tasks.runner import launchers


def added(monkeypatch: pytest.MonkeyPatch, **available: str) -> dict[str, str]:
    """The runner's launchers after ours were added to these, twice."""
    monkeypatch.setattr(launchers, "judge_names", lambda: ("of_ours",))
    theirs = {"sglang": "SGLangLauncher", **available}
    monkeypatch.setattr(launchers, "named", lambda _: theirs)
    launchers.add_launchers()
    launchers.add_launchers()
    return theirs


def test_our_launchers_are_added_and_a_taken_name_keeps_its_meaning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert added(monkeypatch, of_theirs="TheirDefault") == {
        "sglang": "SGLangLauncher",
        "of_theirs": "TheirDefault",
        "of_ours": "mmie_tasks.runner.launchers.of_ours",
    }


def named(choices: JudgeChoices) -> dict[str, tuple[str, dict[str, str]]]:
    return {
        benchmark: (judge.name, dict(judge.options))
        for benchmark, chosen in choices.items()
        for judge in chosen.judges
    }


def test_a_launcher_has_the_choice_of_its_judge() -> None:
    launcher = launchers.openai(model="m", timeout=60)  # typed by the runner
    launcher.launch()
    launcher.clean()
    assert named(launcher.choices) == {ALL_OTHERS: ("openai", {"model": "m", "timeout": "60"})}


def test_an_invalid_option_ends_the_run_when_the_launcher_is_created() -> None:
    for name, value in {"modle": "m", "timeout": "soon", "api_key": "sk-123"}.items():
        with pytest.raises(SystemExit, match=f"`{name}[`=]") as end:
            launchers.openai(**{name: value})
        assert "sk-123" not in str(end.value)
