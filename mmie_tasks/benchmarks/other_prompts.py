"""Reads the user's own judge prompts, which replace a benchmark's."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeVar

from loguru import logger
from pydantic import BaseModel, ConfigDict, ValidationError

from mmie_tasks.core.errors import SettingWrong


class StrictModel(BaseModel):
    """A JSON object with exactly these keys."""

    model_config = ConfigDict(strict=True, extra="forbid")


_Prompts = TypeVar("_Prompts", bound=BaseModel)


def read_other_prompts(path: Path, form: type[_Prompts], content: str) -> _Prompts:
    """The prompts in the JSON file that the setting ``prompts`` names; raises `SettingWrong` if it
    cannot be read or has another form. `content` is the form in words, for the hint.
    """
    try:
        return form.model_validate_json(path.read_bytes())
    except OSError as error:
        problem = f"it cannot be read: {error.strerror}"
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    hint = f"name a JSON file with {content}, or leave `prompts=` out for the benchmark's own"
    raise SettingWrong(f"`prompts` is `{path}`: {problem}.", hint=hint)


def other_name(title: str, path: Path, content: bytes) -> str:
    """The name in the signature: ``other:`` and 12 hex digits of the hash of `content`. Warns that
    scores are not comparable with published ones.
    """
    name = f"other:{hashlib.sha256(content).hexdigest()[:12]}"
    logger.warning(
        f"{title} is judged with the prompts in `{path}`, not with its own: no score of this run "
        f"is comparable with published ones. The signature says `{name}`."
    )
    return name
