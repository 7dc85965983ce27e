"""Checks that the model that replied is the requested judge model.

Providers route a retired name to another model, gateways fall back, and routers choose. The only
trace is the name in the reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from mmie_tasks.record.signature import Signature

_PATH = re.compile(
    r"(?:[/\\]|~[/\\]|\.{1,2}[/\\]|[a-z]:[/\\]).*|.*\\.*|.*\.(?:gguf|safetensors|bin|pth?)",
    re.DOTALL,
)
_BEDROCK_VERSION = re.compile(r"-v\d+:\d.*")  # anthropic.claude-...-v1:0
_POINT = re.compile(r"(?<=\d)p(?=\d)")  # Fireworks: qwen2p5
_VERSION_LETTER = re.compile(r"(?<![a-z0-9])v(?=\d)")  # and llama-v3
_SEPARATOR = re.compile(r"[\s_@]+|(?<=[a-z])\.(?=[a-z])|-{2,}")
_SNAPSHOT = re.compile(
    r"-(?:latest"
    r"|20\d\d-?[01]\d(?:-?[0-3]\d)?"  # 2024-11-20, 20250929
    r"|[01]\d-20\d\d"  # 09-2025
    r"|[01]\d-[0-3]\d"  # 05-06
    r"|[0-3]\d[0-3]\d"  # 0613, and 2411 for November 2024
    r"|\d{6}"  # 250115
    r"|0\d\d"  # Gemini's 002
    r")(?=-|$)"
)
_VERSION = re.compile(r"(?<=-)(\d)-(\d)(?=-|$)")  # claude-3-5
_NUMBERED = re.compile(r"[a-z]-?\d|router")
_SIZES = {"mini", "nano", "pro", "turbo"}  # words of OpenAI's names for other sizes
_UNNAMED = ("gpt", "3.5", "turbo")
_IN_PROCESS = "mmie_score"
_AZURE = (".azure.com", ".azure.us", ".azure.cn")


@dataclass(frozen=True, slots=True)
class _Name:
    """The parts of a model's name.

    Attributes:
        words: The name without gateway, snapshot and tag: ``gpt``, ``4o``.
        snapshot: The digits of its date or number; empty for an alias.
        tag: The text after a colon if it has a digit, such as Ollama's ``7b``.
    """

    words: tuple[str, ...]
    snapshot: str
    tag: str

    @property
    def letters(self) -> str:
        """The words joined, without points, to compare spellings."""
        return "".join(self.words).replace(".", "")


@cache
def _name(model: str) -> _Name:
    last = _BEDROCK_VERSION.sub("", model.strip().rstrip("/").casefold()).rpartition("/")[2]
    base, _, tag = last.partition(":")
    base = _VERSION_LETTER.sub("", _POINT.sub(".", _SEPARATOR.sub("-", base)))
    snapshot = "".join(re.findall(r"\d", "".join(_SNAPSHOT.findall(base))))
    words = _VERSION.sub(r"\1.\2", _SNAPSHOT.sub("", base)).split("-")
    return _Name(tuple(words), snapshot, tag if re.search(r"\d", tag) else "")


@cache
def is_other_model(requested: str, answered: str, *, may_be_deployment: bool = False) -> bool:
    """Whether the name in a reply clearly names another model than the requested one.

    The docs page of the judges has the rule and the source of each spelling. A dated snapshot of an
    alias, a gateway's prefix or suffix, an empty name and a path of weights are the same model.

    If `may_be_deployment`, the requested name may be that of an Azure deployment, chosen by its
    owner: without a number it does not name a model, and words after a model's name are ignored.

    >>> is_other_model("gpt-4o", "gpt-4o-2024-11-20"), is_other_model("gpt-4o", "gpt-4o-mini")
    (False, True)
    >>> is_other_model("openrouter/auto", "openai/gpt-4o")
    True
    """
    names = (requested.strip().casefold(), answered.strip().casefold())
    if not all(names) or names[0] == names[1] or any(map(_PATH.fullmatch, names)):
        return False
    asked, reply = map(_name, names)
    if reply.words == _UNNAMED:  # llama.cpp, for a model without an alias
        return False
    if not (asked.snapshot.endswith(reply.snapshot) or reply.snapshot.endswith(asked.snapshot)):
        return True
    if may_be_deployment and not _NUMBERED.search(names[0]):
        return False
    if may_be_deployment and reply.letters in asked.letters:
        return not _SIZES.intersection(asked.words) <= set(reply.words)
    both_tagged = bool(asked.tag and reply.tag)
    return (both_tagged and asked.tag != reply.tag) or not _is_same(asked, reply)


def _is_same(a: _Name, b: _Name) -> bool:
    """Whether two names have the same words, except words without digits before one of them."""
    short, long = sorted((a, b), key=lambda name: len(name.letters))
    for start in range(len(long.words)):
        rest = _Name(long.words[start:], "", "")
        if rest.letters == short.letters or sorted(rest.words) == sorted(short.words):
            return True  # OpenRouter has `claude-4.5-sonnet` for `claude-sonnet-4.5`
        if not long.words[start].isalpha():
            return False
    return False


def other_models(judge: Signature, models: Iterable[str]) -> list[str]:
    """The models, without duplicates, that are not the one requested from a single judge.

    There are none for a judge without a model name or in this process.
    """
    fields = judge.fields
    requested = "" if fields.get("judge") == _IN_PROCESS else fields.get("model", "")
    hosts = filter(None, fields.get("host", "").split("+"))
    # A signature does not name the hosts of OpenAI, nor those of OpenAI at Azure.
    at_azure = fields.get("judge") == "openai" and all(host.endswith(_AZURE) for host in hosts)
    return [
        model
        for model in dict.fromkeys(models)
        if is_other_model(requested, model, may_be_deployment=at_azure)
    ]


def shown_model(model: str) -> str:
    """A model name from a server, printable in one line."""
    line = " ".join(model.split())[:100]
    return line if line.isprintable() else ascii(line)
