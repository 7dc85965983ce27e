"""Signatures for samples that are made by hand, from the text that a table prints."""

from mmie_tasks.record.signature import Signature

_OF_BENCHMARK = ("paper_judge", "prompt", "reader", "task", "data")


def signature_from(text):
    """The signature that prints this text: judges, each beginning with ``judge``, then the rest."""
    judges = []
    benchmark = {}
    fields = benchmark
    for pair in filter(None, text.split("|")):
        key, _, value = pair.partition(":")
        if key == "judge":
            judges.append(fields := {})
        elif key in _OF_BENCHMARK:
            fields = benchmark
        (benchmark if key == "pkg" else fields)[key] = value
    package = benchmark.pop("pkg", "")
    return Signature(judges=tuple(judges), benchmark=benchmark, package=package)
