"""Compiles our Triton kernel for GPUs without one, and prints for each variant, as JSON, its shared
memory in bytes and its buffers of keys and of values.

A program of its own: in a process with ``TRITON_INTERPRET=1`` nothing can be compiled.
"""

from __future__ import annotations

import json
import re
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mmie_tasks.judges.mmie_score.engine.triton_kernel import DECODING_BLOCK, PREFILL_BLOCK, _attend

SIZES = {"heads": 32, "kv_heads": 32, "head_dim": 96, "padded_dim": 128, "page_tokens": 256}
STATES = ("query_ptr", "key_ptr", "value_ptr", "output_ptr")


def compiled(capability: int, dtype: str, block: dict[str, int]) -> tuple[int, list[int]]:
    names = [parameter.name for parameter in _attend.params]
    constants = SIZES | {name: size for name, size in block.items() if name in names}
    types = {name: "*i32" if name.endswith("_ptr") else "i32" for name in names}
    types |= (
        dict.fromkeys(STATES, f"*{dtype}")
        | {"log2_scale": "fp32"}
        | dict.fromkeys(constants, "constexpr")
    )
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in STATES}
    options = {name: block[name] for name in ("num_warps", "num_stages")} | {
        "enable_fp_fusion": True
    }
    source = ASTSource(_attend, types, constexprs=constants, attrs=aligned)
    kernel = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    assert kernel.asm["cubin"]
    buffers = re.findall(r"ttg\.local_alloc\s*:.*memdesc<(\d+)x64x128x", kernel.asm["ttgir"])
    return int(kernel.metadata.shared), [int(count) for count in buffers]


if __name__ == "__main__":
    variants = [
        (f"sm_{capability} {dtype} {kind}", compiled(capability, dtype, block))
        for capability, dtype in ((80, "bf16"), (90, "bf16"), (120, "fp16"))
        for kind, block in (("prefill", PREFILL_BLOCK), ("decoding", DECODING_BLOCK))
    ]
    sys.stdout.write(json.dumps(dict(variants)))
