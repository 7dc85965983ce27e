"""Our Triton kernel: its results in Triton's interpreter, and compiled for GPUs without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest
import torch
from support import internvl_golden as golden
from support.mmie_engine import one_thread
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.mmie_score.engine import triton_kernel
from mmie_tasks.judges.mmie_score.engine.attention import BatchLayout, PagedAttention, SdpaAttention
from mmie_tasks.judges.mmie_score.engine.kernels import KERNELS
from mmie_tasks.judges.mmie_score.engine.self_check import self_check
from mmie_tasks.judges.mmie_score.engine.triton_kernel import paged_attention
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge

CPU = torch.device("cpu")
TESTS = Path(__file__).resolve().parents[3]
TRITON = PagedAttention(name="triton", kernel=paged_attention)
PAGES, PAGE_TOKENS, JUNK = 12, 256, 1e4


def rows_of(seed: int) -> list[tuple[int, int]]:
    """Queries and keys of some rows: single queries, whole prompts, chunks in the middle of a
    prompt.
    """
    random = Random(seed)  # noqa: S311 - a test's numbers
    lengths = [random.randint(1, 500) for _ in range(3)]
    return [(random.choice([1, length, random.randint(1, length)]), length) for length in lengths]


def states_of(rows, *, heads, kv_heads, head_dim):
    """Queries, keys, values and tables: shuffled pages, junk behind the last key of each row and in
    unused pages.
    """
    random = torch.Generator().manual_seed(len(rows) + head_dim)
    free = iter(torch.randperm(PAGES, generator=random).tolist())
    keys, values = torch.full((2, PAGES, PAGE_TOKENS, kv_heads, head_dim), JUNK)
    tables = []
    for _, length in rows:
        tables.append([next(free) for _ in range(0, length, PAGE_TOKENS)])
        for offset, page in zip(range(0, length, PAGE_TOKENS), tables[-1], strict=True):
            used = min(PAGE_TOKENS, length - offset)
            for states in (keys, values):
                states[page, :used] = torch.randn(used, kv_heads, head_dim, generator=random)
    queries = torch.randn(sum(count for count, _ in rows), heads, head_dim, generator=random)
    return queries, keys, values, tables


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param({"heads": 2, "kv_heads": 2, "head_dim": 96}, id="heads of 96"),
        pytest.param({"heads": 4, "kv_heads": 2, "head_dim": 24}, id="grouped heads of 24"),
    ],
)
def test_prefill_and_decoding_steps_equal_sdpa_in_fp32(seed, sizes):
    rows = rows_of(seed)
    queries, keys, values, tables = states_of(rows, **sizes)
    starts, lengths = (
        list(accumulate((count for count, _ in rows), initial=0)),
        [length for _, length in rows],
    )
    layout = BatchLayout(starts=starts, lengths=lengths, tables=tables)
    expected = SdpaAttention(page_tokens=PAGE_TOKENS).plan(layout, CPU)(queries, keys, values)
    torch.testing.assert_close(TRITON.plan(layout, CPU)(queries, keys, values), expected)
    last = [start - 1 for start in starts[1:]]
    table = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(pages) for pages in tables], batch_first=True
    ).int()
    decode = TRITON.plan_decoding(torch.tensor(lengths, dtype=torch.int32), table)
    torch.testing.assert_close(decode(queries[last], keys, values), expected[last])


@pytest.mark.parametrize(("decoding", "block_queries"), [(False, 128), (True, 16)])
def test_the_kind_of_the_step_decides_about_blocks_and_not_the_longest_row(
    monkeypatch, decoding, block_queries
):
    """Also: the kernel is launched on the device of the queries; Triton launches on the current
    one.
    """
    current = []

    @contextmanager
    def device_of(tensor):
        current.append(tensor)
        yield
        current.clear()

    class Launches(dict):
        def __missing__(self, grid):
            assert len(current) == 1
            assert torch.equal(current[0], queries)
            return lambda *_, **options: self.update({grid: options["block_queries"]})

    launches = Launches()
    monkeypatch.setattr(triton_kernel, "_attend", launches)
    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    queries, keys, values, tables = states_of([(1, 300), (1, 5)], heads=2, kv_heads=2, head_dim=16)
    if decoding:
        attend = TRITON.plan_decoding(
            *(torch.tensor(numbers).int() for numbers in ([300, 5], [[3, 1], [2, 0]]))
        )
    else:
        attend = TRITON.plan(BatchLayout(starts=[0, 1, 2], lengths=[300, 5], tables=tables), CPU)
    attend(queries, keys, values)
    assert launches == {(1, 2, 2): block_queries}


@needs_transformers_5
def test_the_judge_gives_the_official_replies_with_the_kernel():
    judge = MmieScoreJudge(model=str(golden.CHECKPOINT), device="cpu", max_rows=2, environment={})
    placement = judge.local.placement(judge.local.checkpoint)
    judge.local.placement = lambda _: replace(placement, fixed=True, attention=TRITON)
    cases = [case for case in golden.cases() if len(case.output_ids) < 22]
    with one_thread():
        outcomes = dict(
            judge.ask(
                [JudgeRequest(parts=case.parts, max_tokens=case.max_new_tokens) for case in cases]
            )
        )
    assert [outcomes[number].text for number in range(len(cases))] == [
        case.response for case in cases
    ]


def test_pages_that_the_kernel_cannot_read_are_refused():
    layout = BatchLayout(starts=[0, 1], lengths=[5], tables=[[0]])
    queries, keys = torch.zeros(1, 2, 16), torch.zeros(1, 96, 2, 16)
    with pytest.raises(ValueError, match="pages of 96 tokens"):
        PagedAttention(name="triton", kernel=paged_attention, page_tokens=96).plan(layout, CPU)(
            queries, keys, keys
        )


def checked(attention, **sizes):
    return self_check(
        attention, CPU, torch.float16, **{"heads": 1, "kv_heads": 1, "head_dim": 16} | sizes
    )


def test_the_kernel_passes_the_self_check_of_the_judge():
    assert checked(KERNELS["triton"](), head_dim=96) is None


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        pytest.param("<= position", "< position + 2", id="a later key is visible"),
        pytest.param(
            "<= position", "< position + (position == 0)", id="the own key is not visible"
        ),
        pytest.param("+ row * table_width", "", id="the pages of the first row"),
        pytest.param(
            "length - query_count + query_index", "query_index", id="queries are the first tokens"
        ),
        pytest.param(
            "(block + 1) * block_queries)",
            "block * block_queries + 1)",
            id="the last keys are left out",
        ),
    ],
)
def test_a_fault_in_the_kernel_is_found_by_the_self_check(tmp_path, code, fault):
    source = Path(triton_kernel.__file__).read_text(encoding="utf-8")
    assert code in source
    path = tmp_path / "faulty_kernel.py"
    path.write_text(source.replace(code, fault), encoding="utf-8")
    spec = spec_from_file_location(path.stem, path)
    faulty = module_from_spec(spec)
    spec.loader.exec_module(faulty)
    assert checked(PagedAttention(name="faulty", kernel=faulty.paged_attention)) is not None


def test_the_kernel_compiles_for_gpus_fits_their_shared_memory_and_loads_ahead(tmp_path):
    environment = os.environ | {
        "TRITON_INTERPRET": "0",
        "TRITON_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": str(TESTS.parent),
    }
    program = [sys.executable, str(TESTS / "support" / "triton_compile.py")]
    printed = subprocess.run(
        program, env=environment, capture_output=True, text=True, check=True
    ).stdout
    variants = json.loads(printed)
    assert len(variants) == 6
    for name, (shared_bytes, buffers) in variants.items():
        limit_kib = 227 if name.startswith(("sm_90", "sm_100")) else 99  # 8.6 has the least
        assert shared_bytes <= limit_kib * 1024, name
        assert len(buffers) == 2, name  # of keys, and of values
        assert min(buffers) >= 2, name  # the next block is loaded while one is computed
