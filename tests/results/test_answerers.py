"""The models that replies name are shown wherever a score is."""

from collections.abc import Sequence

import pytest
from support.judgements import replied
from support.report_runs import SKETCH

from mmie_tasks.core.verdict import Scored, Verdicts
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.comparability import NotComparable, require_comparable
from mmie_tasks.results.marks import answerer_marks
from mmie_tasks.results.run import TaskRun, as_counted

JUDGE = "judge:openai|model:gpt-4o|t:0"
PAPER = f"{JUDGE}|paper_judge:yes|prompt:official"
MINI, OLD, NEW = "gpt-4o-mini-2024-07-18", "gpt-4o-2024-08-06", "gpt-4o-2024-11-20"


def reply(model: str) -> JudgeReply:
    return JudgeReply(text="4", model=model, cached=model == MINI)


def answered(models: Sequence[str], signature: str = PAPER) -> list[LoggedSample]:
    """A sample for each model, with a reply of it."""
    return [
        as_counted(
            LoggedSample(
                id=str(number),
                official=Scored(4),
                robust=Scored(4),
                groups={},
                judgements=replied(reply(model), judge=signature.partition("|paper_judge")[0]),
                signature=Signature.parse(signature),
            ),
            SKETCH.scale,
        )
        for number, model in enumerate(models)
    ]


@pytest.mark.parametrize(
    ("models", "marks"),
    [
        pytest.param([NEW, NEW, "gpt-4o", ""], [], id="snapshot"),
        pytest.param([MINI] * 3, [f"replies by {MINI}"], id="all"),
        pytest.param([NEW, MINI, NEW], [f"replies by {MINI} (1 of 3)"], id="some"),
        pytest.param(
            [MINI, "gpt-4.1", MINI], [f"replies by {MINI} (2 of 3), gpt-4.1 (1 of 3)"], id="two"
        ),
        pytest.param(
            [NEW, OLD, NEW], [f"replies by {NEW} (2 of 3), {OLD} (1 of 3)"], id="two snapshots"
        ),
    ],
)
def test_other_models_and_mixed_snapshots_are_marked_with_their_replies(
    models: list[str], marks: list[str]
) -> None:
    assert list(answerer_marks(answered(models))) == marks


def test_a_sample_of_another_model_is_not_judged_by_the_papers_judge() -> None:
    own, other = answered([NEW, MINI])
    assert own.signature == Signature.parse(PAPER)
    assert other.signature.is_of_another_judge
    assert other.signature.fields["replies_by"] == MINI
    assert other.signature.judges == own.signature.judges


def test_a_replayed_reply_is_compared_with_the_recorded_name() -> None:
    (replayed,) = answered([MINI], f"{JUDGE}|replayed:1f2e|paper_judge:yes")
    assert replayed.signature.fields["replies_by"] == MINI


def test_each_judge_of_a_panel_is_compared_with_its_own_replies() -> None:
    judges = (JUDGE, "judge:openai|model:gemini-2.5-pro|t:0")
    verdicts = Verdicts(official=Scored(4), robust=Scored(4))
    members = [
        Judgement(
            judge=Signature.parse(judge), result=JudgeResult(reply=reply(model)), verdicts=verdicts
        )
        for judge, model in zip(judges, (NEW, "gemini-3.8-flash"), strict=True)
    ]
    sample = LoggedSample(
        id="1", official=Scored(4), robust=Scored(4), groups={}, judgements=tuple(members)
    )
    assert list(answerer_marks([sample])) == ["gemini-2.5-pro: replies by gemini-3.8-flash"]


@pytest.mark.parametrize(
    ("models", "differ"),
    [
        pytest.param([NEW] * 3, True, id="replies of one are by another"),
        pytest.param([MINI, NEW, NEW], True, id="a mixture"),
        pytest.param([MINI] * 3, False, id="replies of both are by another"),
    ],
)
def test_runs_with_replies_of_other_models_are_not_compared_without_a_word(
    models: list[str], differ: bool
) -> None:
    a, b = (
        TaskRun(task="sketch", benchmark=SKETCH, records=tuple(answered(of_run)))
        for of_run in (models, [MINI] * 3)
    )
    if not differ:
        assert require_comparable(a, b) == ()
        return
    with pytest.raises(NotComparable) as refused:
        require_comparable(a, b)
    assert "replies_by" in refused.value.keys
