"""The templates of MMIE's judge: the official ones, or the user's.

Our files hold no official prompt: the official file is identified by its SHA-256, read as data,
with `ast`, and never run.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

from loguru import logger

from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.core.files import cache_dir, json_problem
from mmie_tasks.hub.asset import Asset, DownloadPlan, data_asset
from mmie_tasks.hub.pinned_file import Pin, RetryPolicy, cached_bytes, pinned_bytes

_TEMPLATE_VARIABLES = ("MMIE_PROMPTS", "MMIE_OTHER_PROMPTS", "MMIE_TASKS_CACHE")

COMMIT = "eb0fd6ecf14576760b5c3deb95c47579cf0cc36e"

OFFICIAL = Pin(
    name="MMIE's official judge prompts",
    url=f"https://raw.githubusercontent.com/Lillianwei-h/MMIE/{COMMIT}/prompts.py",
    size_bytes=8204,
    sha256="ed1e1a14a4e356755c249eebbab53c6c2ff27850c3a741639eff06c1c57cfb0b",
    local="set `MMIE_PROMPTS` to",
)


FIELDS: Mapping[str, frozenset[str]] = {
    "SA": frozenset({"question", "answer"}),
    "PBL": frozenset({"question", "answer"}),
    "MSR": frozenset({"question", "answer", "gt_answer"}),
}
"""Category to the fields of its template; only MSR's has a reference."""

_MOST_BYTES = 1024 * 1024  # of a file with other prompts


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """The template of each category.

    Attributes:
        texts: ``SA``, ``PBL`` and ``MSR`` to a template with the fields of `FIELDS`.
        official: Whether they are MMIE's own.
        name: For the signature: ``official@eb0fd6e``, or ``other:`` and 12 hex digits of a hash.
    """

    texts: Mapping[str, str]
    official: bool
    name: str


def judge_templates() -> Templates:
    """The templates that the environment selects, read once per process."""
    variables = {name: os.environ[name] for name in _TEMPLATE_VARIABLES if name in os.environ}
    return _templates(str(cache_dir(os.environ)), tuple(sorted(variables.items())))


@functools.lru_cache(maxsize=4)
def _templates(_cache: str, _variables: tuple[tuple[str, str], ...]) -> Templates:
    return templates(os.environ)


def templates(environment: Mapping[str, str]) -> Templates:
    """The judge's templates.

    Args:
        environment: ``MMIE_OTHER_PROMPTS`` names a JSON file with the keys SA, PBL and MSR, whose
            templates replace MMIE's: scores made with them are not MMIE's. Otherwise the official
            ones; see `prompts_file` for its variables.

    Raises:
        SettingWrong: Two settings contradict each other, or the other templates are unusable.
        DataMissing: The official file is not available. Nothing is ever taken in its place.
        DataBroken: A file is not the official one.
    """
    if other := environment.get("MMIE_OTHER_PROMPTS"):
        if environment.get("MMIE_PROMPTS"):
            raise SettingWrong(
                "`MMIE_PROMPTS` and `MMIE_OTHER_PROMPTS` are both set, but exclude each other.",
                hint="unset `MMIE_OTHER_PROMPTS` to judge with MMIE's own prompts",
            )
        return _other_templates(Path(other).expanduser())
    return Templates(
        texts=parse(prompts_file(environment).decode()),
        official=True,
        name=f"official@{COMMIT[:7]}",
    )


def prompts_file(
    environment: Mapping[str, str], pin: Pin = OFFICIAL, retry: RetryPolicy | None = None
) -> bytes:
    """The bytes of the official file: a local copy, the cached file, or a download.

    It is cached as ``mmie/prompts-eb0fd6e.py`` below `mmie_tasks.core.files.cache_dir`.

    Args:
        environment: ``MMIE_PROMPTS`` names a local copy. With ``HF_HUB_OFFLINE`` nothing is
            downloaded.
        pin: The file.
        retry: How often and how long the download is tried.

    Raises:
        DataBroken: The local copy is another file.
        DataMissing: The local copy does not exist, or the file could not be downloaded.
    """
    if local := environment.get("MMIE_PROMPTS"):
        return _local(Path(local).expanduser(), pin)
    return pinned_bytes(pin, _cache_path(environment), environment, retry)


def cached_file(environment: Mapping[str, str], pin: Pin = OFFICIAL) -> bytes | None:
    """The bytes in our cache; None if there are none, or other ones."""
    return cached_bytes(pin, _cache_path(environment))


