"""The judge as the rest of the package sees it: options, signature, replies, and letting go."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
import torch
from loguru import logger
from support import scripted_checkpoint
from support.internvl_golden import CHECKPOINT, IMAGES, cases

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.judges.base import (
    InProcess,
    JudgeMisconfigured,
    JudgeReply,
    JudgeRequest,
    RequestBroken,
    RequestUnfit,
    SelfChecking,
)
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile
from mmie_tasks.judges.mmie_score import loading
from mmie_tasks.judges.mmie_score.judge import check_transformers
from mmie_tasks.judges.registry import create


def opened(model: Path = CHECKPOINT, **options: str):
    return create("mmie_score", {"model": str(model), "device": "cpu", **options}, {})


def request(*parts: str | Path, max_tokens: int = 40) -> JudgeRequest:
    return JudgeRequest(parts=parts, max_tokens=max_tokens)


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    says = "### Score: 4"
    return scripted_checkpoint.write(tmp_path_factory.mktemp("scripted") / "judge", says=says)


@pytest.fixture(scope="module")
def judge():
    return opened()


def test_every_golden_case_gets_the_official_text(judge) -> None:
    asked = [request(*case.parts, max_tokens=case.max_new_tokens) for case in cases()]
    outcomes = dict(judge.ask(asked))
    for index, case in enumerate(cases()):
        reply = outcomes[index]
        assert isinstance(reply, JudgeReply)
        assert reply.text == case.response
        assert reply.finish == ("stop" if case.ended else "length")
        counted = (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cost_usd)
        assert counted == (len(case.input_ids), len(case.output_ids), 0.0)


def test_one_by_one_and_all_at_once_say_the_same(judge) -> None:
    asked = [request("Why?"), request("What is it? ", IMAGES / "vga.png"), request("Count to ten.")]
    together = dict(judge.ask(asked))
    alone = [next(iter(judge.ask([each])))[1] for each in asked]
    assert [together[index] for index in range(3)] == alone


def test_a_request_that_cannot_be_shown_costs_itself_only(judge) -> None:
    asked = [
        request("A picture: ", Path("not-there.png")),
        request("See ", IMAGES / "rgba.png", " and <IMG_CONTEXT>"),
        request("x" * 20000),
        request("Why?"),
    ]
    outcomes = dict(judge.ask(asked))
    kinds = [type(outcomes[index]) for index in range(4)]
    assert kinds == [RequestBroken, RequestUnfit, RequestUnfit, JudgeReply]
    assert "8,192 at most" in str(outcomes[2])


def test_nobody_asked_is_nobody_answered(judge) -> None:
    assert list(judge.ask([])) == []


def test_typed_marks_are_read_as_official_and_counted_or_refused(scripted) -> None:
    said: list[str] = []
    sink = logger.add(said.append, format="{message}")
    typed = request("He wrote <|end|> and <image>.")
    ((_, reply),) = opened(scripted).ask([typed])
    logger.remove(sink)
    assert reply.text == "### Score: 4"
    assert "1 of 1 requests hold control strings" in "".join(said)
    ((_, refused),) = opened(scripted, marks="refuse").ask([typed])
    assert isinstance(refused, RequestUnfit)
    assert "`<image>`, `<|end|>`" in str(refused)


def test_a_reply_may_end_once_its_score_is_settled(tmp_path: Path) -> None:
    folder = scripted_checkpoint.write(tmp_path / "judge", says="### Score: 4 and so on without an")
    ((_, whole),) = opened(folder).ask([request("Why?")])
    settled = opened(folder, early_stop="true")
    ((_, cut),) = settled.ask([request("Why?")])
    assert whole.text.startswith(cut.text)
    assert "### Score: 4" in cut.text
    assert len(cut.text) < len(whole.text)
    assert cut.finish == "stop"
    assert settled.signature != opened(folder).signature


def test_the_signature_is_of_the_content_and_not_of_the_place(tmp_path: Path, judge) -> None:
    shutil.copytree(CHECKPOINT, tmp_path / "copy")
    copied = opened(tmp_path / "copy").signature
    assert copied == judge.signature
    assert str(tmp_path) not in copied
    assert copied.endswith("|dtype:float32|device:cpu|attention:sdpa|stop:end")
    (tmp_path / "copy" / "generation_config.json").unlink()
    assert opened(tmp_path / "copy").signature == judge.signature  # nobody reads that file


def test_what_cannot_be_loaded_after_the_run_costs_the_scores_and_says_why() -> None:
    asked = [request("Why?"), request("How?")]
    small = opened(max_memory="1MiB")
    outcomes = dict(small.ask(asked))
    assert all(isinstance(outcomes[index], JudgeMisconfigured) for index in range(2))
    assert "MMIE-Score needs" in str(outcomes[0])
    assert "--predict_only" in str(outcomes[0])


@pytest.mark.parametrize("failures", [1, 2])
def test_a_device_with_less_than_it_said_gets_a_smaller_cache(monkeypatch, failures) -> None:
    sizes = without_memory(monkeypatch, "TextModel", failures)
    outcomes = dict(opened().ask([request("Why?"), request("How?"), request("When?")]))
    assert all(isinstance(outcome, JudgeReply) for outcome in outcomes.values())
    assert [each["pages"] for each in sizes] == sorted({each["pages"] for each in sizes})[::-1]
    assert len(sizes) == failures + 1


@pytest.mark.parametrize("part", ["TextModel", "load_model"])
def test_a_device_without_any_memory_costs_the_scores_and_says_what_to_do(
    monkeypatch, part: str
) -> None:
    without_memory(monkeypatch, part, 99)
    ((_, outcome),) = opened().ask([request("Why?")])
    assert isinstance(outcome, JudgeMisconfigured)
    assert "`cpu` ran out of memory" in str(outcome)
    assert "--predict_only" in str(outcome)


def without_memory(monkeypatch, part: str, failures: int) -> list[dict[str, object]]:
    """Let a part of the loading fail so many times; gives what it was asked for each time."""
    original, asked = getattr(loading, part), []

    def failing(*arguments: object, **named: object) -> object:
        asked.append(named)
        if len(asked) <= failures:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return original(*arguments, **named)

    monkeypatch.setattr(loading, part, failing)
    return asked


@pytest.mark.parametrize(
    ("options", "found"),
    [
        pytest.param({"max_rows": "0"}, "max_rows=0", id="rows"),
        pytest.param({"max_memory": "much"}, "max_memory=much", id="memory"),
        pytest.param({"marks": "escape"}, "marks=escape", id="marks"),
        pytest.param({"dtype": "int8"}, "one of auto, bfloat16, float16, float32", id="dtype"),
        pytest.param({"attention": "magic"}, "one of auto, flash, sdpa", id="attention"),
        pytest.param({"no_such": "1"}, "no option `no_such`", id="unknown"),
        pytest.param({"early_stop": "perhaps"}, "early_stop=perhaps", id="bool"),
    ],
)
def test_an_option_that_makes_no_sense_is_an_error_at_once(options, found: str) -> None:
    with pytest.raises(MmieTasksError, match=found):
        opened(**options)


def test_a_device_that_is_not_known_is_found_by_the_check_of_the_judge() -> None:
    with pytest.raises(JudgeMisconfigured, match="device=tpu"):
        opened(device="tpu").check()


def test_transformers_4_is_refused_with_a_way_out() -> None:
    check_transformers("5.0.0rc1")
    with pytest.raises(JudgeMisconfigured, match="needs transformers 5") as refused:
        check_transformers("4.57.1")
    assert "--predict_only" in str(refused.value)


def test_room_is_made_once_before_the_weights_are_loaded_and_again_after_closing(tmp_path) -> None:
    calls: list[str] = []
    cached = CachedJudge(judge=opened(), file=CacheFile(tmp_path / "replies.sqlite3"))
    assert isinstance(cached, InProcess)
    assert isinstance(cached, SelfChecking)
    cached.check()
    cached.before_loading(lambda: calls.append("room"))
    assert calls == []
    list(cached.ask([request("Why?")]))
    list(cached.ask([request("How?")]))
    assert calls == ["room"]
    cached.close()
    list(cached.ask([request("Why?")]))  # remembered: nothing is loaded
    assert calls == ["room"]
    list(cached.ask([request("When?")]))
    assert calls == ["room", "room"]


def test_who_stops_listening_lets_others_be_judged(judge) -> None:
    asked = [request("Why?", max_tokens=2), request("How? " * 30, max_tokens=40)]
    listening = judge.ask(asked)
    next(listening)
    listening.close()
    ((_, reply),) = judge.ask([request("Why?", max_tokens=2)])
    assert isinstance(reply, JudgeReply)


def test_threads_are_served_one_after_the_other(judge) -> None:
    alone = next(iter(judge.ask([request("Why?")])))[1]
    found: list[object] = []

    def ask() -> None:
        found.extend(outcome for _, outcome in judge.ask([request("Why?")]))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 4
