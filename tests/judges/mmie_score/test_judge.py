"""The judge as the rest of the package uses it: options, signature, replies, release of memory."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from loguru import logger
from support import scripted_checkpoint
from support.internvl_golden import CHECKPOINT, IMAGES, cases, read
from support.judge_creation import create
from support.recordings import cached_judge
from support.transformers_5 import needs_transformers_5
from transformers.utils import import_utils

from mmie_tasks.benchmarks.mmie.official import read_official
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest, RequestBroken, RequestUnfit
from mmie_tasks.judges.cache import outcomes_of
from mmie_tasks.judges.cache_file import CacheFile
from mmie_tasks.judges.mmie_score import local, transformers_engine, vllm_engine
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge
from mmie_tasks.judges.mmie_score.local import LocalJudge, check_libraries
from mmie_tasks.record.reply import JudgeReply

pytestmark = needs_transformers_5

TRANSFORMERS = f"transformers {version('transformers')}"
GPU = torch.device("cuda", 0)


def judge_with(model: Path = CHECKPOINT, **options: str):
    return create("mmie_score", {"model": str(model), "device": "cpu", **options}, {})


def request(*parts: str | Path, max_tokens: int = 40) -> JudgeRequest:
    return JudgeRequest(parts=parts, max_tokens=max_tokens)


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripted") / "judge"
    return scripted_checkpoint.write(folder, reply="### Score: 4")


@pytest.fixture(scope="module")
def judge():
    return judge_with()


def check_golden(judge, numbers: Sequence[int]) -> None:
    """One call with some of the golden cases has the official replies."""
    chosen = [cases()[number] for number in numbers]
    requests = [request(*case.parts, max_tokens=case.max_new_tokens) for case in chosen]
    outcomes = dict(judge.ask(requests))
    assert len(outcomes) == len(chosen)
    for index, case in enumerate(chosen):
        reply = outcomes[index]
        assert isinstance(reply, JudgeReply)
        assert reply.text == case.response
        assert reply.finish == ("stop" if case.ended else "length")
        usage = (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cost_usd)
        assert usage == (len(case.input_ids), len(case.output_ids), 0.0)


def test_all_golden_cases_in_one_call_have_the_official_replies(judge) -> None:
    check_golden(judge, range(len(cases())))


def test_the_recorded_replies_of_the_judge_have_the_official_scores() -> None:
    for case in read("score_cases"):
        verdict = read_official(case["text"])
        if case["score"] in range(7):
            assert isinstance(verdict, Scored)
            assert verdict.points == case["score"]
        else:
            assert isinstance(verdict, Unscored)


def test_an_unusable_request_does_not_affect_the_others(judge) -> None:
    requests = [
        request("A picture: ", Path("not-there.png")),
        request("See ", IMAGES / "rgba.png", " and <IMG_CONTEXT>"),
        request("x" * 20000),
        request("Why?"),
    ]
    outcomes = dict(judge.ask(requests))
    kinds = [type(outcomes[index]) for index in range(4)]
    assert kinds == [RequestBroken, RequestUnfit, RequestUnfit, JudgeReply]
    assert "8,192 at most" in str(outcomes[2])


def test_control_strings_are_read_as_official_and_counted(scripted) -> None:
    messages: list[str] = []
    sink = logger.add(messages.append, format="{message}")
    with_strings = request("He wrote <|end|> and <image>.")
    ((_, reply),) = judge_with(scripted).ask([with_strings])
    logger.remove(sink)
    assert reply.text == "### Score: 4"
    assert "1 of 1 requests hold control strings" in "".join(messages)
    assert "`<image>` in 1, `<|end|>` in 1" in "".join(messages)


def test_the_signature_depends_on_content_and_not_on_the_folder(tmp_path: Path, judge) -> None:
    shutil.copytree(CHECKPOINT, tmp_path / "copy")
    copied = judge_with(tmp_path / "copy").storage_signature
    assert copied == judge.storage_signature
    assert str(tmp_path) not in copied
    assert copied.endswith(f"|dtype:float32|device:cpu|engine:{TRANSFORMERS}|stop:end")
    (tmp_path / "copy" / "generation_config.json").unlink()
    assert (
        judge_with(tmp_path / "copy").signature == judge.signature
    )  # the judge does not read that file


def test_a_judge_that_cannot_be_loaded_after_the_run_leaves_samples_unscored() -> None:
    requests = [request("Why?"), request("How?")]
    small = judge_with(max_memory="1MiB")
    outcomes = dict(small.ask(requests))
    assert all(isinstance(outcomes[index], JudgeMisconfigured) for index in range(2))
    assert "MMIE-Score needs" in str(outcomes[0])
    assert "--predict_only" in str(outcomes[0])


def test_a_device_without_memory_leaves_samples_unscored_with_a_hint(monkeypatch) -> None:
    def failing(*_: object, **__: object) -> object:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(transformers_engine, "load_model", failing)
    ((_, outcome),) = judge_with().ask([request("Why?")])
    assert isinstance(outcome, JudgeMisconfigured)
    assert "`cpu` ran out of memory" in str(outcome)
    assert "--predict_only" in str(outcome)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({"max_rows": "0"}, "max_rows=0", id="rows"),
        pytest.param({"max_memory": "much"}, "max_memory=much", id="memory"),
        *(
            pytest.param({"dtype": dtype}, "'auto', 'bfloat16', 'float16' or 'float32'", id=dtype)
            for dtype in ("int8", "bf16", "Tensor", "")
        ),
        *(
            pytest.param({"engine": engine}, "'auto', 'vllm' or 'transformers'", id=engine)
            for engine in ("paged", "vLLM", "")
        ),
    ],
)
def test_an_unusable_option_is_an_error_at_once(options, words: str) -> None:
    with pytest.raises(MmieTasksError, match=words):
        judge_with(**options)


def test_an_unknown_device_is_an_error_of_the_check() -> None:
    with pytest.raises(JudgeMisconfigured, match="device=tpu"):
        judge_with(device="tpu").check()


def test_transformers_4_is_refused_with_a_hint(monkeypatch) -> None:
    monkeypatch.setattr(local, "version", lambda _: "5.0.0rc1")
    check_libraries()
    monkeypatch.setattr(local, "version", lambda _: "4.57.1")
    with pytest.raises(JudgeMisconfigured, match=r"transformers 5 .* 4\.57\.1") as refused:
        check_libraries()
    hint = str(refused.value).partition("hint: ")[2]
    assert all(words in hint for words in ("--predict_only", "path=OUT", "mmie-tasks[mmie-score]"))
    assert "install -U" not in hint  # it would break the tested model


def test_torch_that_transformers_does_not_use_is_refused_before_anything_is_generated(
    monkeypatch,
) -> None:
    monkeypatch.setattr(import_utils, "is_torch_available", lambda: False)
    judge = judge_with()
    [packages, *_] = judge.assets()
    for check in (judge.check, packages.checks[0].describe):
        with pytest.raises(JudgeMisconfigured, match=r"(?s)too old.*hint: torch 2\.6 or newer"):
            check()


def settles_on_another_engine(monkeypatch) -> None:
    """A GPU that turns out, once CUDA is started, to be too old for the engine that was likely."""
    usual = LocalJudge.placement

    def placement(self):
        likely = usual(self)
        return replace(likely, engine=replace(likely.engine, version="transformers 9.9"))

    monkeypatch.setattr(LocalJudge, "placement", placement)


def test_replies_of_the_engine_that_was_used_in_the_end_are_cached_under_its_name(
    monkeypatch, tmp_path, logs
) -> None:
    file = CacheFile(tmp_path / "replies.sqlite3")
    before = cached_judge(judge_with(), file)
    list(outcomes_of(before, [request("Why?")]))
    settles_on_another_engine(monkeypatch)
    freed: list[str] = []
    after = cached_judge(judge_with(), file)
    after.before_loading(lambda: freed.append("freed"))
    assert after.signature == before.signature
    signatures = {
        index: (after.signature["engine"], reply.cached)
        for index, reply in outcomes_of(after, [request("Why?"), request("How?")])
    }
    assert signatures == {0: (TRANSFORMERS, True), 1: ("transformers 9.9", False)}
    assert freed == ["freed"]
    settled = after.storage_signature
    assert any(settled in message and "expected" in message for message in logs)
    with file.open() as replies:
        stored = [reply.signature for reply in replies.read_all()]
    assert sorted(stored) == sorted([before.storage_signature, settled])
    resumed = cached_judge(judge_with(), file)
    ((_, reply),) = outcomes_of(resumed, [request("How?")])
    assert reply.cached
    assert resumed.storage_signature == settled


def test_the_machine_that_computed_is_known_after_the_run_and_not_in_the_signature(judge) -> None:
    fresh = judge_with()
    assert fresh.machine() is None
    list(fresh.ask([request("Why?")]))
    assert fresh.machine() == f"CPU, torch {torch.__version__}"
    assert torch.__version__ not in fresh.storage_signature
    assert fresh.signature == judge.signature


def test_without_a_gpu_here_the_signature_starts_no_engine_of_ray(monkeypatch) -> None:
    judge = create("mmie_score", {"model": str(CHECKPOINT)}, {})
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(MmieScoreJudge, "ray_gpus", lambda _: 8)
    assert judge.storage_signature.endswith(
        f"|dtype:bfloat16|device:cuda|engine:{TRANSFORMERS}|stop:end"
    )
    assert not judge._uses_ray


def test_the_hook_runs_once_before_each_loading_of_the_weights(tmp_path) -> None:
    calls: list[str] = []
    cached = cached_judge(judge_with(), tmp_path / "replies.sqlite3")
    assert cached.in_process
    cached.check()
    cached.before_loading(lambda: calls.append("hook"))
    assert calls == []
    list(outcomes_of(cached, [request("Why?")]))
    list(outcomes_of(cached, [request("How?")]))
    assert calls == ["hook"]
    cached.close()
    list(outcomes_of(cached, [request("Why?")]))  # cached: nothing is loaded
    assert calls == ["hook"]
    list(outcomes_of(cached, [request("When?")]))
    assert calls == ["hook", "hook"]


def test_a_caller_that_stops_reading_does_not_block_others(judge) -> None:
    requests = [request("Why?", max_tokens=2), request("How? " * 30, max_tokens=40)]
    outcomes = judge.ask(requests)
    next(outcomes)
    outcomes.close()
    ((_, reply),) = judge.ask([request("Why?", max_tokens=2)])
    assert isinstance(reply, JudgeReply)


def test_calls_from_several_threads_all_get_replies(judge) -> None:
    alone = next(iter(judge.ask([request("Why?")])))[1]
    replies: list[object] = []

    def ask() -> None:
        replies.extend(outcome for _, outcome in judge.ask([request("Why?")]))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == [alone] * 4


class StubVllm:
    """In the place of vLLM's engine: keeps how it was started, and is transformers'."""

    arguments: dict[str, object]

    @classmethod
    def start(cls, checkpoint, *, batch_invariant: bool, **arguments: object):
        cls.arguments = {"batch_invariant": batch_invariant, **arguments}
        arguments["device"] = torch.device("cpu")
        return transformers_engine.TransformersEngine.start(checkpoint, **arguments)


@pytest.fixture
def vllm(monkeypatch):
    """A vLLM that supports GPUs and this CPU."""
    monkeypatch.setattr(vllm_engine, "installed", lambda: "vllm 0.33.1")
    monkeypatch.setattr(vllm_engine, "supported", lambda _: "")
    monkeypatch.setattr(vllm_engine, "VllmEngine", StubVllm)
    return StubVllm


@pytest.mark.parametrize(
    ("option", "device", "supported", "name", "reason"),
    [
        pytest.param("auto", GPU, "", "vllm", "supports this GPU", id="auto on a GPU"),
        pytest.param("auto", GPU, "too old", "transformers", "too old", id="auto without vLLM"),
        pytest.param("auto", "cpu", "", "transformers", "`cpu` is not a GPU", id="auto on a CPU"),
        pytest.param("vllm", "cpu", "", "vllm", "`engine=vllm`", id="vllm on a CPU"),
        pytest.param("vllm", GPU, "", "vllm", "`engine=vllm`", id="vllm"),
        pytest.param("transformers", GPU, "", "transformers", "`engine=t", id="transformers"),
    ],
)
@pytest.mark.usefixtures("vllm")
def test_the_engine_follows_option_device_and_vllm(
    monkeypatch, option, device, supported, name, reason
) -> None:
    monkeypatch.setattr(vllm_engine, "supported", lambda _: supported)
    options = local.LocalOptions(model="", engine=option)
    choice = local.choose_engine(options, torch.device(device))
    assert choice.name == name
    assert choice.version == ("vllm 0.33.1" if name == "vllm" else TRANSFORMERS)
    assert reason in choice.reason
    other = "transformers would take about 2.6" if name == "vllm" else "vLLM would take about 0.4"
    assert other in str(choice)
    assert "on a GPU: not run" in str(choice)


@pytest.mark.parametrize("options", [{"engine": "vllm"}, {"batch_invariant": "true"}])
def test_what_only_vllm_has_is_an_error_of_the_check_where_it_cannot_be_used(
    monkeypatch, options
) -> None:
    monkeypatch.setattr(vllm_engine, "supported", lambda _: "vLLM is not installed")
    for look in (MmieScoreJudge.check, lambda judge: judge.signature):
        with pytest.raises(JudgeMisconfigured, match=r"(?s)vLLM.*hint: .*engine="):
            look(judge_with(**options))


def test_vllm_is_started_with_the_options_of_the_judge_and_is_in_its_signature(vllm, logs) -> None:
    judge = judge_with(
        engine="vllm", batch_invariant="true", max_rows="3", max_memory="9GiB", dtype="float32"
    )
    check_golden(judge, [0, 1])
    assert vllm.arguments == {
        "batch_invariant": True,
        "device": torch.device("cpu"),
        "dtype": torch.float32,
        "max_rows": 3,
        "max_memory_bytes": 9 * 2**30,
    }
    tail = "|device:cpu|engine:vllm 0.33.1|batch_invariant:true|stop:end"
    assert judge.storage_signature.endswith(tail)
    assert sum("vllm 0.33.1 (`engine=vllm`)" in message for message in logs) == 1


def test_the_engine_is_named_once_with_the_reason_and_the_cost_of_the_other(logs) -> None:
    judge = judge_with()
    for _ in range(2):
        list(judge.ask([request("Why?")]))
    (line,) = [message for message in logs if "MMIE-Score's engine" in message]
    assert f"{TRANSFORMERS} (`cpu` is not a GPU); vLLM would take about 0.4 times" in line
