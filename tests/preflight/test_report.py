from __future__ import annotations

import pytest

from mmie_tasks.core.errors import DataMissing
from mmie_tasks.hub.asset import Check
from mmie_tasks.preflight.doctor import Finding, Report, run_check

LONG = "a sentence of many words " * 12


def as_text(findings: list[Finding]) -> str:
    return Report(findings=tuple(findings)).text


def broken() -> str:
    raise DataMissing("No folder `x`.", hint="`mkdir x`")


def warned() -> str:
    from loguru import logger

    logger.info("not worth a line")
    logger.warning("It retires soon. hint: choose another")
    return "It works."


def test_lines_are_aligned_and_followed_by_their_hints() -> None:
    assert as_text(
        [Finding("ok", "GPU 0", "fine"), Finding("problem", "mmie: data", "gone", "fetch it")]
    ) == (
        "ok       GPU 0       fine\n"
        "problem  mmie: data  gone\n"
        "                     hint: fetch it\n"
        "\n"
        "Problems: 1. Warnings: 0. A run would fail."
    )


@pytest.mark.parametrize(
    "finding",
    [
        Finding("ok", "mmie: judge prompts", LONG),
        Finding("problem", "mmie: judge prompts", LONG, LONG),
    ],
    ids=["found", "hint"],
)
def test_no_line_is_wider_than_a_terminal(finding) -> None:
    lines = as_text([finding, Finding("ok", "GPU", "none")]).splitlines()
    assert len(lines) > 4
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("findings", "end"),
    [
        pytest.param([], "A run can begin.", id="nothing"),
        pytest.param([Finding("ok", "a", "b")], "A run can begin.", id="ok"),
        pytest.param(
            [Finding("warning", "a", "b")] * 2, "A run can begin. Warnings: 2.", id="warnings"
        ),
        pytest.param(
            [Finding("warning", "a", "b"), Finding("problem", "a", "b", "c")],
            "Problems: 1. Warnings: 1. A run would fail.",
            id="problem",
        ),
    ],
)
def test_the_last_line_says_whether_a_run_can_start(findings: list[Finding], end: str) -> None:
    assert as_text(findings).splitlines()[-1] == end


def test_an_error_of_ours_is_a_problem_with_its_hint() -> None:
    assert list(run_check(Check(subject="data", describe=broken))) == [
        Finding("problem", "data", "No folder `x`", "`mkdir x`")
    ]


def test_warnings_of_a_check_are_in_the_report() -> None:
    assert list(run_check(Check(subject="judge", describe=warned))) == [
        Finding("ok", "judge", "It works"),
        Finding("warning", "judge", "It retires soon", "choose another"),
    ]


def test_an_error_that_is_not_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        list(run_check(Check(subject="data", describe=lambda: str(1 // 0))))
