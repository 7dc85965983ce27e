"""Converts records of 0.1.0 release candidates, which had other forms of verdicts and judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from mmie_tasks.record.signature import Signature

_OldRecord: TypeAlias = Mapping[str, object]

OLD_RECORD_KEY = "coverage"


def migrated(record: _OldRecord) -> _OldRecord:
    """A record in today's form: its signature is an object, and no field is named ``parts``."""
    if isinstance(record.get("signature"), Mapping):
        return _with_shares(record) if "parts" in record else record
    signature = Signature.parse(str(record.get("signature") or ""))
    panel = record.get("panel")
    if isinstance(panel, Mapping):
        members = panel.get("members")
        judges = [m for m in members if isinstance(m, Mapping)] if isinstance(members, list) else []
        judgements = [_judgement(judge, str(judge.get("judge", ""))) for judge in judges]
    elif record.get("replies"):
        judge = next(iter(signature.each_judge), Signature())
        judgements = [_judgement(record, str(judge))]
    else:
        judgements = []
    known = {name: value for name, value in record.items() if value is not None}
    if "weights" in known:  # MIA-Bench, where `components` were a judge's marks
        known["components"] = known.get("asked", ())
    known |= {**_verdicts(record), "judgements": judgements, "signature": signature}
    return _with_shares(known)


def _with_shares(fields: _OldRecord) -> _OldRecord:
    """Renames ``parts`` of a record or verdicts, and of the verdicts in them."""
    renamed = {"shares" if name == "parts" else name: value for name, value in fields.items()}
    judgements, verdicts = renamed.get("judgements"), renamed.get("verdicts")
    if isinstance(judgements, list):
        renamed["judgements"] = [
            _with_shares(judgement) if isinstance(judgement, Mapping) else judgement
            for judgement in judgements
        ]
    if isinstance(verdicts, Mapping):
        renamed["verdicts"] = _with_shares(verdicts)
    return renamed


def _judgement(judge: _OldRecord, signature: str) -> dict[str, object]:
    replies = judge.get("replies")
    first, second = (*(replies if isinstance(replies, Sequence) else ()), None, None)[:2]
    official = _verdicts(judge).get("official")
    failure = official if isinstance(official, Mapping) and "reason" in official else None
    return {
        "judge": Signature.parse(signature),
        "result": {
            "reply": first,
            "second_reply": second,
            "failure": failure if first is None else None,
        },
        "verdicts": {**_verdicts(judge), "parts": judge.get("parts") or {}},
    }


def _verdicts(row: _OldRecord) -> dict[str, object]:
    return {
        name: _verdict(value)
        for name in ("official", "robust")
        if (value := row.get(name)) is not None
    }


def _verdict(row: object) -> object:
    if not isinstance(row, Mapping):
        return row
    if "unscored" in row:
        return {"reason": row["unscored"], "detail": row.get("detail") or ""}
    points = row.get("points", row.get("score"))
    return row if points is None else {"points": points, "reading": row.get("reading") or ""}
