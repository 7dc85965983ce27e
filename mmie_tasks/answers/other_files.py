"""Names the fields of another tool's file, and writes the Python that turns it into `id, answer`.

Fields are recognised by their names, in any table and at any depth of JSON. No tool has a reader of
its own.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TypeAlias
from zipfile import BadZipFile

_FieldPath: TypeAlias = tuple[str | int, ...]

UNREADABLE = (OSError, ValueError, LookupError, EOFError, RecursionError, BadZipFile, zlib.error)
"""The exceptions that damaged files raise."""

_AS_TEXT = {"dtype": "str", "keep_default_na": "False"}
_TABLES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    ".csv": ("read_csv", _AS_TEXT),
    ".tsv": ("read_csv", {"sep": r"'\t'", **_AS_TEXT}),
    ".xlsx": ("read_excel", _AS_TEXT),
    ".parquet": ("read_parquet", {}),
}
_VALUES = {"str": str, "False": False, r"'\t'": "\t"}
_IDS = ("custom_id", "sample_id", "question_id", "id", "index", "idx", "uid", "key")
_ANSWERS = (
    *("prediction", "predict", "predicted", "pred", "response", "output", "completion"),
    *("generation", "generated", "reply", "result", "content", "answer", "text"),
)
_NOT_OF_THE_MODEL = (
    *("question", "prompt", "input", "request", "instruction", "messages", "gold", "target"),
    *("reference", "label", "truth", "reason", "think", "thought", "error", "metadata"),
)
_SHOWN_FIELDS = 20


def is_other_kind(path: Path) -> bool:
    """Whether a file is a table or compressed, by its suffix."""
    return path.suffix in (*_TABLES, ".gz") and path.is_file()


@dataclass(frozen=True, slots=True)
class OtherFile:
    """The records of a file, and the Python expression that reads them."""

    records: Sequence[Mapping[str, object]]
    expression: str

    @classmethod
    def opened(cls, path: Path) -> OtherFile:
        """Read CSV, TSV, XLSX, Parquet, JSON or JSONL by the suffix; ``.gz`` may follow it.

        Raises:
            UNREADABLE: One of these exceptions: the file is damaged or has another format.
            ImportError: pandas needs another package for this format.
        """
        reader, options = _TABLES.get(Path(path.name.removesuffix(".gz")).suffix, ("", {}))
        if reader:
            import pandas as pd

            values = {name: _VALUES[value] for name, value in options.items()}
            table = getattr(pd, reader)(path, **values)
            words = [repr(str(path)), *(f"{name}={value}" for name, value in options.items())]
            call = f"pandas.{reader}({', '.join(words)})"
            rows = json.loads(table.to_json(orient="records"))
            return cls(rows, f"json.loads({call}.to_json(orient='records'))")
        content, text = path.read_bytes(), f"pathlib.Path({str(path)!r}).read_bytes()"
        if path.suffix == ".gz":
            content, text = gzip.decompress(content), f"gzip.decompress({text})"
        return cls._json(content.decode("utf-8-sig"), f"{text}.decode('utf-8-sig')")

    @classmethod
    def _json(cls, text: str, expression: str) -> OtherFile:
        try:
            value = json.loads(text)
        except ValueError:
            lines = [json.loads(line) for line in text.split("\n") if line.strip()]
            split = f"{expression}.split('\\n')"
            return cls(_objects(lines), f"[json.loads(line) for line in {split} if line.strip()]")
        whole = f"json.loads({expression})"
        if not isinstance(value, dict):
            return cls(_objects(value), whole)
        for name, part in value.items():
            if records := _objects(part):
                return cls(records, f"{whole}[{name!r}]")
        if records := _objects([*value.values()]):
            keyed = [{"key": key, **record} for key, record in zip(value, records, strict=True)]
            return cls(keyed, f"[{{'key': key, **value}} for key, value in {whole}.items()]")
        return cls([value], f"[{whole}]")

    @property
    def fields(self) -> str:
        """The names of the fields, for messages; empty without records."""
        names = list(dict.fromkeys(name for record in self.records for name in record))
        more = f" and {len(names) - _SHOWN_FIELDS} more" if len(names) > _SHOWN_FIELDS else ""
        return ", ".join(f"`{name}`" for name in names[:_SHOWN_FIELDS]) + more

    @property
    def code(self) -> str:
        """Two lines of Python that write ``answers.jsonl``; empty unless both fields are found."""
        id_path, answer_path = self._id_path(), self._answer_path()
        if not id_path or not answer_path:
            return ""
        modules = [name for name in ("gzip", "pandas") if f"{name}." in self.expression]
        line = f"{{'id': r{_subscripts(id_path)}, 'answer': r{_subscripts(answer_path)}}}"
        return (
            f"import {', '.join([*modules, 'json', 'pathlib'])}; records = {self.expression}\n"
            f"pathlib.Path('answers.jsonl').write_text(''.join(json.dumps({line}) + '\\n' "
            f"for r in records{self._condition(answer_path)}))"
        )

    def _id_path(self) -> _FieldPath | None:
        """The outermost field that is named like an id and differs in all records."""
        paths = {
            path: None
            for record in self.records
            for path, value in _leaves(record)
            if isinstance(value, str | int) and not isinstance(value, bool)
            if _last_name(path) in _IDS or _last_name(path).endswith("_id")
            if _last_name(path) != "doc_id"  # the runner's number of a row
        }

        def rank(path: _FieldPath) -> tuple[int, int]:
            name = _last_name(path)
            return len(path), _IDS.index(name) if name in _IDS else len(_IDS)

        for path in sorted(paths, key=rank):
            values = {str(_value(record, path)) for record in self.records}
            if len(values) == len(self.records):
                return path
        return None

    def _answer_path(self) -> _FieldPath | None:
        """The text whose name is most like that of a model's answer."""
        ranks = {
            path: min(rank)
            for record in self.records
            for path, value in _leaves(record)
            if isinstance(value, str) and _last_name(path).rstrip("s").endswith(_ANSWERS)
            if not any(word in name for name in _names(path) for word in _NOT_OF_THE_MODEL)
            if (rank := [_ANSWERS.index(w) for w in _ANSWERS for n in _names(path) if w in n])
        }
        return min(ranks, key=lambda path: (ranks[path], -self._count(path)), default=None)

    def _count(self, path: _FieldPath) -> int:
        return sum(_value(record, path) is not None for record in self.records)

    @property
    def left_out(self) -> int:
        """How many records lack the answer that others have, such as failed requests."""
        path = self._answer_path()
        return len(self.records) - self._count(path) if path else 0

    def _condition(self, path: _FieldPath) -> str:
        """The Python condition that leaves out records without this field."""
        has_answer = [_value(record, path) is not None for record in self.records]
        if all(has_answer) or len(path) == 1:
            return ""
        condition = "r"
        for depth, name in enumerate(path, 1):
            if isinstance(name, int):
                break
            condition = f"({condition} or {{}}).get({name!r})" if depth > 1 else f"r.get({name!r})"
            if [bool(_value(record, path[:depth])) for record in self.records] == has_answer:
                break
        return f" if {condition}"


def _objects(value: object) -> list[Mapping[str, object]]:
    """The value if it is a list of objects; otherwise an empty list."""
    is_list = isinstance(value, list) and all(isinstance(entry, dict) for entry in value)
    return list(value) if is_list else []  # type: ignore[call-overload]  # checked


def _leaves(value: object, path: _FieldPath = ()) -> Iterator[tuple[_FieldPath, object]]:
    """Every text and number with its path; in lists, only the last entry counts."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _leaves(part, (*path, name))
    elif isinstance(value, list) and value:
        yield from _leaves(value[-1], (*path, -1))
    elif path:
        yield path, value


def _names(path: _FieldPath) -> list[str]:
    return [name.lower() for name in path if isinstance(name, str)]


def _last_name(path: _FieldPath) -> str:
    return _names(path)[-1] if _names(path) else ""


def _subscripts(path: _FieldPath) -> str:
    return "".join(f"[{name!r}]" for name in path)


def _value(record: object, path: _FieldPath) -> object:
    """The value at a path; None if the record has none."""
    try:
        return reduce(lambda value, name: value[name], path, record)  # type: ignore[index]
    except (LookupError, TypeError):
        return None
