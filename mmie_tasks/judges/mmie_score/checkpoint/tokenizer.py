"""The slow ``LlamaTokenizer`` of transformers 4.37.2, on sentencepiece alone.

The official judge used it (``use_fast=False``). transformers 5 has only the fast tokenizer, which
gives other tokens on every prompt of the judge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mmie_tasks.judges.mmie_score.checkpoint.config import MARKS, problems_of
from mmie_tasks.judges.mmie_score.checkpoint.files import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    read_bytes,
    unusable,
)

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")  # in the order of transformers
_SPACE = "\u2581"  # sentencepiece's mark for a space
_REPLACEMENT = "\ufffd"

# A sentencepiece model is a protobuf message, in which a repeated field is merged. So these bytes,
# appended to the file's, set `normalizer_spec { add_dummy_prefix: false }`.
_NO_DUMMY_PREFIX = b"\x1a\x02\x18\x00"

# What `clean_up_tokenization` of transformers attaches to the word before it, in its order.
_ATTACHED = (".", "?", "!", ",", " ' ", "n't", "'m", "'s", "'ve", "'re")


class AddedToken(BaseModel):
    """A token that is not sentencepiece's. It may absorb the white space before or after it."""

    model_config = ConfigDict(strict=True)

    content: str = Field(min_length=1)
    lstrip: bool = False
    rstrip: bool = False
    single_word: Literal[False] = False


_RoleToken = AddedToken | str | None


class TokenizerConfig(BaseModel):
    """``tokenizer_config.json``, with the defaults of the slow ``LlamaTokenizer``."""

    model_config = ConfigDict(strict=True)

    tokenizer_class: Literal["LlamaTokenizer"]
    added_tokens_decoder: dict[Annotated[int, Field(ge=0)], AddedToken]
    additional_special_tokens: list[AddedToken | str] | None = None
    bos_token: _RoleToken = "<s>"  # noqa: S105 - a token of text
    eos_token: _RoleToken = "</s>"  # noqa: S105
    unk_token: AddedToken | str = "<unk>"  # noqa: S105
    sep_token: _RoleToken = None
    pad_token: _RoleToken = None
    cls_token: _RoleToken = None
    mask_token: _RoleToken = None
    legacy: bool | None = None
    add_bos_token: bool = True
    add_eos_token: bool = False
    clean_up_tokenization_spaces: bool = False
    split_special_tokens: Literal[False] = False
    sp_model_kwargs: Annotated[dict[str, object], Field(max_length=0)] | None = None


def _refuse(path: Path, problem: str) -> NoReturn:
    raise unusable(f"The tokenizer of the judge model cannot be used: `{path}`: {problem}.")


def _read_config(path: Path) -> TokenizerConfig:
    try:
        config = TokenizerConfig.model_validate_json(read_bytes(path))
    except ValidationError as error:
        _refuse(path, problems_of(error))
    if (config.add_bos_token and config.bos_token is None) or (
        config.add_eos_token and config.eos_token is None
    ):
        _refuse(
            path, "a token is to be added to every text, but `bos_token` or `eos_token` is null"
        )
    contents = [token.content for token in config.added_tokens_decoder.values()]
    if repeated := [content for content in contents if contents.count(content) > 1]:
        _refuse(path, f"`added_tokens_decoder` has {repeated[0]!r} twice")
    return config


def _special_tokens(
    config: TokenizerConfig, listed: Mapping[str, AddedToken]
) -> tuple[AddedToken, ...]:
    """The special tokens, each with the flags that take precedence.

    For a role these are the list's, unless the file does not name the role: then it is the class's
    default token, which has no flags. For other tokens the list's flags take precedence over a
    string, and not over an object.
    """
    special: dict[str, AddedToken] = {}
    for role in _ROLES:
        if (role_token := getattr(config, f"{role}_token")) is not None:
            token = _added(role_token)
            if f"{role}_token" in config.model_fields_set:
                token = listed.get(token.content, token)
            special.setdefault(token.content, token)
    for additional in config.additional_special_tokens or ():
        token = _added(additional)
        if isinstance(additional, str):
            token = listed.get(additional, token)
        special.setdefault(token.content, token)
    return tuple(special.values())


def _added(token: AddedToken | str) -> AddedToken:
    return AddedToken.model_construct(content=token) if isinstance(token, str) else token


