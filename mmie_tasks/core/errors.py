"""Errors that stop a run before it starts, one class for each thing that the user can do.

* MmieTasksError
  + DataMissing      data or access is missing: download it, or set where it is
  + DataBroken       data is unusable: repair it, or download it again
  + AnswersUnusable  saved answers cannot be matched to the samples: pass another path
  + SettingWrong     an option or environment variable is invalid: change it
* BadSample          a row of a data file cannot be used: becomes a DataBroken
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial


class MmieTasksError(Exception):
    """An error with a hint.

    Args:
        message: What was requested, what happened, and where.
        hint: The command or setting that helps.

    >>> print(DataMissing("No folder `x`.", hint="`mkdir x`"))
    No folder `x`.
    <BLANKLINE>
    hint: `mkdir x`
    """

    def __init__(self, message: str, *, hint: str) -> None:
        self.message, self.hint = message, hint
        super().__init__(f"{message}\n\nhint: {hint}")

    def __reduce__(self) -> tuple[Callable[..., MmieTasksError], tuple[object, ...]]:
        return partial(type(self), hint=self.hint), (self.message,)  # pickled for another process


class DataMissing(MmieTasksError):
    """Data is missing, or access to it was denied."""


class DataBroken(MmieTasksError):
    """Data is present and unusable."""


class AnswersUnusable(MmieTasksError):
    """Saved answers cannot be matched to the samples."""


class SettingWrong(MmieTasksError):
    """An option or environment variable has an invalid value."""


def first_line(error: BaseException) -> str:
    """The first line of an error's text that is not blank; the class of an error without a text.

    >>> first_line(DataMissing("No folder `x`.", hint="`mkdir x`")), first_line(TimeoutError())
    ('No folder `x`.', 'TimeoutError')
    """
    lines = (line.strip() for line in str(error).split("\n"))
    return next(filter(None, lines), type(error).__name__)


class BadSample(Exception):
    """A row of a data file cannot be used; the message names row or sample, and field."""
