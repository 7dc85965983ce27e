"""Reads parts of logged records, in JSON or as a task returned them."""

from mmie_tasks.record.record import Record


def signature_of(record):
    return str(Record.model_validate(record).signature)


def replies_of(record):
    return Record.model_validate(record).replies
