"""MMIE-Score on vLLM gives the official replies, whatever else it computes at the same time.

On a CPU, in fp32, with vLLM's own engine: `make test-vllm` makes the environment that this needs.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from importlib.metadata import entry_points
from random import Random

import pytest
from support import internvl_golden as golden
from support import random_checkpoint, wide_heads
from support.judge_creation import create
from support.judge_engines import (
    Prompts,
    completed,
    golden_prompts,
    open_folder,
    other_prompts,
    outputs,
    references,
    results,
    started,
)
from support.tiny_checkpoint import TinyCheckpoint
from support.unmerged import split

from mmie_tasks.judges.base import JudgeRequest, JudgeUnavailable
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.generation import FailedPrompt
from mmie_tasks.judges.mmie_score.vllm_engine import installed

pytestmark = [
    pytest.mark.skipif(not installed(), reason="vLLM is not installed: make test-vllm"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # vLLM's own
]

PROMPTS = golden_prompts()
EXPECTED = {key: [*case.output_ids] for key, case in enumerate(golden.cases())}


def preemptions(engine):
    """Counts from now on how often vLLM preempts a request."""
    counts = []
    scheduler = engine._llm.engine_core.engine_core.scheduler
    preempt = scheduler._preempt_request

    def counted(*arguments, **options):
        counts.append(1)
        return preempt(*arguments, **options)

    scheduler._preempt_request = counted
    return counts


@pytest.fixture(scope="module", autouse=True)
def in_this_process():
    """vLLM's engine runs here, where its scheduler can be looked at; a start takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("VLLM_LOGGING_LEVEL", "ERROR")
        yield


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("vllm") / "wide"
    return open_folder(wide_heads.write(golden.CHECKPOINT, folder))


@pytest.fixture(scope="module")
def engine(checkpoint):
    with started(checkpoint) as engine:
        yield engine


@pytest.fixture(scope="module")
def narrow(checkpoint):
    """Few blocks, and prompts in parts: 3 of the longest requests fit."""
    with started(
        checkpoint,
        max_rows=8,
        max_num_batched_tokens=48,
        block_size=32,
        num_gpu_blocks_override=3 * 10 + 1,
    ) as engine:
        yield engine


def test_the_plugin_is_an_entry_point_of_vllm():
    (plugin,) = entry_points(group="vllm.general_plugins", name="mmie_score")
    assert plugin.value == "mmie_tasks.judges.mmie_score.vllm_plugin:register"


def test_a_process_of_vllm_with_another_model_imports_nothing_of_the_judge():
    program = (
        "import sys\n"
        "import vllm.transformers_utils.config\n"
        "from vllm import ModelRegistry\n"
        "before = set(sys.modules)\n"
        "from mmie_tasks.judges.mmie_score.vllm_plugin import register\n"
        "register()\n"
        "register()\n"
        "assert 'MmieScoreModel' in ModelRegistry.get_supported_archs()\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == [
        "mmie_tasks",
        "mmie_tasks.core",  # the version
        "mmie_tasks.judges",
        "mmie_tasks.judges.mmie_score",
        "mmie_tasks.judges.mmie_score.vllm_plugin",
    ]
    assert "already registered" not in process.stdout + process.stderr


@pytest.mark.parametrize("prompt", PROMPTS, ids=[case.name for case in golden.cases()])
def test_a_golden_case_alone_gives_the_official_tokens(engine, prompt):
    assert outputs(engine, [prompt]) == {prompt.key: EXPECTED[prompt.key]}


def test_all_golden_cases_at_once_give_the_official_tokens(engine):
    assert outputs(engine, PROMPTS) == EXPECTED


@pytest.mark.parametrize("seed", range(6))
def test_random_mixes_in_random_orders_give_the_official_tokens(engine, seed):
    random = Random(seed)  # noqa: S311
    chosen = random.choices(PROMPTS, k=random.randint(2, 30))
    renamed = [replace(prompt, key=number) for number, prompt in enumerate(chosen)]
    expected = {number: EXPECTED[prompt.key] for number, prompt in enumerate(chosen)}
    assert outputs(engine, renamed) == expected


