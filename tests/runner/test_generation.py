from __future__ import annotations

from types import SimpleNamespace

from mmie_tasks.answers.failures import failure_of
from mmie_tasks.runner.generation import name_null_replies


def test_a_null_reply_is_a_failure_and_an_empty_one_an_answer() -> None:
    requests = [SimpleNamespace(resps=[None, ""]), SimpleNamespace(resps=["A fox."])]
    name_null_replies([SimpleNamespace(instances=requests)])
    (null, empty), text = requests[0].resps, requests[1].resps
    assert "null" in str(failure_of(null))
    assert (empty, text) == ("", ["A fox."])
