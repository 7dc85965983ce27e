"""What a user may set about the judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint.source import DEFAULT_MODEL
from mmie_tasks.judges.mmie_score.memory import parse_bytes
from mmie_tasks.judges.registry import parse_options

MODEL_VARIABLE = "MMIE_SCORE_MODEL"

Marks = Literal["official", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """As the user has typed them; what they come to on this machine is found out later.

    Attributes:
        model: A repository on the Hub, or a folder.
        revision: Of the repository; None is the commit that was found first.
        device: As `devices.choose_device` reads it.
        dtype: As `devices.choose_dtype` reads it.
        attention: As `devices.choose_attention` reads it.
        max_memory_bytes: That the judge may take; None is all that is free.
        max_rows: Requests that are computed at once, at most.
        early_stop: A text may end as soon as its official score is settled.
        marks: What is done with a request whose text holds the judge's control strings.
        graphs: Steps of decoding are captured as CUDA graphs.
    """

    model: str
    revision: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    attention: str = "auto"
    max_memory_bytes: int | None = None
    max_rows: int = 64
    early_stop: bool = False
    marks: Marks = "official"
    graphs: bool = True


def read_settings(
    *,
    model: str | None,
    max_memory: str | None,
    max_rows: int,
    environment: Mapping[str, str],
    default_model: str,
    **others: object,
) -> Settings:
    """The settings, with the environment's word for the model where no option names one.

    Raises:
        JudgeMisconfigured: A value makes no sense.
    """
    if max_rows < 1:
        raise JudgeMisconfigured(
            f"`max_rows={max_rows}` leaves nothing to compute.", hint="1 or more, or leave it out"
        )
    return Settings(
        model=model or environment.get(MODEL_VARIABLE) or default_model,
        max_memory_bytes=None if max_memory is None else parse_bytes(max_memory),
        max_rows=max_rows,
        **others,  # type: ignore[arg-type]
    )


# The settings, from options as they were typed.


def settings_of(options: Mapping[str, str], environment: Mapping[str, str]) -> Settings:
    """What the judge would be opened with; ``cache`` is every judge's, and not looked at.

    Raises:
        SettingWrong: No such option, or a value of another type.
        JudgeMisconfigured: A value makes no sense.
    """
    own = {name: text for name, text in options.items() if name != "cache"}
    typed = {"model": None, "max_memory": None, "max_rows": 64, **parse_options("mmie_score", own)}
    return read_settings(environment=environment, default_model=DEFAULT_MODEL, **typed)  # type: ignore[arg-type]
