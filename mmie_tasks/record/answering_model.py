"""Tells which replies name another model than the one that a judge asked for.

Providers route a retired name to another model, gateways fall back, and routers choose. The only
trace is the name in the reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from mmie_tasks.record.signature import Signature

_DATE = re.compile(r"[-@]\d\d[\d-]*\d$")  # -2024-11-20, -20250929, -0613, -002


def is_other_name(requested: str, replied: str) -> bool:
    """Whether two names differ in more than spelling; False if one of them is empty.

    Case, all text before the last slash, ``-latest``, and a date that only one of the names ends
    with do not count.

    >>> is_other_name("gpt-4o", "openai/gpt-4o-2024-11-20"), is_other_name("gpt-4o", "gpt-4o-mini")
    (False, True)
    """
    a, b = (
        name.strip().casefold().rpartition("/")[2].removesuffix("-latest")
        for name in (requested, replied)
    )
    return bool(a and b) and b not in (a, _DATE.sub("", a)) and _DATE.sub("", b) != a


def other_models(judge: Signature, models: Iterable[str]) -> list[str]:
    """The models, without duplicates, that are not the one requested from a judge ``openai``.

    There are none for other judges, whose replies may have names of their own.
    """
    requested = _requested_model(judge)
    return [model for model in dict.fromkeys(models) if is_other_name(requested, model)]


@lru_cache(maxsize=128)
def _requested_model(judge: Signature) -> str:
    """The model that a judge ``openai`` asks for, else an empty text; once for all samples."""
    fields = judge.fields
    return fields.get("model", "") if fields.get("judge") == "openai" else ""


def shown_model(model: str) -> str:
    """A model name from a server, printable in one line."""
    line = " ".join(model.split())[:100]
    return line if line.isprintable() else ascii(line)
