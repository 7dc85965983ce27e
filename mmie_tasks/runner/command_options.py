"""The options of ``mmie-tasks eval`` that lmms-eval does not know."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmie_tasks.judges.choice import ChosenJudges
    from mmie_tasks.judging.served_model import ServedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """The options of a command line, for all evaluations of it.

    Attributes:
        judges: Those of ``--judge``, as `JudgeChoices`.
        tested: The tested model whose saved answers are judged, if it was on a server.
    """

    judges: Mapping[str, ChosenJudges] = field(default_factory=dict)
    tested: ServedModel | None = None


COMMAND_OPTIONS: ContextVar[CommandOptions] = ContextVar("options")
"""Of the command line that runs, if it is ours. Not of an evaluation, because the runner's ``main``
(``cli/dispatch.py``) begins those, with arguments of its own only.
"""
