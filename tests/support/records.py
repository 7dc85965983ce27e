"""Records that are made by hand."""

from dataclasses import replace

from mmie_tasks.core.verdict import Verdicts
from mmie_tasks.record.record import Record
from mmie_tasks.record.segment import Segment


def record_of(id, official, robust=None, shares=None, **fields):  # noqa: A002 - as in `Record`
    """The record of a sample; without `robust`, both verdicts are the same.

    Its answer is another one than those of other ids.
    """
    verdicts = Verdicts(official=official, robust=robust or official, shares=shares or {})
    answer = (Segment(f"The answer to {id}."),)
    return Record(**{"id": id, "verdicts": verdicts, "answer": answer, **fields})


def changed(record, **fields):
    """The record with other fields, or another `official` or `robust` verdict."""
    kinds = {kind: fields.pop(kind) for kind in ("official", "robust") if kind in fields}
    if kinds:
        fields["verdicts"] = replace(record.verdicts, **kinds)
    return record.model_copy(update=fields)