@pytest.mark.parametrize("seed", range(3))
def test_with_few_blocks_and_prompts_in_parts_nothing_is_preempted(narrow, seed):
    counts = preemptions(narrow)
    order = Random(seed).sample(PROMPTS, len(PROMPTS))  # noqa: S311
    assert outputs(narrow, order) == EXPECTED
    assert not counts


def test_a_reply_that_reaches_its_limit_says_so(engine):
    (cut,) = results(engine, [replace(PROMPTS[0], max_new_tokens=5)]).values()
    (whole,) = results(engine, [PROMPTS[0]]).values()
    assert (completed(cut).finish, completed(cut).output) == ("length", EXPECTED[0][:5])
    assert completed(whole).finish == "stop"


def test_a_request_that_can_never_fit_is_unavailable_and_others_are_answered(narrow):
    long = replace(PROMPTS[0], key=99, max_new_tokens=2000)
    replies = results(narrow, [PROMPTS[0], long, PROMPTS[1]])
    assert completed(replies[0]).output == EXPECTED[0]
    assert completed(replies[1]).output == EXPECTED[1]
    assert isinstance(replies[99], FailedPrompt)
    assert isinstance(replies[99].error, JudgeUnavailable)
    assert "2,030 tokens" in str(replies[99].error)


def test_a_reader_that_stops_leaves_nothing_behind(narrow):
    reader = narrow.run(Prompts(PROMPTS))
    next(reader)
    reader.close()
    assert not narrow._llm.has_unfinished_requests()
    assert outputs(narrow, PROMPTS) == EXPECTED


def test_image_tokens_that_words_part_get_their_features_in_order(engine, checkpoint):
    """Control strings can do it; the official code goes by the order of image tokens."""
    case = next(prompt for prompt in PROMPTS if len(prompt.tile_counts) == 2)
    first = case.ids.index(checkpoint.image_token_id)
    ids = [*case.ids[: first + 3], *case.ids[1:9], *case.ids[first + 3 :]]
    parted = replace(case, ids=ids)
    (expected,) = references(checkpoint, [parted])
    assert outputs(engine, [parted]) == {parted.key: expected.ids}


@pytest.fixture(scope="module")
def unmerged(tmp_path_factory) -> Checkpoint:
    """Heads of 96 as the real model has them, and a LoRA fine-tune that was not merged."""
    folder = tmp_path_factory.mktemp("vllm") / "lora"
    written = TinyCheckpoint(random_checkpoint.write(folder, random_checkpoint.TINY_SHAPE))
    written.store(split(written.tensors()))
    return open_folder(folder)


def test_another_size_and_an_unmerged_fine_tune_give_the_tokens_of_transformers(unmerged):
    assert "LoRA" in unmerged.description()
    prompts = other_prompts(unmerged)
    expected = references(unmerged, prompts)
    with started(unmerged, max_num_batched_tokens=256) as engine:
        assert outputs(engine, prompts) == {key: one.ids for key, one in enumerate(expected)}


def test_a_killed_process_of_vllm_leaves_open_requests_unavailable(checkpoint, monkeypatch):
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    long = [replace(prompt, key=100 + prompt.key, max_new_tokens=2500) for prompt in PROMPTS]
    with started(checkpoint) as engine:
        replies = engine.run(Prompts([PROMPTS[0], *long]))
        completed(next(replies))
        for process in engine._llm.engine_core.resources.engine_manager.processes:
            process.kill()
        failed = [result for result in replies if isinstance(result, FailedPrompt)]
        failed += results(engine, [PROMPTS[0]]).values()
    assert len(failed) > 5
    for result in failed:
        assert isinstance(result.error, JudgeUnavailable)
        assert "vLLM's engine failed" in str(result.error)


def test_the_judge_on_vllm_gives_the_official_replies(checkpoint):
    asked = [
        JudgeRequest(parts=case.parts, max_tokens=case.max_new_tokens) for case in golden.cases()
    ]
    folder = str(checkpoint.location.folder)
    options = {"model": folder, "device": "cpu", "engine": "vllm", "max_memory": "2GiB"}
    judge = create("mmie_score", options, {})
    assert f"|engine:{installed()}|" in judge.storage_signature
    judge.check()
    with closing(judge):
        outcomes = dict(judge.ask(asked))
    texts = {index: reply.text for index, reply in outcomes.items()}
    assert texts == {index: case.response for index, case in enumerate(golden.cases())}
