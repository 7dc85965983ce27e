"""The default coverage floor, and the process that prints."""

from __future__ import annotations

from collections.abc import Mapping

COVERAGE_FLOOR = 0.9
"""No mean is reported below this share of scored samples, unless a run sets ``min_coverage``."""


def is_first_process(environment: Mapping[str, str]) -> bool:
    """Whether this process is the first or only one of a run: the one that prints.

    Launchers such as torchrun set ``RANK``.

    >>> is_first_process({}), is_first_process({"RANK": "0"}), is_first_process({"RANK": "1"})
    (True, True, False)
    """
    return environment.get("RANK", "0") == "0"
