"""What can be wrong before a run, one class per thing a reader can do about it.

* MmieTasksError
  + DataMissing      not there, or no access: fetch it, or say where it is
  + DataBroken       there and wrong: repair it, or fetch it again
  + AnswersUnusable  saved answers that cannot be joined to the samples: point elsewhere
  + SettingWrong     an option or environment variable that cannot be obeyed: change it
"""

from __future__ import annotations


class MmieTasksError(Exception):
    """Something that must be put right first, and how.

    Args:
        message: What was asked, what was found, and where.
        hint: The command or setting that helps.

    >>> print(DataMissing("No folder `x`.", hint="`mkdir x`"))
    No folder `x`.
    <BLANKLINE>
    hint: `mkdir x`
    """

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(f"{message}\n\nhint: {hint}")


class DataMissing(MmieTasksError):
    """Data is not there, or access to it was refused."""


class DataBroken(MmieTasksError):
    """Data is there and cannot be used as it is."""


class AnswersUnusable(MmieTasksError):
    """Saved answers cannot be joined to the samples."""


class SettingWrong(MmieTasksError):
    """An option or environment variable cannot be obeyed."""
