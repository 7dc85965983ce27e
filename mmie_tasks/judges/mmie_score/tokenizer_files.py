"""A checkpoint's tokenizer files, read and checked; nothing is decided here about any text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mmie_tasks.judges.base import JudgeMisconfigured

MODEL_FILE = "tokenizer.model"
CONFIG_FILE = "tokenizer_config.json"

_ID_DIGITS = 9  # an id of more is not one


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedToken:
    """A token that is not sentencepiece's.

    Attributes:
        content: As it stands in a text.
        lstrip: It takes the white space before it.
        rstrip: It takes the white space behind it.
    """

    content: str
    lstrip: bool = False
    rstrip: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFiles:
    """What the files say.

    Attributes:
        folder: Where they are.
        model: The bytes of ``tokenizer.model``.
        legacy: The flag as transformers reads it: true where it is absent or null.
        add_bos: A text begins with `bos`.
        add_eos: A text ends with `eos`.
        cleans_up: Decoded text loses spaces before punctuation.
        bos: Begins a text.
        eos: The tokenizer's end token; not what stops the judge.
        unk: Stands for what the vocabulary lacks.
        listed: Added tokens by id.
        special: The special tokens, in the order transformers has them: those with a role first.
    """

    folder: Path
    model: bytes = field(repr=False)
    legacy: bool
    add_bos: bool
    add_eos: bool
    cleans_up: bool
    bos: str | None
    eos: str | None
    unk: str
    listed: Mapping[int, AddedToken]
    special: tuple[AddedToken, ...]


def read_tokenizer_files(folder: Path) -> TokenizerFiles:
    """Read what the slow ``LlamaTokenizer`` of transformers 4.37.2 reads.

    That is ``tokenizer.model`` and ``tokenizer_config.json`` only: with ``added_tokens_decoder`` in
    the latter, ``added_tokens.json`` and ``special_tokens_map.json`` are not looked at.

    Raises:
        JudgeMisconfigured: A file is missing or broken, or asks for something this project cannot
            do exactly; names the file.
    """
    model, path = _bytes(folder / MODEL_FILE), folder / CONFIG_FILE
    config = _config(path)
    listed = _listed(path, config.added_tokens_decoder)
    bos, eos = _content(config.bos_token), _content(config.eos_token)
    unk = _content(config.unk_token)
    if unk is None:
        refuse(path, "`unk_token` is null")
    if (config.add_bos_token and bos is None) or (config.add_eos_token and eos is None):
        refuse(path, "a token is to be added to every text, and `bos_token` or `eos_token` is null")
    return TokenizerFiles(
        folder=folder,
        model=model,
        legacy=config.legacy is not False,
        add_bos=config.add_bos_token,
        add_eos=config.add_eos_token,
        cleans_up=config.clean_up_tokenization_spaces,
        bos=bos,
        eos=eos,
        unk=unk,
        listed=listed,
        special=_special(config, {token.content: token for token in listed.values()}),
    )


def refuse(path: Path, found: str) -> NoReturn:
    """Say that a tokenizer file cannot be used.

    Raises:
        JudgeMisconfigured: Always.
    """
    raise JudgeMisconfigured(
        f"The tokenizer of the judge model cannot be used: `{path}`: {found}.",
        hint="download the whole repository of the judge model again, and point at that folder",
    )


class _Token(BaseModel):
    model_config = ConfigDict(strict=True)

    content: str = Field(min_length=1)
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


_Named = _Token | str | None
_BOS, _EOS, _UNK = "<s>", "</s>", "<unk>"
_ROLES = tuple(f"{role}_token" for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))


class _Config(BaseModel):
    """``tokenizer_config.json``, with the defaults of the slow ``LlamaTokenizer``."""

    model_config = ConfigDict(strict=True)

    tokenizer_class: str
    added_tokens_decoder: dict[str, _Token]
    additional_special_tokens: list[_Token | str] | None = None
    bos_token: _Named = _BOS
    eos_token: _Named = _EOS
    unk_token: _Named = _UNK
    sep_token: _Named = None
    pad_token: _Named = None
    cls_token: _Named = None
    mask_token: _Named = None
    legacy: bool | None = None
    add_bos_token: bool = True
    add_eos_token: bool = False
    clean_up_tokenization_spaces: bool = False
    split_special_tokens: bool = False
    sp_model_kwargs: dict[str, object] | None = None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        refuse(path, f"it cannot be read: {error.strerror}")


def _config(path: Path) -> _Config:
    try:
        config = _Config.model_validate_json(_bytes(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        refuse(path, f"`{where}`: {first['msg']}" if where else first["msg"])
    if config.tokenizer_class != "LlamaTokenizer":
        refuse(path, f"`tokenizer_class` is {config.tokenizer_class!r}, not 'LlamaTokenizer'")
    if config.split_special_tokens or config.sp_model_kwargs:
        refuse(path, "`split_special_tokens` or `sp_model_kwargs` is set, which is not supported")
    return config


def _listed(path: Path, decoder: Mapping[str, _Token]) -> dict[int, AddedToken]:
    listed: dict[int, AddedToken] = {}
    contents: set[str] = set()
    for name, token in decoder.items():
        number = int(name) if name.isdecimal() and len(name) <= _ID_DIGITS else -1
        if number < 0 or token.single_word:
            refuse(path, f"`added_tokens_decoder.{name}` has no usable id, or is a `single_word`")
        if number in listed or token.content in contents:
            refuse(path, f"`added_tokens_decoder.{name}` ({token.content!r}) is there twice")
        listed[number] = _as_added(token)
        contents.add(token.content)
    return listed


def _special(config: _Config, listed: Mapping[str, AddedToken]) -> tuple[AddedToken, ...]:
    """Special tokens, each with the flags that win.

    Of a role those are the list's, unless the file does not name the role: then the token is the
    class's own, which has none. Of the others the list's win over a string, and not over an object.
    """
    special: dict[str, AddedToken] = {}
    for role in _ROLES:
        if (named := getattr(config, role)) is not None:
            token = _as_added(named)
            if role in config.model_fields_set:
                token = listed.get(token.content, token)
            special.setdefault(token.content, token)
    for more in config.additional_special_tokens or ():
        token = _as_added(more)
        if isinstance(more, str):
            token = listed.get(more, token)
        special.setdefault(token.content, token)
    return tuple(special.values())


def _as_added(token: _Token | str) -> AddedToken:
    if isinstance(token, str):
        return AddedToken(content=token)
    return AddedToken(content=token.content, lstrip=token.lstrip, rstrip=token.rstrip)


def _content(token: _Named) -> str | None:
    return token.content if isinstance(token, _Token) else token
