"""The official reader: what the official script found in the same replies."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.golden import vectors

from mmie_tasks.benchmarks.mmie.official import read_official
from mmie_tasks.core.verdict import Scored, Unscored


@pytest.mark.parametrize("case", vectors("mmie_scores")["cases"], ids=lambda case: case["id"])
def test_a_golden_reply_is_read_as_the_official_script_reads_it(case):
    verdict = read_official(case["text"])
    match case["score"]:
        case None:
            assert (type(verdict), verdict.reason) == (Unscored, "unparsed")
        case int(score) if 0 <= score <= 6:
            assert (type(verdict), verdict.points) == (Scored, score)
        case _:
            assert (type(verdict), verdict.reason) == (Unscored, "off_scale")


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_on_which_the_official_script_ends_is_off_the_scale(sign):
    verdict = read_official(f"### Score\n{sign}{'9' * 310}")
    assert verdict.reason == "off_scale"
    assert "ends" in verdict.detail
    assert len(verdict.detail) < 100


def test_a_long_reply_with_many_headings_and_no_number_takes_no_time():
    assert read_official("### Score\n" * 100_000).reason == "unparsed"


@settings(max_examples=40)
@given(st.text(), st.text(alphabet="ab \n:#"), st.integers(0, 6))
def test_only_the_first_number_after_the_first_heading_counts(before, between, points):
    before = before.replace("### Score", "")
    reply = f"{before}\n### Score{between}{points}"
    assert read_official(f"{reply} 3\n### Score\n2") == Scored(points, str(points))
