"""Parses the arguments of ``--model interleaved``: the text of ``--model_args``, or a map in a file
for ``--config``. People write them in many ways; each is read, or the error says what is meant.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lmms_eval.models import MODEL_REGISTRY_V2
from lmms_eval.utils import simple_parse_args_string

from mmie_tasks.core.choice import Choice, option_text, parse_choice, split_options
from mmie_tasks.core.command import as_called
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import cache_dir
from mmie_tasks.http.extra_body import extra_fields, read_extra_body
from mmie_tasks.interleaved.protocols import STEP
from mmie_tasks.interleaved.registry import BUILT_IN
from mmie_tasks.record.model_name import model_name, run_name

HINT = "--model_args 'lvlm=MODEL:k=v;k=v,t2i=images:model=NAME;k=v' (or t2i=diffusers:model=ID)"
_CHAT_CLIENTS = ("openai", "async_openai")
_COMPUTED = (
    *("model", "reasoning_effort", "temperature", "max_tokens", "max_completion_tokens"),
    *("messages", "n", "stream", "response_format"),
)
"""Fields of a request that lmms-eval's chat clients set or rely on."""
_WRITER, _DRAWER = "lvlm", "t2i"
_NAMES = {
    "lvlm": _WRITER,
    "writer": _WRITER,
    "t2i": _DRAWER,
    "drawer": _DRAWER,
    "protocol": "protocol",
    "pictures": "pictures",
}
_BETWEEN = re.compile(rf"[,;]\s*(?=(?:{'|'.join(_NAMES)})\s*=)", re.IGNORECASE)
_COMPONENT = re.compile(r"([^\s,;:=]+)\s*[:;,]?(.*)", re.DOTALL)
_ALIKE, _ALIKE_IF_MISSING = 0.7, 0.6  # above any argument of a model of lmms-eval 0.7.3
_IN_PAIR = (
    *("size", "max_side_px", "quality", "steps", "guidance", "negative_prompt"),
    *("revision", "variant", "dtype"),
)
"""Options of drawers that change a picture, and are in a pair's name."""


