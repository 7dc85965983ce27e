"""Judges by name, those of other packages too, and their options."""

from importlib.metadata import EntryPoint

import pytest

from mmie_tasks.core.choice import Choice
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges import names, registry
from mmie_tasks.judges.base import JudgeRequest

ANY = JudgeRequest(parts=("x",), max_tokens=9)


@pytest.fixture(autouse=True)
def installed(monkeypatch, tmp_path):
    """Entry points of other packages, one of which fails in its own way."""
    (tmp_path / "broken_judge.py").write_text("len(5)")
    monkeypatch.syspath_prepend(str(tmp_path))
    values = {
        "word": "support.judges:WordJudge",
        "absent": "no_such_package:Judge",
        "broken": "broken_judge:Judge",
        "number": "support.judges:__name__",
        "openai": "support.judges:WordJudge",
    }
    entries = [EntryPoint(name, value, names.ENTRY_POINTS) for name, value in values.items()]
    monkeypatch.setattr(names, "entry_points", lambda **_group: entries)


def text_from(**options):
    judge = registry.create(Choice(name="word", options=options), {"ENDING": "."})
    ((_, outcome),) = judge.ask([ANY])
    return outcome.text


def test_built_in_judges_come_first_and_keep_their_names():
    others = ("absent", "broken", "number", "word")
    assert names.judge_names() == ("mmie_score", "openai", "replay", *others)
    assert registry.judge_class("openai").__module__.startswith("mmie_tasks.judges.openai")


def test_options_arrive_in_their_declared_types():
    assert text_from(word="a", times="3", loud="true") == "AAA."
    assert text_from(word="5") == "5."


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        pytest.param("opnai", {}, "no judge `opnai`.\n\nhint: `openai:opnai` if that", id="name"),
        pytest.param("OpenAI", {}, "; did you mean `openai`?", id="case"),
        pytest.param("word", {"wrod": "a"}, "no option `wrod`.\n\nhint: its opt", id="option"),
        pytest.param("word", {"word": "a", "times": "many"}, "`times=many`", id="type"),
        pytest.param("word", {}, "needs `word=...`", id="missing"),
        pytest.param("openai", {"api_key": "sk-123456789"}, "mean `api_key_env`", id="key"),
        pytest.param("absent", {}, "cannot be loaded from `no_such_package:Judge`", id="absent"),
        pytest.param("broken", {}, "`broken_judge:Judge`: TypeError: ", id="broken"),
        pytest.param("number", {}, "is not a subclass of `Judge`", id="no-judge"),
    ],
)  # fmt: skip
def test_invalid_names_and_options_are_refused_with_the_valid_ones(name, options, message):
    with pytest.raises(SettingWrong) as error:
        registry.create(Choice(name=name, options=options), {})
    assert message in str(error.value)
    assert "123456789" not in str(error.value)
