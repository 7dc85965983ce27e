"""The Triton kernel of ``make gpu``, compiled for GPUs without one; its results: test_check.py."""

import pytest
import triton
from gpu.kernel import BLOCK_KEYS, BLOCK_QUERIES, _attend
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

CONSTANTS = {
    "head_dim": 96,
    "padded_dim": 128,
    "page_tokens": 256,
    "block_queries": BLOCK_QUERIES,
    "block_keys": BLOCK_KEYS,
}


def signature(dtype):
    types = dict.fromkeys((parameter.name for parameter in _attend.params), "i32")
    types |= {name: "*i32" for name in types if name.endswith("_ptr")}
    types |= dict.fromkeys(("query_ptr", "key_ptr", "value_ptr", "output_ptr"), f"*{dtype}")
    return types | {"log2_scale": "fp32"} | dict.fromkeys(CONSTANTS, "constexpr")


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("capability", [80, 90])
def test_the_kernel_compiles_for_gpus_and_fits_their_shared_memory(monkeypatch, tmp_path, dtype, capability):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    source = ASTSource(_attend, signature(dtype), constexprs=CONSTANTS)
    options = {"num_warps": 4, "num_stages": 3}
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    assert compiled.asm["cubin"]
    assert compiled.metadata.shared <= 96 * 1024
