"""The judge's instructions: MMIE's own, or, where asked for by name, others.

Our files hold none of them. The official file is read as data, with `ast`, and never run; what is
read is compared with the hashes below.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

from loguru import logger

from mmie_tasks.errors import DataBroken, SettingWrong
from mmie_tasks.sources.mmie_prompts_file import COMMIT, OFFICIAL, prompts_file

FIELDS: Mapping[str, frozenset[str]] = {
    "SA": frozenset({"question", "answer"}),
    "PBL": frozenset({"question", "answer"}),
    "MSR": frozenset({"question", "answer", "gt_answer"}),
}
"""Category to the fields of its template; only MSR's judge is shown a reference."""

_MOST_BYTES = 1024 * 1024  # of a file with other words


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """What the judge is told, for each category.

    Attributes:
        texts: ``SA``, ``PBL`` and ``MSR`` to a template with the fields of `FIELDS`.
        official: Whether the words are MMIE's.
        name: For the signature: ``official@eb0fd6e``, or ``other:`` and 12 hex digits of a hash.
    """

    texts: Mapping[str, str]
    official: bool
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A template as the official file has it: instructions, and what follows them."""

    rubric: str
    tail: str

    @property
    def template(self) -> str:
        """Both; nothing stands between them."""
        return self.rubric + self.tail


_OF_TWO = "6c3daf6e020239fc1f8e6ccd92111b9a4560a8b9ba29c585a678afb94e2aef37"

# Category to the SHA-256 of rubric, tail and template.
FINGERPRINTS: Mapping[str, tuple[str, str, str]] = {
    "SA": (
        "9e29bd376367a88051001c1592bd75851fda68326c7ea762bb79170c080331a3",
        _OF_TWO,
        "e49cdc6b2562f7c4e3bd991604b58da6ffade636e41475f699dcccf70a54c32e",
    ),
    "PBL": (
        "b80214d31c9c25c5ed00d62a990bf422cf2bee304bd6dd29c328692b4b889d49",
        _OF_TWO,
        "c7d412eea004ba231ec61b9a0ccea9838b1a0d546ef5eb6e6a7fe8133317ead7",
    ),
    "MSR": (
        "72bc495ec21b8c185bee68c351981dbc9a041aee2ba1c27bd287caa9099a9681",
        "d1570f91279a70dd8bb7778996d30d48221e8aa46527b3ae70704b28533f76e0",
        "2af55d36a90e680764061b912ca3fa9f58103b0037b60ee827079a7289d22ddb",
    ),
}


def templates(environment: Mapping[str, str]) -> Templates:
    """The templates a run judges with.

    Args:
        environment: ``MMIE_OTHER_PROMPTS`` names a JSON file with the keys SA, PBL and MSR whose
            words are taken instead of MMIE's: no number made with them is MMIE's. Without it the
            official ones; see `mmie_tasks.sources.mmie_prompts_file.prompts_file` for what that
            reads.

    Raises:
        SettingWrong: Two settings contradict each other, or the other words cannot be used.
        DataMissing: The official file cannot be had. Nothing is ever taken in its place.
        DataBroken: A file is not the official one.
    """
    if other := environment.get("MMIE_OTHER_PROMPTS"):
        if environment.get("MMIE_PROMPTS"):
            raise SettingWrong(
                "`MMIE_PROMPTS` and `MMIE_OTHER_PROMPTS` are both set, and only one can be meant.",
                hint="unset `MMIE_OTHER_PROMPTS` to judge with MMIE's own words",
            )
        return _others(Path(other).expanduser())
    found = parse(prompts_file(environment).decode())
    check(found)
    texts = {category: parts.template for category, parts in found.items()}
    return Templates(texts=texts, official=True, name=f"official@{COMMIT[:7]}")


def parse(source: str) -> dict[str, Parts]:
    """Read category to template from Python source of the official form, without running it.

    The form (``prompts.py`` at eb0fd6e): module-level ``NAME = "rubric"``, and ``get_prompt`` with
    one chain of ``if "SA" in data_id: return NAME + "tail"``.

    Raises:
        DataBroken: It has another form.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _not_official(f"it cannot be parsed ({type(error).__name__})") from error
    rubrics = dict(_constants(tree))
    found = {}
    for category, name, tail in _branches(tree):
        if name not in rubrics or category in found:
            raise _not_official(f"`get_prompt` is not as expected at {category!r}")
        found[category] = Parts(rubric=rubrics[name], tail=tail)
    if list(found) != list(FIELDS):
        raise _not_official(f"`get_prompt` knows {', '.join(found) or 'no category'}")
    return found


