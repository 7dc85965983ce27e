"""What every judge does: the built-in ones, one of another package, a panel, with a cache."""

import pytest
from support.internvl_golden import CHECKPOINT
from support.judge_asking import judge_at
from support.judge_server import JudgeServer
from support.judges import FunctionJudge, ScriptedJudge, echo
from support.recordings import cached_judge
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.cache import outcomes_of
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge, MmieScoreOptions
from mmie_tasks.judges.openai.batch import BatchJudge, Limits
from mmie_tasks.judges.openai.settings import OpenAIOptions
from mmie_tasks.judges.panel import PanelJudge
from mmie_tasks.judges.replay import ReplayJudge
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.signature import Signature

REQUESTS = [JudgeRequest(parts=(text,), max_tokens=4) for text in ("a", "b", "c")]


def replay(_, folder):
    list(outcomes_of(cached("", folder), REQUESTS))
    return ReplayJudge(folder / "replies.sqlite3")


def cached(_, folder):
    return cached_judge(ScriptedJudge(), folder / "replies.sqlite3")


def batch(url, folder):
    options = OpenAIOptions(model="gpt-4o", base_url=url)
    environment = {"MMIE_TASKS_CACHE": str(folder), "OPENAI_API_KEY": "thisisnotarealkey"}
    return BatchJudge(options, environment, limits=Limits(poll_s=0.01, patience_s=60.0))


def panel(url, folder):
    members = [FunctionJudge(echo), judge_at(url), cached(url, folder)]
    return PanelJudge(members)


@pytest.fixture(scope="module")
def server():
    with JudgeServer("5") as running:
        yield running


@pytest.fixture(
    params=[
        pytest.param(lambda url, _: judge_at(url), id="openai"),
        pytest.param(batch, id="openai-batch"),
        pytest.param(
            lambda *_: MmieScoreJudge(MmieScoreOptions(model=str(CHECKPOINT), device="cpu"), {}),
            id="mmie_score",
            marks=[needs_transformers_5, pytest.mark.slow],
        ),
        pytest.param(replay, id="replay"),
        pytest.param(lambda *_: FunctionJudge(echo), id="another-package"),
        pytest.param(cached, id="cache"),
        pytest.param(panel, id="panel"),
    ]
)
def judge(request, server, tmp_path):
    make = request.param
    judge = make(server.url, tmp_path)
    yield judge
    judge.close()


def test_each_request_has_one_outcome_for_each_judge_with_its_index(judge):
    count = len(REQUESTS) * len(judge.members)
    outcomes = list(outcomes_of(judge, REQUESTS))
    assert sorted(index for index, _ in outcomes) == list(range(count))
    assert all(isinstance(outcome, JudgeReply) and outcome.model for _, outcome in outcomes)
    assert list(outcomes_of(judge, [])) == []


def test_the_signature_has_key_and_value_and_stays_when_requests_were_answered(judge):
    before = judge.signature
    list(judge.ask(REQUESTS))
    assert judge.signature == before
    text = str(Signature.of_judges([before]))
    assert text.startswith("judge:")
    assert judge.storage_signature.startswith(text)


def test_the_check_passes_and_nothing_that_it_can_do_needs_a_server_of_its_own(judge):
    judge.check(2)
    names = [asset.name for asset in judge.assets()]
    assert len(names) == len(set(names))
    assert (counts := judge.counts()) is None or counts.in_flight == 0
    assert all(member.title(0) for member in judge.members)


def test_a_judge_that_was_stopped_and_closed_replies_again(judge):
    first = dict(judge.ask(REQUESTS))
    judge.stop()
    judge.close()
    judge.close()
    again = dict(judge.ask(REQUESTS))
    assert again.keys() == first.keys()
    assert all(isinstance(outcome, JudgeReply) for outcome in again.values())
