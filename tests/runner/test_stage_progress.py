"""The bars of writing and drawing."""

from __future__ import annotations

import pytest

from mmie_tasks.runner.stage_progress import StageProgress


@pytest.mark.parametrize(
    ("price_usd", "shown"),
    [
        (0.5, "failed 1, 0.5000 of about 2.0000 USD]"),
        (None, "failed 1, price not known]"),
        (0.0, "failed 1]"),
    ],
)
def test_a_bar_shows_failures_and_the_cost_with_a_forecast(price_usd, shown, capfd):
    progress = StageProgress("Drawing", "picture", price_usd=price_usd, is_shown=True)
    progress.begin(6, 1)  # one is of an earlier run
    progress.update(2, failed=1, paid=1)
    progress.close()
    last = capfd.readouterr().err.rpartition("\r")[2]
    assert last.startswith("Drawing:  50%")
    assert shown in last
    assert progress.done == 2


def test_only_the_first_process_shows_a_bar(capfd):
    progress = StageProgress("Drawing", "picture", price_usd=None, is_shown=False)
    progress.begin(1, 0)
    progress.update(1, failed=0, paid=1)
    progress.close()
    assert capfd.readouterr().err == ""
