"""Writes docs/reference/record.md, the fields of a sample's record, from their classes.

    python tools/record_page.py    # or `make pages`

A test compares, so the page always agrees with what a run logs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, TypeAdapter

from mmie_tasks.benchmarks.registry import entries
from mmie_tasks.record.record import RECORD_KEY, ImageRecord, Record

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "record.md"
HEAD = f"""\
# The record of a sample

<!-- Written by tools/record_page.py -->
With `--log_samples`, a run writes one line of JSON for each sample into `*_samples_<task>.jsonl`.
The line has the sample's record under `{RECORD_KEY}`: everything that is needed to show it and to
score it again. Each class below is an object in that JSON. [`load_run`](python.md) reads it, and so
does `Benchmark.read_record` ([add a benchmark](../extend.md)).
"""
_WORDS = {"string": "text", "integer": "whole number", "boolean": "true or false"}
_FIELD = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def page() -> str:
    """The whole page."""
    ours = [entry.load().record for entry in entries() if entry.is_ours]
    classes = dict.fromkeys(c for record in (Record, ImageRecord, *ours) for c in _within(record))
    records = [c for c in classes if issubclass(c, Record)]
    others = [c for c in classes if c not in records]
    return "\n".join((HEAD, *map(_section, records + others)))


def _within(hint: object) -> Iterator[type]:
    """The classes with fields of a type: itself, its bases, and those of its fields."""
    for argument in get_args(hint):
        yield from _within(argument)
    if inspect.isclass(hint) and (is_dataclass(hint) or issubclass(hint, BaseModel)):
        for base in hint.__bases__:
            yield from _within(base) if base is not BaseModel else ()
        if hint is not BaseModel:
            yield hint
            for field in get_type_hints(hint).values():
                yield from _within(field)


def _section(kind: type) -> str:
    """A class with a table of the fields that its base lacks or has otherwise."""
    schema = TypeAdapter(kind).json_schema(mode="serialization", ref_template="{model}")
    base = next((b for b in kind.__bases__ if b not in (object, BaseModel)), None)
    text = inspect.getdoc(kind) or ""
    meanings = {name: _in_markdown(meaning) for name, meaning in _FIELD.findall(text)}
    summary = _in_markdown(text.partition("\n\n")[0])
    has = f" It has the fields of {_link(base.__name__)}, and:" if base else ""
    rows = [
        f"| `{name}` | {_type(schema['properties'][name], schema)} | {meanings.get(name, '')} |\n"
        for name in inspect.get_annotations(kind)
        if name in schema["properties"]
    ]
    table = f"| field | is | meaning |\n| --- | --- | --- |\n{''.join(rows)}"
    return f"## `{kind.__name__}`\n\n{summary}{has}\n\n{table}"


def _type(field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """What JSON has, in words."""
    match field:
        case {"$ref": name}:
            target = schema["$defs"][name]
            return _link(name) if "properties" in target else _type(target, schema)
        case {"anyOf": options}:
            return " or ".join(_type(option, schema) for option in options)
        case {"enum": values}:
            return ", ".join(f"`{value}`" for value in values)
        case {"prefixItems": items}:
            return f"list: {', '.join(item['title'].lower() for item in items)}"
        case {"type": "array", "items": item}:
            of_item = _type(item, schema)
            return f"list of ({of_item})" if " or " in of_item else f"list of {of_item}"
        case {"type": "object", "additionalProperties": value}:
            return f"object: name to {_type(value, schema)}"
    return _WORDS.get(field["type"], field["type"])


def _link(name: str) -> str:
    return f"[`{name}`](#{name.lower()})"


def _in_markdown(text: str) -> str:
    line = " ".join(text.split()).replace("``", "`").replace("|", "\\|")
    return re.sub(r"\bNone\b", "null", line)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
