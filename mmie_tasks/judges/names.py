"""The names of judges, and where their classes are. Nothing is imported for them.

A built-in judge needs a module here and an entry in `BUILT_IN`. One of another package needs:

    [project.entry-points."mmie_tasks.judges"]
    my_judge = "my_package:MyJudge"
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

ENTRY_POINTS = "mmie_tasks.judges"

BUILT_IN: Mapping[str, str] = {
    "mmie_score": "mmie_tasks.judges.mmie_score.judge:MmieScoreJudge",
    "openai": "mmie_tasks.judges.openai.judge:OpenAIJudge",
    "replay": "mmie_tasks.judges.replay:ReplayJudge",
}
"""Name to class, as ``module:class``."""


def judge_names() -> tuple[str, ...]:
    """The names of all judges, built-in ones first."""
    return (*BUILT_IN, *sorted(installed_judges().keys() - BUILT_IN.keys()))


def installed_judges() -> dict[str, EntryPoint]:
    """The judges of other packages by name."""
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