_NOT_IN_NAMES = str.maketrans("/,;", "___")
"""Separators of paths and of the arguments of models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairArguments:
    """The checked arguments.

    Attributes:
        writer: Name of the writer in lmms-eval.
        writer_arguments: The writer's ``model_args``.
        added: ``reasoning_effort`` and ``extra_body`` of a chat client, which lmms-eval does not
            know; ``extra_body`` as `read_extra_body` returns it.
        drawer: For `interleaved.registry.open_drawer`.
        pictures: Folder of the pictures.
    """

    writer: str
    writer_arguments: Mapping[str, object]
    added: Mapping[str, str]
    drawer: Choice
    pictures: Path

    @property
    def pair(self) -> str:
        """The name for folders and tables, with the options that tell runs apart:
        ``gpt-4o + sdxl (steps=4)``.
        """
        options = dict(self.drawer.options)
        writer = run_name(model_name(self.writer, self.writer_arguments))
        drawer = run_name(model_name(self.drawer.name, options))
        if negative := options.get("negative_prompt"):
            options["negative_prompt"] = hashlib.sha256(negative.encode()).hexdigest()[:8]
        details = [
            *self.added_names,
            *(f"{key}={options[key]}" for key in _IN_PAIR if key in options),
        ]
        name = f"{writer} + {drawer}" + (f" ({' '.join(details)})" if details else "")
        return name.translate(_NOT_IN_NAMES)

    @property
    def added_names(self) -> list[str]:
        """The arguments of `added` in names and signatures; the body as a hash."""
        effort, body = self.added.get("reasoning_effort"), self.added.get("extra_body")
        digest = hashlib.sha256(body.encode()).hexdigest()[:8] if body else None
        values = {"reasoning_effort": effort, "extra_body": digest}
        return [f"{name}={value}" for name, value in values.items() if value]

    @property
    def request_fields(self) -> dict[str, object]:
        """The fields that are added to the body of every request to the writer."""
        return extra_fields(
            self.added.get("reasoning_effort", ""), self.added.get("extra_body", "")
        )


def split_arguments(model_args: str | Mapping[str, object] | None) -> dict[str, object]:
    """The arguments by name; ``writer`` and ``drawer`` are other names of ``lvlm`` and ``t2i``.

    In a text, the value of ``lvlm=`` or ``t2i=`` goes on to the next of these names, so commas and
    semicolons mean the same.

    Raises:
        SettingWrong: An argument is given twice.

    >>> split_arguments("lvlm=openai:model=a,timeout=9;drawer=images:b")
    {'lvlm': 'openai:model=a,timeout=9', 't2i': 'images:b'}
    """
    if isinstance(model_args, Mapping):
        pairs = [(str(name), value) for name, value in model_args.items()]
    else:
        texts = split_options(_unquoted(model_args or ""), _BETWEEN)
        pairs = [(text.partition("=")[0], text.partition("=")[2]) for text in filter(None, texts)]
    arguments: dict[str, object] = {}
    for name, value in pairs:
        known = _NAMES.get(name.strip().lower(), name.strip())
        if known in arguments:
            raise SettingWrong(f"The argument `{known}` is given twice.", hint=HINT)
        arguments[known] = _unquoted(value) if isinstance(value, str) else value
    return arguments


def parse_pair_arguments(arguments: Mapping[str, object]) -> PairArguments:
    """Check the arguments, named as by `split_arguments`; values are texts or maps.

    Raises:
        SettingWrong: An argument is unknown or missing, or has an invalid value.
    """
    if unknown := [name for name in arguments if name not in _NAMES.values()]:
        meant = _meant(unknown[:1], _NAMES, _ALIKE_IF_MISSING)
        raise SettingWrong(
            f"The model `interleaved` has no argument `{unknown[0]}`.", hint=f"{meant}{HINT}"
        )
    writer = _component(arguments.get(_WRITER), _WRITER)
    drawer = _component(arguments.get(_DRAWER), _DRAWER)
    if writer is None or drawer is None:
        options = [key for part in (writer, drawer) if part for key in part.options]
        meant = _meant(options, [_DRAWER if writer else _WRITER], _ALIKE_IF_MISSING)
        raise SettingWrong(
            "The model `interleaved` needs a writer, `lvlm=`, and a drawer, `t2i=`.",
            hint=f"{meant}{HINT}",
        )
    for part in (writer, drawer):
        if meant := _meant(part.options, _NAMES, _ALIKE):
            raise SettingWrong(
                f"`{part.name}` gets what is an argument of `interleaved`.", hint=f"{meant}{HINT}"
            )
    protocol = str(arguments.get("protocol") or STEP.name).strip().lower()
    if protocol != STEP.name:
        raise SettingWrong(
            f"There is no protocol `{protocol}`.", hint=f"leave it out: `{STEP.name}`"
        )
    choice = _drawer_choice(drawer)
    _check_writer(writer.name)
    added = _added(writer)
    pictures = str(arguments.get("pictures") or cache_dir(os.environ) / "pictures")
    return PairArguments(
        writer=writer.name,
        writer_arguments={k: v for k, v in writer.options.items() if k not in added},
        added=added,
        drawer=choice,
        pictures=Path(pictures).expanduser().absolute(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Component:
    """A writer or a drawer; the values of its options are the user's."""

    name: str
    options: Mapping[str, object]


