"""Reads parts of logged records, in JSON or as a task returned them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmie_tasks.record.record import Record
from mmie_tasks.record.reply import JudgeReply


def signature_of(record: Mapping[str, Any]) -> str:
    """The text of the signature of a record."""
    return str(Record.model_validate(record).signature)


def replies_of(record: Mapping[str, Any]) -> tuple[JudgeReply, ...]:
    """The judges' replies of a record."""
    return Record.model_validate(record).replies
