"""The default system message, which belongs to the checkpoint and is not in our code.

The order is that of the official ``modeling_internvl_chat.py`` (OpenGVLab/InternVL since
2024-07-26): ``system_message`` of ``config.json`` replaces the template's in ``conversation.py``.
That file is only parsed; nothing in it is run.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

from mmie_tasks.judges.mmie_score.checkpoint.complaints import unusable
from mmie_tasks.judges.mmie_score.checkpoint.files import CONFIG, CONVERSATION, read_bytes

KEY = "system_message"
MAX_SOURCE_BYTES = 1024 * 1024  # the official file has some 15 KB

# What `mmie_tasks.judges.mmie_score.prompt` builds, field by field.
_LAYOUT = {
    "system_template": "<|system|>\n{system_message}",
    "roles": ("<|user|>\n", "<|assistant|>\n"),
    "sep": "<|end|>",
}
_STYLE = "SeparatorStyle.MPT"

_UNREADABLE = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError)


def in_config(config: dict[str, object]) -> bool:
    """Whether the message is in ``config.json``; an empty one is a message too."""
    return KEY in config


def read_message(folder: Path, config: dict[str, object], template: str) -> str:
    """The default system message.

    Args:
        folder: Of the checkpoint.
        config: Content of its ``config.json``.
        template: Name of the conversation template.

    Raises:
        JudgeMisconfigured: It is in neither place, is no text, or the template has another layout.
    """
    if in_config(config):
        return _text(config[KEY], f"`{KEY}` in `{folder / CONFIG}`")
    path = folder / CONVERSATION
    if not path.is_file():
        raise _nowhere(folder, f"there is no `{CONVERSATION}` beside it")
    calls = [fields for fields in _conversations(path) if _literal(fields.get("name")) == template]
    match calls:
        case []:
            raise _nowhere(folder, f"`{CONVERSATION}` beside it defines no template `{template}`")
        case [fields]:
            _check_layout(path, template, fields)
            message = fields.get(KEY)
            return "" if message is None else _text(_literal(message), f"`{KEY}` in `{path}`")
    raise unusable(f"`{path}` defines the template `{template}` {len(calls)} times.")


def _conversations(path: Path) -> Iterator[dict[str, ast.expr]]:
    """The named arguments of every ``Conversation(...)``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a stranger's escapes in strings
            nodes = list(ast.walk(ast.parse(read_bytes(path, MAX_SOURCE_BYTES))))
    except _UNREADABLE as error:
        raise unusable(f"`{path}` cannot be parsed as Python: {error}.") from error
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id="Conversation"), args=[]):
                yield {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}


def _check_layout(path: Path, template: str, fields: dict[str, ast.expr]) -> None:
    found: dict[str, object] = {name: _literal(fields.get(name)) for name in _LAYOUT}
    style = fields.get("sep_style")
    found["sep_style"] = None if style is None else ast.unparse(style)
    for name, expected in {**_LAYOUT, "sep_style": _STYLE}.items():
        if found[name] != expected:
            raise unusable(
                f"The template `{template}` in `{path}` has another layout than the judge's: "
                f"`{name}` is {found[name]!r}, and {expected!r} was expected."
            )


def _literal(node: ast.expr | None) -> object:
    """The value that is written there; None where there is none, or anything but a literal."""
    if node is None:
        return None
    try:
        value: object = ast.literal_eval(node)
    except _UNREADABLE:
        return None
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise unusable(f"{where} is no text, but a {type(value).__name__}.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise unusable(f"{where} is no text: {error}.") from error
    return value


def _nowhere(folder: Path, why: str) -> Exception:
    return unusable(
        f"No default system message was found: `{folder / CONFIG}` has no `{KEY}`, and {why}.",
        "download the whole repository, with "
        f"`{CONVERSATION}`, or add the official message as `{KEY}` to `{CONFIG}`",
    )
