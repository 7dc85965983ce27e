"""What a user may set about MMIE's requests, and the words that the judge is told."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping

from mmie_tasks.benchmarks.mmie import prompts
from mmie_tasks.errors import SettingWrong
from mmie_tasks.paths import cache_dir
from mmie_tasks.sources.mmie_prompts import Templates, templates

ASSEMBLY = "MMIE_ASSEMBLY"

_READ = ("MMIE_PROMPTS", "MMIE_OTHER_PROMPTS", "MMIE_PROMPTS_URL", "MMIE_TASKS_CACHE")


def check() -> None:
    """See that the official words can be had and the settings be obeyed, before a run.

    Raises:
        MmieTasksError: They cannot.
    """
    full_assembly(os.environ)
    judge_words()


def signature() -> str:
    """What the judge is shown: whose words, and how they are put together.

    Raises:
        MmieTasksError: As `check`.
    """
    assembly = "full" if full_assembly(os.environ) else "official"
    return f"prompt:{judge_words().name},max_tokens={prompts.MAX_TOKENS}|assembly:{assembly}"


def full_assembly(environment: Mapping[str, str]) -> bool:
    """Whether ``MMIE_ASSEMBLY`` asks for the text that the official assembly cuts.

    Raises:
        SettingWrong: It is neither ``official`` nor ``full``.
    """
    asked = environment.get(ASSEMBLY) or "official"
    if asked not in ("official", "full"):
        hint = f"`export {ASSEMBLY}=full` keeps the text that the official assembly cuts"
        raise SettingWrong(f"`{ASSEMBLY}` is {asked!r}, and can be official or full.", hint=hint)
    return asked == "full"


def judge_words() -> Templates:
    """The templates of this process's environment, read once.

    Raises:
        MmieTasksError: They cannot be had.
    """
    read_of = {name: os.environ[name] for name in _READ if name in os.environ}
    return _templates(str(cache_dir(os.environ)), tuple(sorted(read_of.items())))


@functools.lru_cache(maxsize=4)
def _templates(_cache: str, _read_of: tuple[tuple[str, str], ...]) -> Templates:
    return templates(os.environ)
