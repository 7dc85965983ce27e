"""MMIE-Score in `vllm serve` gives the official replies, whatever else it computes.

On a CPU, in fp32: `make test-vllm` makes the environment that this needs. One server for all tests,
with prefix caching and with so few blocks that vLLM preempts requests.
"""

import base64
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from random import Random

import httpx
import psutil
import pytest
from support import internvl_golden as golden
from support import wide_heads
from support.judge_asking import create
from support.judge_engines import open_folder

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.mmie_score.serve import installed_vllm
from mmie_tasks.judges.mmie_score.server import JudgeServer
from mmie_tasks.record.reply import JudgeReply

pytestmark = [
    pytest.mark.skipif(not installed_vllm(), reason="vLLM is not installed: make test-vllm"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # vLLM's own
]

CASES = golden.cases()
FEW_BLOCKS = ("--max-model-len", "512", "--block-size", "32", "--num-gpu-blocks-override", "25")
VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_HOST_IP": "127.0.0.1",
    "OMP_NUM_THREADS": "1",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The golden checkpoint with wider heads: vLLM has no heads of 16 on a CPU."""
    return wide_heads.write(golden.CHECKPOINT, tmp_path_factory.mktemp("vllm") / "wide")


@pytest.fixture(scope="module")
def server(folder):
    command = [sys.executable, "-W", "ignore", "-m", "mmie_tasks", "serve", str(folder)]
    command += ["--max-num-seqs", "24", *FEW_BLOCKS]
    running = JudgeServer(command, {**os.environ, **VARIABLES})
    running.start()
    yield running
    running.close()


@pytest.fixture(scope="module")
def judge(server):
    return create("mmie_score", {"base_url": server.base_url}, {})


def content_of(part):
    if isinstance(part, str):
        return {"type": "text", "text": part}
    data = base64.b64encode(part.read_bytes()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def posted(server, messages, max_tokens):
    body = {"model": "MMIE-Score", "temperature": 0, "return_token_ids": True}
    body |= {"messages": messages, "max_tokens": max_tokens}
    return httpx.post(f"{server.base_url}/chat/completions", json=body, timeout=600)


def tokens_of(server, case):
    content = [content_of(part) for part in case.parts]
    answer = posted(server, [{"role": "user", "content": content}], case.max_new_tokens)
    return answer.json()["choices"][0]["token_ids"]


def together(server, cases):
    with ThreadPoolExecutor(len(cases)) as threads:
        return [*threads.map(lambda case: tokens_of(server, case), cases)]


def preemptions(server):
    metrics = httpx.get(server.base_url.removesuffix("v1") + "metrics", timeout=60).text
    return sum(
        map(float, re.findall(r"^vllm:num_preemptions_total\S* (\S+)$", metrics, re.MULTILINE))
    )


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_golden_case_alone_gives_the_official_tokens(server, case):
    assert tokens_of(server, case) == [*case.output_ids]


def test_random_mixes_with_preemptions_give_the_official_tokens(server):
    before = preemptions(server)
    for seed in range(4):
        chosen = Random(seed).choices(CASES, k=12 + 6 * seed)  # noqa: S311
        assert together(server, chosen) == [[*case.output_ids] for case in chosen]
    assert preemptions(server) > before


def test_the_judge_gives_the_official_replies(server, folder, judge, logs):
    digest = open_folder(folder).digest
    judge.check(3)
    assert any(f"MMIE-Score@{digest}, by vLLM at {server.base_url}" in line for line in logs)
    assert judge.storage_signature == f"judge:mmie_score|model:MMIE-Score@{digest}|engine:vllm"
    requests = [JudgeRequest(parts=case.parts, max_tokens=case.max_new_tokens) for case in CASES]
    outcomes = dict(judge.ask(requests))
    for index, case in enumerate(CASES):
        reply = outcomes[index]
        assert isinstance(reply, JudgeReply)
        # vLLM drops an unfinished character at the end.
        assert reply.text == case.response.rstrip("\ufffd").strip()
        assert reply.finish == ("stop" if case.ended else "length")
        usage = (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cost_usd)
        assert usage == (len(case.input_ids), len(case.output_ids), 0.0)


WEB = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/a.png"}}
NO_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
NO_BASE64 = {"type": "image_url", "image_url": {"url": "data:image/png;base64,A*"}}


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        pytest.param([{"role": "system", "content": "x"}], "one user message", id="system"),
        pytest.param([{"role": "user", "content": [WEB]}], "a data URI", id="web image"),
        pytest.param([{"role": "user", "content": [NO_IMAGE]}], "image 1", id="no image"),
        pytest.param([{"role": "user", "content": [NO_BASE64]}], "not base64", id="no base64"),
        pytest.param([{"role": "user", "content": "x" * 600}], "the server allows 512", id="long"),
        pytest.param([{"role": "user", "content": "x" * 20000}], "8,192 at most", id="too long"),
    ],
)
def test_what_the_judge_cannot_read_is_refused_with_the_reason(server, messages, words):
    answer = posted(server, messages, 4)
    assert answer.status_code == 400
    assert words in json.dumps(answer.json())


def test_requests_of_a_killed_engine_are_answered_by_the_server_that_is_started_again(
    server, judge
):
    children = psutil.Process(server._process.pid).children(recursive=True)
    engines = [one for one in children if "EngineCore" in " ".join(one.cmdline()) + one.name()]
    requests = [JudgeRequest(parts=case.parts, max_tokens=200) for case in CASES * 2]
    replies = judge.ask(requests)
    outcomes = dict([next(replies)])
    assert engines
    for engine in engines:
        engine.kill()
    outcomes |= dict(replies)
    assert len(outcomes) == len(requests)
    assert all(isinstance(outcome, JudgeReply) for outcome in outcomes.values())
    program = psutil.Process(server._process.pid)
    all_of_it = [program, *program.children(recursive=True)]
    assert len(all_of_it) > 2
    server.close()
    _, alive = psutil.wait_procs(all_of_it, timeout=10)
    assert alive == []
