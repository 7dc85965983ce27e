from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import JudgeRequest

ANY = JudgeRequest(parts=("x",), max_tokens=9)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What installing packages with these entry points does."""
    values = {
        "saying": "support.judges:open_word_judge",
        "classy": "support.judges:FunctionJudge",
        "absent": "no_such_package:Judge",
        "number": "support.judges:__name__",
        "openai": "support.judges:open_word_judge",
    }
    entries = [EntryPoint(name, value, registry.ENTRY_POINTS) for name, value in values.items()]
    monkeypatch.setattr(registry, "entry_points", lambda **_group: entries)


def said(**options: str) -> str:
    judge = registry.create("saying", options, {"ENDING": "."})
    ((_, outcome),) = judge.ask([ANY])
    return outcome.text  # type: ignore[union-attr]


def test_ours_come_first_and_a_name_of_ours_is_ours() -> None:
    assert registry.names() == (
        "mmie_score",
        "openai",
        "replay",
        "absent",
        "classy",
        "number",
        "saying",
    )
    assert registry.factory_of("openai").__module__.startswith("mmie_tasks.judges.openai")


def test_options_arrive_in_the_types_that_are_declared() -> None:
    assert said(word="a", times="3", loud="true") == "AAA."
    assert said(word="5") == "5."


def test_a_class_is_a_kind_too_and_its_options_are_its_parameters() -> None:
    assert list(registry.option_types("classy")) == ["reply_to"]


@pytest.mark.parametrize(
    ("name", "options", "found"),
    [
        pytest.param("opnai", {}, "no judge `opnai`.\n\nhint: one of `openai`", id="name"),
        pytest.param("saying", {"wrod": "a"}, "no option `wrod`.\n\nhint: its opt", id="option"),
        pytest.param("saying", {"word": "a", "times": "many"}, "`times=many`", id="type"),
        pytest.param("saying", {"word": "a", "times": "1.5"}, "type int", id="not-whole"),
        pytest.param("saying", {}, "needs `word=...`", id="missing"),
        pytest.param("saying", {"environment": "x"}, "no option `environment`", id="environment"),
        pytest.param("absent", {}, "cannot be loaded from `no_such_package:Judge`", id="absent"),
        pytest.param("number", {}, "cannot be called", id="not-callable"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_said_with_what_there_is(
    name: str, options: dict[str, str], found: str
) -> None:
    with pytest.raises(SettingWrong) as error:
        registry.create(name, options, {})
    assert found in str(error.value)


def test_a_key_as_an_option_is_refused_and_not_repeated() -> None:
    with pytest.raises(SettingWrong) as error:
        registry.check_options("openai", {"api_key": "sk-123456789"})
    assert "123456789" not in str(error.value)
    assert "OPENAI_API_KEY" in str(error.value)


def test_cache_is_an_option_of_every_judge() -> None:
    registry.check_options("saying", {"word": "a", "cache": "off"})
