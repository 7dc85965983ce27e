from __future__ import annotations

from typing import ClassVar

import pytest
from support.judges import SayingJudge, echo

from mmie_tasks.judges import registry
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest, Outcome
from mmie_tasks.judges.choice import Choice
from mmie_tasks.judging import selection as module
from mmie_tasks.judging.deferred import Case, DeferredRows
from mmie_tasks.judging.selection import BenchmarkJudge, launch
from mmie_tasks.judging.session import Question


class Checked(SayingJudge):
    """Counts how often it is checked; wrong if its model is."""

    checks: ClassVar[list[str]] = []

    def __init__(self, *, model: str = "right") -> None:
        super().__init__(echo)
        self.signature = f"judge:checked|model:{model}"
        self._model = model

    def check(self) -> None:
        self.checks.append(self._model)
        if self._model == "wrong":
            raise JudgeMisconfigured("There is no model `wrong`.", hint="take another")


@pytest.fixture(autouse=True)
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(registry, "kind_named", lambda _: Checked)
    monkeypatch.setattr(module, "_opened", {})
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "checked:cache=off")
    monkeypatch.setattr(Checked, "checks", [])
    return Checked.checks


def test_benchmarks_share_a_judge_and_its_check(checks: list[str]) -> None:
    one, other = BenchmarkJudge("one", "checked"), BenchmarkJudge("other", "checked")
    one.check()
    other.check()
    assert one.judge() is other.judge()
    assert checks == ["right"]


def test_a_judge_that_was_not_in_order_is_checked_again(
    checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "checked:wrong,cache=off")
    for _ in range(2):
        with pytest.raises(JudgeMisconfigured):
            BenchmarkJudge("one", "checked").check()
    assert checks == ["wrong", "wrong"]


def test_a_launcher_chooses_as_long_as_it_lives() -> None:
    class Launcher:
        pass

    launcher, judged = Launcher(), BenchmarkJudge("one", "checked")
    launch(launcher, Choice(name="checked", options={"model": "theirs", "cache": "off"}))
    assert judged.signature() == "judge:checked|model:theirs"
    del launcher
    assert judged.signature() == "judge:checked|model:right"


def case() -> Case:
    question = Question(request=JudgeRequest(parts=("x",), max_tokens=9))
    return Case(question=question, rows_of=lambda _: {"a": {"score": 1.0}}, metrics=("a",))


@pytest.mark.parametrize("how", ["variable", "attribute"])
def test_rows_are_plain_and_have_plain_numbers_if_asked_for(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    judged = BenchmarkJudge("", "checked")
    judged.sync = how == "attribute"
    monkeypatch.setenv("MMIE_TASKS_SYNC", "1" if how == "variable" else "0")
    rows = judged.submit(case(), plain=lambda rows: {"score": rows["a"]["score"]})
    assert rows == {"score": 1.0, "a": {"score": 1.0}}
    assert not isinstance(rows, DeferredRows)


def test_rows_are_deferred_otherwise_and_every_outcome_is_reported() -> None:
    judged, seen = BenchmarkJudge("", "checked"), list[Outcome]()
    judged.report = seen.append
    rows = judged.submit(case(), plain=lambda _: {})
    assert seen == []
    assert dict(rows.items()) == {"a": {"score": 1.0}}
    assert len(seen) == 1


def test_what_must_hold_besides_is_checked_too() -> None:
    def broken() -> None:
        raise JudgeMisconfigured("The prompt is gone.", hint="look for it")

    with pytest.raises(JudgeMisconfigured, match="prompt is gone"):
        BenchmarkJudge("one", "checked", prepare=broken).check()
