"""The templates of MMIE's judge: the official ones, or the user's.

No official prompt is in this repository: the official file is identified by its SHA-256, parsed
with `ast`, and never run.
"""

from __future__ import annotations

import ast
import functools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

from pydantic import ValidationInfo, field_validator

from mmie_tasks.benchmarks.other_prompts import StrictModel, other_name, read_other_prompts
from mmie_tasks.core.errors import DataBroken
from mmie_tasks.core.files import cache_dir
from mmie_tasks.hub.asset import Asset, Check, local_asset
from mmie_tasks.hub.pinned_file import Pin, pinned_asset

COMMIT = "eb0fd6ecf14576760b5c3deb95c47579cf0cc36e"

OFFICIAL = Pin(
    name="MMIE's official judge prompts",
    url=f"https://raw.githubusercontent.com/Lillianwei-h/MMIE/{COMMIT}/prompts.py",
    size_bytes=8204,
    sha256="ed1e1a14a4e356755c249eebbab53c6c2ff27850c3a741639eff06c1c57cfb0b",
    local="name, with `--judge_args prompts=FILE.py`,",
)


FIELDS: Mapping[str, frozenset[str]] = {
    "SA": frozenset({"question", "answer"}),
    "PBL": frozenset({"question", "answer"}),
    "MSR": frozenset({"question", "answer", "gt_answer"}),
}
"""Category to the fields of its template; only MSR's has a reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """The template of each category.

    Attributes:
        texts: Category to a template with the fields of `FIELDS`.
        official: Whether the templates are MMIE's own.
        name: Name in the signature: ``official@eb0fd6e``, or ``other:`` and 12 hex digits of a
            hash.
    """

    texts: Mapping[str, str]
    official: bool
    name: str


def judge_templates(prompts: Path | None) -> Templates:
    """The judge's templates: those of a file, else MMIE's own; read once per process.

    Args:
        prompts: A copy of the official ``prompts.py``, or a JSON file with the keys SA, PBL and
            MSR. Scores made with the latter are not MMIE's.

    Raises:
        SettingWrong: The other templates are unusable.
        DataMissing: The official file is not available; nothing is ever used in its place.
        DataBroken: The copy is not the official file.
    """
    return _templates(prompts, str(_cache_path(os.environ)))


@functools.lru_cache(maxsize=4)
def _templates(prompts: Path | None, _cached: str) -> Templates:
    if prompts is None or prompts.suffix == ".py":
        texts = parse(prompts_file(os.environ, prompts).decode())
        return Templates(texts=texts, official=True, name=f"official@{COMMIT[:7]}")
    path, content = prompts.expanduser(), "one template each for SA, PBL and MSR"
    texts = read_other_prompts(path, _OtherTemplates, content).model_dump()
    hashed = json.dumps(texts, sort_keys=True).encode()
    return Templates(texts=texts, official=False, name=other_name("MMIE", path, hashed))


class _OtherTemplates(StrictModel):
    SA: str
    PBL: str
    MSR: str

    @field_validator("*")
    @classmethod
    def _has_its_fields(cls, text: str, info: ValidationInfo) -> str:
        fields = FIELDS[str(info.field_name)]
        used = [field for field in Formatter().parse(text) if field[1] is not None]
        is_bare = not any(spec or conversion for _, _, spec, conversion in used)
        if {name for _, name, _, _ in used} != fields or not is_bare:
            raise ValueError(f"its fields are not exactly {', '.join(sorted(fields))}")
        return text


def prompts_file(
    environment: Mapping[str, str], copy: Path | None = None, pin: Pin = OFFICIAL
) -> bytes:
    """The bytes of the official file: a local copy, the cached file, or a download, cached as
    ``mmie/prompts-eb0fd6e.py`` below `mmie_tasks.core.files.cache_dir`.

    Raises:
        DataBroken: The local copy does not exist, or is another file.
        DataMissing: The download failed, or ``HF_HUB_OFFLINE`` forbids it.
    """
    if copy is None:
        return pin.fetch(_cache_path(environment), environment)
    if (content := pin.read(path := copy.expanduser())) is None:
        raise DataBroken(
            f"`prompts` is `{path}`, which is not MMIE's official `prompts.py`: a file with the "
            f"SHA-256 {pin.sha256[:12]}….",
            hint=f"copy {pin.url} there, byte for byte, or leave `prompts=` out; other prompts are "
            "a JSON file",
        )
    return content


def _cache_path(environment: Mapping[str, str]) -> Path:
    return cache_dir(environment) / "mmie" / f"prompts-{COMMIT[:7]}.py"


def parse(source: str) -> dict[str, str]:
    """Read category to template from Python source of the official form, without running it.

    The form (``prompts.py`` at eb0fd6e): ``NAME = "rubric"`` in the module, and ``get_prompt`` with
    a chain of ``if "SA" in data_id: return NAME + "tail"``.
    """
    rubrics: dict[str, str] = {}
    official: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):  # breadth first: constants before their uses
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                rubrics[name] = text
            case ast.If(
                test=ast.Compare(left=ast.Constant(value=str(category)), ops=[ast.In()]),
                body=[
                    ast.Return(
                        value=ast.BinOp(ast.Name(id=name), ast.Add(), ast.Constant(str(tail)))
                    )
                ],
            ) if name in rubrics:
                official[category] = rubrics[name] + tail
    return official


def prompts_asset(
    environment: Mapping[str, str], prompts: Path | None, describe: Callable[[], str]
) -> Asset:
    """The judge's templates; `describe` checks them (see `Check`)."""
    name = "mmie: judge prompts"
    if local := local_asset(name, "prompts", prompts, (Check(subject=name, describe=describe),)):
        return local
    source = f"Lillianwei-h/MMIE@{COMMIT}: prompts.py"
    return pinned_asset(name, source, {_cache_path(environment): OFFICIAL}, environment, describe)
