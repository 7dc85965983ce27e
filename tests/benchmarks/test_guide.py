"""The guide for benchmarks of other packages shows the code of the examples, and nothing else."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(?:python|yaml|toml)\n(.*?)```", GUIDE, re.DOTALL)
FILES = [
    path.read_text(encoding="utf-8")
    for example in ("own_benchmark", "own_judged_benchmark")
    for pattern in ("*.py", "*.yaml", "*.toml")
    for path in (ROOT / "examples" / example).rglob(pattern)
]


@pytest.mark.parametrize("block", BLOCKS, ids=[block.partition("\n")[0][:40] for block in BLOCKS])
def test_code_in_the_guide_is_code_of_an_example(block):
    assert any(block.rstrip("\n") in text for text in FILES)
