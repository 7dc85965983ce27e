"""The engine against the official code: golden cases, computed together in many ways."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import internvl_golden as golden
from support.mmie_engine import (
    EngineHarness,
    Plan,
    build_engine,
    completion,
    golden_prompts,
    max_difference,
    reply,
)
from support.transformers_5 import needs_transformers_5

pytestmark = needs_transformers_5

CASES = golden.cases()
TOLERANCE = 1e-3  # of logits, whose standard deviation is about 4

PLANS = st.builds(
    Plan,
    page_tokens=st.sampled_from([16, 64, 256]),
    rows=st.integers(1, 24),
    chunk_tokens=st.integers(1, 2000),
    vision_tiles=st.integers(1, 60),
    fixed=st.booleans(),
)


def check_case(number: int, engine: EngineHarness, output: list[int]) -> None:
    case = CASES[number]
    logits = engine.logits[number]
    assert output == list(case.output_ids)
    assert reply(output) == case.response
    assert max_difference(logits[0], case.logits) < TOLERANCE
    assert max_difference(logits[len(output) - 1], case.last_logits) < TOLERANCE


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_a_case_alone_equals_the_official_output(number: int) -> None:
    engine = build_engine(Plan())
    result = completion(engine.results([golden_prompts()[number]])[number])
    check_case(number, engine, result.output)
    assert result.finish == ("stop" if CASES[number].ended else "length")
    assert result.prompt_tokens == len(CASES[number].input_ids)


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(Plan(chunk_tokens=2000, vision_tiles=200), id="all at once"),
        pytest.param(Plan(chunk_tokens=37, page_tokens=16), id="in parts"),
        pytest.param(Plan(rows=1, chunk_tokens=100), id="one row"),
        pytest.param(Plan(rows=5, chunk_tokens=300, page_tokens=256, fixed=True), id="fixed"),
    ],
)
def test_all_cases_together_equal_the_official_outputs(plan: Plan) -> None:
    engine = build_engine(plan)
    for number, output in engine.outputs(golden_prompts()).items():
        check_case(number, engine, output)
    assert engine.logits.keys() == set(range(len(CASES)))
    assert engine.most_live == min(plan.rows, len(CASES))


@settings(max_examples=4)
@given(plan=PLANS, random=st.randoms(), late=st.booleans(), spare_pages=st.integers(0, 30))
def test_no_schedule_changes_any_case(
    plan: Plan, random: Random, late: bool, spare_pages: int
) -> None:
    prompts = random.sample(golden_prompts(), len(CASES))
    longest = max(-(-prompt.max_stored_tokens // plan.page_tokens) for prompt in prompts)
    plan = Plan(**{**vars(plan), "pages": longest + spare_pages})
    engine = build_engine(plan)
    for number, output in engine.outputs(prompts, late=random if late else None).items():
        check_case(number, engine, output)
    assert engine.logits.keys() == set(range(len(CASES)))
