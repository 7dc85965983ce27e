"""Every fault in the table of the judges' page, on real sockets."""

import pytest
from support.judge_asking import ask, judge_at
from support.judge_faults import FAULTS, UNTIL_ANSWERED, sent_of
from support.loopback import HANG

from mmie_tasks.judges.base import JudgeError
from mmie_tasks.judges.batch import unscored
from mmie_tasks.record.reply import JudgeReply

CASES = [(fault, case) for fault in FAULTS for case in fault.cases]


def params(cases):
    return [pytest.param(fault, case, id=case.name) for fault, case in cases]


@pytest.mark.parametrize(("fault", "case"), params(CASES))
def test_a_fault_that_lasts_ends_with_its_reason_after_its_number_of_requests(server, fault, case):
    server.says(case.says)
    lasts = fault.requests is UNTIL_ANSWERED
    waits = {"patience": 0.1} if lasts else {}
    if case.says is HANG:
        waits["timeout"] = 0.2
    (outcome,) = ask(judge_at(server.url, **waits), [fault.request])
    if fault.reason is None:
        assert isinstance(outcome, JudgeReply)
        assert outcome.finish == fault.finish
    else:
        assert isinstance(outcome, JudgeError)
        assert unscored(outcome).reason == fault.reason
        assert case.words in str(outcome)
    if lasts:
        assert "no reply at all for 0.1 s" in str(outcome)
    else:
        assert len(server) == fault.requests


PASSING = [
    (fault, case)
    for fault, case in CASES
    if fault.requests is UNTIL_ANSWERED or (fault.requests > 1 and fault.reason is not None)
]


@pytest.mark.parametrize(("fault", "case"), params(PASSING))
def test_a_fault_that_passes_costs_no_reply(server, fault, case):
    times = 2 if fault.requests is UNTIL_ANSWERED else fault.requests - 1
    server.then(sent_of(case), times=times)
    timeout = 0.5 if case.says is HANG else 30.0
    replies = ask(judge_at(server.url, timeout=timeout), [fault.request] * 3)
    assert [reply.text for reply in replies] == ["5"] * 3
    assert len(server) == 3 + times or case.says is HANG  # a busy machine replies late, too
