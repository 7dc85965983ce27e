"""Our outputs on generated cases, against the recorded digests of the official ones."""

import pytest

from parity import mia_bench, mmie
from parity.generated import Generated, digest, recorded

GENERATED = (*mmie.GENERATED, *mia_bench.GENERATED)


@pytest.mark.parametrize("case", GENERATED, ids=[case.name for case in GENERATED])
def test_outputs_are_those_of_the_official_code(case: Generated) -> None:
    expected = recorded()[case.name]
    outputs = case.ours()
    assert (len(outputs), digest(outputs)) == (expected["n"], expected["sha256"])


def test_every_recorded_digest_is_compared() -> None:
    assert {case.name: case.source for case in GENERATED} == {
        name: entry["source"] for name, entry in recorded().items()
    }