class SlowLlamaTokenizer:
    """Text to tokens and back. Has no state between calls; threads may share it.

    Attributes:
        legacy: Whether spaces around added tokens are treated as before transformers 4.31; as
            transformers reads the flag: true if it is absent or null.
        listed: Added tokens by id, as in the config.
        added: The texts of all added tokens, in the order of their ids.
        mark_ids: The ids of `MARKS`.
    """

    def __init__(self, folder: Path) -> None:
        """Read what the slow ``LlamaTokenizer`` of transformers 4.37.2 reads of a checkpoint.

        These are ``tokenizer.model`` and ``tokenizer_config.json`` only: if the latter has
        ``added_tokens_decoder``, ``added_tokens.json`` and ``special_tokens_map.json`` are not
        read.

        Raises:
            JudgeMisconfigured: A file is missing or broken, or has a setting that cannot be
                reproduced exactly.
        """
        model = read_bytes(folder / TOKENIZER)
        config_path = folder / TOKENIZER_CONFIG
        self.config = config = _read_config(config_path)
        self.legacy = config.legacy is not False
        self.listed: Mapping[int, AddedToken] = config.added_tokens_decoder
        special = _special_tokens(config, {token.content: token for token in self.listed.values()})
        self._processor = processor = _processor(folder / TOKENIZER, model, self.legacy)
        self._pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
        self._by_id, self._length = _with_ids(self.listed, special, self._pieces)
        self._by_content = {token.content: i for i, token in self._by_id.items()}
        self._ids = {piece: i for i, piece in enumerate(self._pieces)} | self._by_content
        self.added = tuple(self._by_id[i].content for i in sorted(self._by_id))
        if self._by_id and max(self._by_id) >= len(self):
            problem = f"it adds the id {max(self._by_id)}, and there are {len(self)} tokens"
            _refuse(config_path, f"{problem} with `{TOKENIZER}`")
        if missing := [mark for mark in MARKS if mark not in self._by_content]:
            _refuse(config_path, f"it does not add the token {missing[0]!r}")
        self.mark_ids = {mark: self._by_content[mark] for mark in MARKS}
        self._special = {token.content for token in special}
        self._special_ids = {self._by_content[content] for content in self._special}
        longest_first = sorted(self.added, key=len, reverse=True)
        self._split = re.compile(f"({'|'.join(map(re.escape, longest_first))})").split
        self._unk = _added(config.unk_token).content
        self._unk_pieces = len(self._processor.encode(self._unk))

    def __len__(self) -> int:
        """Number of all tokens, the added ones included: the official ``len(tokenizer)``."""
        return self._length

    def id_of(self, token: str) -> int | None:
        """The id of an added token, or of a piece; None if there is no such token."""
        return self._ids.get(token)

    @cached_property
    def digit_ids(self) -> tuple[tuple[int, ...], ...]:
        """For each digit 0 to 9, the ids of the tokens that spell it, with or without a space
        before it.
        """
        texts = {i: self._text_of(i).removeprefix(_SPACE) for i in self._digits}
        return tuple(
            tuple(i for i, text in texts.items() if text == digit) for digit in "0123456789"
        )

    @cached_property
    def _digits(self) -> Mapping[int, str]:
        """The digits in the texts of tokens, by id, for tokens with digits."""
        ids = sorted({*range(len(self._pieces)), *self._by_id})
        return {i: digits for i in ids if (digits := re.sub("[^0-9]", "", self._text_of(i)))}

    def _text_of(self, i: int) -> str:
        """What a token adds to a text, except for spaces around it."""
        if i in self._special_ids:
            return ""
        if i in self._by_id:
            return self._by_id[i].content
        return (
            chr(int(self._pieces[i][1:-1], 16)) if self._processor.is_byte(i) else self._pieces[i]
        )  # <0x34>

    def digit_offsets(self, ids: Sequence[int], text: str) -> Mapping[int, int]:
        """Offsets of the digits in a text, by index of their tokens.

        A text has the digits of its tokens, in their order, and no others; so they are matched one
        by one. The text may be a part of that of the tokens, with no digit before it; tokens behind
        it are left out.
        """
        digits = [
            (index, digit) for index, i in enumerate(ids) for digit in self._digits.get(i, "")
        ]
        matched = list(zip(digits, re.finditer("[0-9]", text), strict=False))
        if any(match.group() != digit for (_, digit), match in matched):
            return {}
        return {index: match.start() for (index, _), match in matched}

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, after ``<s>`` if the files say so.

        Raises:
            UnicodeEncodeError: The text has a lone surrogate; the official tokenizer raises too.
        """
        text.encode()
        unk = self._processor.unk_id()
        ids = [self._ids.get(token, unk) for token in self._tokens(text)]
        config = self.config
        bos, eos = (
            [self._by_content[_added(token).content]] if is_added and token else []
            for is_added, token in (
                (config.add_bos_token, config.bos_token),
                (config.add_eos_token, config.eos_token),
            )
        )
        return [*bos, *ids, *eos]

    def decode(self, ids: Sequence[int]) -> str:
        r"""The text of tokens, without special ones.

        As the official ``batch_decode(skip_special_tokens=True)``: other added tokens stay, with a
        space on each side. An id outside the vocabulary becomes U+FFFD; the official code raises.
        """
        spans: list[str] = []
        pieces: list[str] = []
        for i in ids:
            if i in self._special_ids:
                continue
            piece = self._pieces[i] if 0 <= i < len(self._pieces) else _REPLACEMENT
            token = self._by_id[i].content if i in self._by_id else piece
            if token in self._by_content and token not in self._special:
                spans += [span for span in (self._joined(pieces),) if span]
                spans.append(token)
                pieces = []
            else:
                pieces.append(token)
        if pieces:
            spans.append(self._joined(pieces))
        text = " ".join(spans)
        for mark in _ATTACHED if self.config.clean_up_tokenization_spaces else ():
            text = text.replace(*(mark, "'") if mark == " ' " else (f" {mark}", mark))
        return text

    def _tokens(self, text: str) -> list[str]:
        if not self.legacy and text:
            text = _SPACE + text.replace(_SPACE, " ")
        parts = self._stripped([part for part in self._split(text) if part])
        tokens: list[str] = []
        for part in parts:
            tokens += [part] if part in self._by_content else self._pieces_of(part)
        drops_space = len(tokens) > 1 and tokens[0] == _SPACE and tokens[1] in self._special
        return tokens[1:] if drops_space and not self.legacy else tokens

    def _stripped(self, parts: list[str]) -> list[str]:
        """Strip white space beside added tokens that absorb it."""
        for n, part in enumerate(parts):
            if part not in self._by_content:
                continue
            token = self._by_id[self._by_content[part]]
            if token.rstrip and n + 1 < len(parts):
                parts[n + 1] = parts[n + 1].lstrip()
            if token.lstrip and n > 0:
                parts[n - 1] = parts[n - 1].rstrip()
        return [part for part in parts if part]

    def _pieces_of(self, part: str) -> list[str]:
        """Sentencepiece's pieces.

        Without the dummy prefix it drops a leading space, so the unknown token is put before the
        text, and its pieces are removed again.
        """
        if self.legacy or not part.startswith((_SPACE, " ")):
            encoded: list[str] = self._processor.encode(part, out_type=str)
            return encoded
        pieces: list[str] = self._processor.encode(self._unk + part, out_type=str)
        return pieces[self._unk_pieces :] if len(pieces) >= self._unk_pieces else pieces

    def _joined(self, tokens: Sequence[str]) -> str:
        """The text of consecutive tokens without added tokens that stay.

        A piece may be spelt like a special token with another id; sentencepiece does not get it.
        """
        if not tokens:
            return ""
        text = ""
        pieces: list[str] = []
        for n, token in enumerate([tokens[0].removeprefix(_SPACE), *tokens[1:]]):
            if token not in self._special:
                pieces.append(token)
                continue
            space = " " if self.legacy and n > 0 and tokens[n - 1] not in self._special else ""
            text += f"{space}{self._processor.decode(pieces)}{token}"
            pieces = []
        return f"{text}{self._processor.decode(pieces)}"


def _processor(path: Path, model: bytes, legacy: bool) -> SentencePieceProcessor:
    from sentencepiece import SentencePieceProcessor

    for suffix in (b"", b"" if legacy else _NO_DUMMY_PREFIX):  # the file alone must be valid
        processor = SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(model + suffix)
        except (RuntimeError, OSError) as error:
            _refuse(path, f"it is not a sentencepiece model, or is truncated ({error})")
    return processor


def _with_ids(
    listed: Mapping[int, AddedToken], special: Sequence[AddedToken], pieces: Sequence[str]
) -> tuple[dict[int, AddedToken], int]:
    """Added tokens by id, and the number of all tokens.

    As ``_add_tokens``: a special token that is not listed has the id of its piece, or the next one.
    """
    by_id = dict(listed)
    contents = (by_id[i].content if i in by_id else piece for i, piece in enumerate(pieces))
    vocabulary = {content: i for i, content in enumerate(contents)}
    vocabulary |= {token.content: i for i, token in by_id.items()}
    for token in special:
        by_id[vocabulary.setdefault(token.content, len(vocabulary))] = token
    return by_id, len(vocabulary)