def _cache_path(environment: Mapping[str, str]) -> Path:
    return cache_dir(environment) / "mmie" / f"prompts-{COMMIT[:7]}.py"


def _local(path: Path, pin: Pin) -> bytes:
    hint = f"copy {pin.url} there, byte for byte, or unset `MMIE_PROMPTS`"
    try:
        content = pin.read(path)
    except OSError as error:
        raise DataMissing(
            f"`MMIE_PROMPTS` is `{path}`, which cannot be read: {error.strerror}.", hint=hint
        ) from error
    if pin.holds(content):
        return content
    expected = "the official one"
    if pin.holds(content.replace(b"\r\n", b"\n")):
        expected += ", whose lines end in LF and not in CR LF"
    raise DataBroken(
        f"`MMIE_PROMPTS` is `{path}`, which is not MMIE's official `prompts.py`: its SHA-256 is "
        f"{hashlib.sha256(content).hexdigest()[:12]}…, and {pin.sha256[:12]}… is {expected}.",
        hint=f"{hint}; for other prompts there is `MMIE_OTHER_PROMPTS`",
    )


def parse(source: str) -> dict[str, str]:
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
    rubrics: dict[str, str] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                rubrics[name] = text
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    chains = [ast.walk(node) for node in functions if node.name == "get_prompt"]
    official: dict[str, str] = {}
    for branch in chains[0] if len(chains) == 1 else ():  # in their order in the file
        match branch:
            case ast.If(
                test=ast.Compare(left=ast.Constant(value=str(category)), ops=[ast.In()]),
                body=[
                    ast.Return(value=ast.BinOp(ast.Name(id=name), ast.Add(), ast.Constant(tail)))
                ],
            ) if name in rubrics and isinstance(tail, str):
                official[category] = rubrics[name] + tail
    if list(official) != list(FIELDS):
        raise _not_official(f"`get_prompt` has templates of {', '.join(official) or 'no category'}")
    return official


def _not_official(problem: str) -> DataBroken:
    return DataBroken(
        f"MMIE's judge prompts are not those of {COMMIT[:7]}: {problem}.",
        hint=f"take the file from {OFFICIAL.url}",
    )


def _other_templates(path: Path) -> Templates:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        texts = json.loads(content.decode()) if len(content) <= _MOST_BYTES else None
    except OSError as error:
        raise _unusable(path, f"it cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"it is not JSON ({json_problem(error)})") from error
    if not isinstance(texts, dict) or set(texts) != set(FIELDS):
        raise _unusable(path, f"it is not a JSON object with the keys {', '.join(FIELDS)}")
    for category, text in texts.items():
        if problem := _template_problem(text, FIELDS[category]):
            raise _unusable(path, f"`{category}` {problem}")
    digest = hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:12]
    logger.warning(
        f"MMIE is judged with the prompts in `{path}`, not with its own: no score of this run is"
        f" comparable with the paper's. The signature says `other:{digest}`."
    )
    return Templates(texts=texts, official=False, name=f"other:{digest}")


def _template_problem(text: object, fields: frozenset[str]) -> str:
    """The problem of a template; empty if there is none."""
    if not isinstance(text, str):
        return "is not text"
    try:
        used = [(n, s, c) for _, n, s, c in Formatter().parse(text) if n is not None]
    except ValueError as error:
        return f"is no template: {error}"
    names = {name for name, _, _ in used}
    if names != fields or any(spec or conversion for _, spec, conversion in used):
        required, present = (", ".join(f"{{{f}}}" for f in sorted(s)) for s in (fields, names))
        return f"must have exactly the fields {required}, bare, and has {present or 'none'}"
    return ""


def _unusable(path: Path, problem: str) -> SettingWrong:
    return SettingWrong(
        f"`MMIE_OTHER_PROMPTS` is `{path}`: {problem}.",
        hint="name a JSON file with one template each for SA, PBL and MSR, or unset it to judge "
        "with MMIE's own prompts",
    )


def prompts_asset(environment: Mapping[str, str], describe: Callable[[], str]) -> Asset:
    """The judge's templates; `describe` checks them (see `Check`)."""
    source = f"Lillianwei-h/MMIE@{COMMIT}: prompts.py"

    return data_asset(
        name="mmie: judge prompts",
        variables=["MMIE_OTHER_PROMPTS", "MMIE_PROMPTS"],
        source=source,
        is_here=lambda: cached_file(environment) is not None,
        plan=lambda: DownloadPlan(source=source, file_bytes=(OFFICIAL.size_bytes,)),
        fetch=lambda: f"{templates(environment).name} is here",
        environment=environment,
        describe=describe,
    )
