"""The settings, from options as they were typed."""

from __future__ import annotations

from collections.abc import Mapping

from mmie_tasks.judges.mmie_score.checkpoint.locating import DEFAULT_MODEL
from mmie_tasks.judges.mmie_score.settings import Settings, read_settings
from mmie_tasks.judges.registry import converted


def settings_of(options: Mapping[str, str], environment: Mapping[str, str]) -> Settings:
    """What the judge would be opened with; ``cache`` is every judge's, and not looked at.

    Raises:
        SettingWrong: No such option, or a value of another type.
        JudgeMisconfigured: A value makes no sense.
    """
    own = {name: text for name, text in options.items() if name != "cache"}
    typed = {"model": None, "max_memory": None, "max_rows": 64, **converted("mmie_score", own)}
    return read_settings(environment=environment, default_model=DEFAULT_MODEL, **typed)  # type: ignore[arg-type]
