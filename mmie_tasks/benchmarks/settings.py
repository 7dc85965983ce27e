"""Settings of a benchmark: entries of a task file's ``metadata``, or pairs of ``--judge_args``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import Field

from mmie_tasks.core.choice import ChoiceOptions, read_options
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.suggestions import did_you_mean
from mmie_tasks.record.signature import COVERAGE_FLOOR

SettingsT = TypeVar("SettingsT", bound="TaskSettings")


class TaskSettings(ChoiceOptions):
    """The settings of every benchmark; one with more has a subclass.

    Attributes:
        min_coverage: The share of scored samples below which no mean is reported, 0 to 1.
    """

    min_coverage: float = Field(default=COVERAGE_FLOOR, ge=0, le=1)


def read_settings(
    model: type[SettingsT], benchmark: str, metadata: object, options: Mapping[str, str]
) -> SettingsT:
    """The settings in a task file's metadata and, with precedence, in options.

    Other entries of the metadata are ignored, such as ``version``.

    Raises:
        SettingWrong: A setting is unknown or invalid, or an entry of the metadata is nearly one.
    """
    entries = dict(metadata) if isinstance(metadata, Mapping) else {}
    for name in set(entries) - set(model.model_fields):
        if nearest := did_you_mean(str(name), model.model_fields):
            raise SettingWrong(
                f"The metadata of a task of `{benchmark}` has `{name}`, which is not a setting.",
                hint=f"rename the entry{nearest}",
            )
        del entries[name]
    return read_options({**entries, **options}, model, "benchmark", benchmark)