def _component(value: object, argument: str) -> _Component | None:
    """A component from ``NAME:k=v;k=v``, or from a map with ``name``; None without a value."""
    if isinstance(value, Mapping):
        options = {str(key): option for key, option in value.items()}
        if (name := options.pop("name", None)) is None:
            hint = "`name: openai`, then its options, such as `model: gpt-4o`"
            raise SettingWrong(f"The map `{argument}` has no `name`.", hint=hint)
        return _Component(name=str(name), options=options)
    match = _COMPONENT.fullmatch(str(value or "").strip())
    if match is None:
        return None
    name, rest = match[1], ",".join(split_options(match[2], re.compile(";"))).strip(" ,")
    if argument == _DRAWER:
        options = dict(parse_choice(f"{name}:{rest}", "`t2i`", "drawer").options)
        return _Component(name=name, options=options)
    try:
        return _Component(name=name, options=simple_parse_args_string(rest))
    except ValueError:  # a part without `=`
        first = rest.partition(",")[0]
        key = "pretrained" if "/" in first else "model"
        raise SettingWrong(
            f"`lvlm={name}:` is followed by `{first}`, which is not `k=v`.",
            hint=f"`lvlm={name}:{key}={first}`, as its `--model_args` alone",
        ) from None


def _added(writer: _Component) -> dict[str, str]:
    """The options of `PairArguments.added`; an empty text is the default."""
    if writer.name not in _CHAT_CLIENTS:
        return {}
    names = writer.options.keys() & {"reasoning_effort", "extra_body"}
    given = {name: writer.options[name] for name in sorted(names)}
    added = {
        name: "" if value is None else option_text(value).strip() for name, value in given.items()
    }
    if "extra_body" in added:
        try:
            added["extra_body"] = read_extra_body(added["extra_body"], _COMPUTED)
        except ValueError as error:
            raise SettingWrong(f"The writer cannot be used: {error}.", hint=HINT) from None
    return added


def _check_writer(name: str) -> None:
    names = [known for known in MODEL_REGISTRY_V2.list_model_names() if known != "interleaved"]
    if name not in names:
        raise SettingWrong(
            f"The writer `{name}` is not a model of lmms-eval.", hint=_writer_hint(name, names)
        )


def _writer_hint(name: str, names: Iterable[str]) -> str:
    plain = re.sub(r"\W+", "_", name.rpartition("/")[2]).lower()
    similar = [known for known in names if plain.startswith(known)][-1:]
    if "/" in name:
        model = similar[0] if similar else "MODEL"
        return f"`lvlm={model}:pretrained={name}`; all models: `{as_called('lmms-eval models')}`"
    similar = difflib.get_close_matches(plain, names, n=5, cutoff=0.4)
    listed = ", ".join(f"`{close}`" for close in similar)
    start = f"similar names: {listed}; " if listed else ""
    all_models = as_called("lmms-eval models")
    return f"{start}of a server: `lvlm=openai:model={name}`; all: `{all_models}`"


def check_writer_arguments(model: type, arguments: Iterable[str]) -> None:
    """Raise `SettingWrong` for a misspelt argument, which the writer's class would ignore."""
    makers = [vars(base)["__init__"] for base in model.__mro__[:-1] if "__init__" in vars(base)]
    names = {name for maker in makers for name in inspect.signature(maker).parameters}
    for argument in arguments:
        if argument not in names and (near := difflib.get_close_matches(argument, names, 1, 0.8)):
            raise SettingWrong(
                f"The writer has no argument `{argument}`.", hint=f"did you mean `{near[0]}`?"
            )


def _drawer_choice(drawer: _Component) -> Choice:
    """The drawer with its options as texts; blanks separate the values of a list."""
    name = drawer.name
    if name not in BUILT_IN:
        kind = "diffusers" if "/" in name else "images"
        raise SettingWrong(
            f"There is no drawer `{name}`.",
            hint=f"one of {', '.join(BUILT_IN)}; of a model `t2i={kind}:{name}`",
        )
    options = {
        key: " ".join(map(str, value)) if isinstance(value, list) else str(value)
        for key, value in drawer.options.items()
    }
    return Choice(name=name, options=options, source="`t2i`")


def _meant(given: Iterable[str], names: Iterable[str], cutoff: float) -> str:
    """The beginning of a hint with the name that is meant, if one is similar."""
    near = (difflib.get_close_matches(name.lower(), names, 1, cutoff) for name in given)
    return next((f"did you mean `{match[0]}=`? " for match in near if match), "")


def _unquoted(text: str) -> str:
    text = text.strip()
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text