def check(found: Mapping[str, Parts]) -> None:
    """Make sure that what was read is official, text by text.

    Raises:
        DataBroken: It is not.
    """
    for category, expected in FINGERPRINTS.items():
        parts = found[category]
        if (_sha256(parts.rubric), _sha256(parts.tail), _sha256(parts.template)) != expected:
            raise _not_official(f"the text for {category} is another")


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, text


def _branches(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Token, name of the rubric and tail of each branch of ``get_prompt``, in order."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name="get_prompt", body=[ast.If() as first]):
                chain: list[ast.stmt] = [first]
                while chain and isinstance(branch := chain[0], ast.If):
                    yield _branch(branch)
                    chain = branch.orelse


def _branch(branch: ast.If) -> tuple[str, str, str]:
    match branch:
        case ast.If(
            test=ast.Compare(left=ast.Constant(value=str(token)), ops=[ast.In()]),
            body=[
                ast.Return(
                    value=ast.BinOp(
                        left=ast.Name(id=name), op=ast.Add(), right=ast.Constant(value=str(tail))
                    )
                )
            ],
        ):
            return token, name, tail
    raise _not_official(f"line {branch.lineno} is not as expected")


def _not_official(what: str) -> DataBroken:
    return DataBroken(
        f"MMIE's judge prompts are not those of {COMMIT[:7]}: {what}.",
        hint=f"take the file from {OFFICIAL.url}",
    )


def _others(path: Path) -> Templates:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        texts = json.loads(content.decode()) if len(content) <= _MOST_BYTES else None
    except OSError as error:
        raise _unusable(path, f"it cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"it is not JSON ({error})") from error
    if not isinstance(texts, dict) or set(texts) != set(FIELDS):
        raise _unusable(path, f"it is no JSON object with the keys {', '.join(FIELDS)}")
    for category, text in texts.items():
        if wrong := _wrong(text, FIELDS[category]):
            raise _unusable(path, f"`{category}` {wrong}")
    digest = _sha256(json.dumps(texts, sort_keys=True))[:12]
    logger.warning(
        f"MMIE is judged with the words of `{path}`, not with its own: no number of this run can be"
        f" compared with the paper's. The signature says `other:{digest}`."
    )
    return Templates(texts=texts, official=False, name=f"other:{digest}")


def _wrong(text: object, fields: frozenset[str]) -> str:
    """What is wrong with a template; empty where nothing is."""
    if not isinstance(text, str):
        return "is not text"
    try:
        placed = [(n, s, c) for _, n, s, c in Formatter().parse(text) if n is not None]
    except ValueError as error:
        return f"is no template: {error}"
    names = {name for name, _, _ in placed}
    if names != fields or any(spec or conversion for _, spec, conversion in placed):
        wanted, found = (", ".join(f"{{{f}}}" for f in sorted(s)) for s in (fields, names))
        return f"must have exactly the fields {wanted}, bare, and has {found or 'none'}"
    return ""


def _unusable(path: Path, why: str) -> SettingWrong:
    return SettingWrong(
        f"`MMIE_OTHER_PROMPTS` is `{path}`: {why}.",
        hint="name a JSON file with one template each for SA, PBL and MSR, or unset it to judge "
        "with MMIE's own words",
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
