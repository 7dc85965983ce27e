"""The slow ``LlamaTokenizer`` of transformers 4.37.2, on sentencepiece alone.

The official judge used it (``use_fast=False``). transformers 5 has only the fast tokenizer, which
gives other tokens on every prompt of the judge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.prompt import MARKS

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

MODEL_FILE = "tokenizer.model"
CONFIG_FILE = "tokenizer_config.json"

_MAX_ID_DIGITS = 9
_SPACE = "\u2581"  # sentencepiece's mark for a space
_REPLACEMENT = "\ufffd"

# A sentencepiece model is a protobuf message, in which a repeated field is merged. So these bytes,
# appended to the file's, set `normalizer_spec { add_dummy_prefix: false }`.
_NO_DUMMY_PREFIX = b"\x1a\x02\x18\x00"

# What `clean_up_tokenization` of transformers attaches to the word before it, in its order.
_ATTACHED = (".", "?", "!", ",", " ' ", "n't", "'m", "'s", "'ve", "'re")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedToken:
    """A token that is not sentencepiece's.

    Attributes:
        content: Its text.
        lstrip: Whether it absorbs the white space before it.
        rstrip: Whether it absorbs the white space after it.
    """

    content: str
    lstrip: bool = False
    rstrip: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFiles:
    """The content of a checkpoint's tokenizer files.

    Attributes:
        folder: Their folder.
        model: The bytes of ``tokenizer.model``.
        legacy: The flag as transformers reads it: true if it is absent or null.
        add_bos: Whether `bos` is put before every text.
        add_eos: Whether `eos` is put after every text.
        cleans_up: Whether decoding removes spaces before punctuation.
        bos: The token before a text.
        eos: The tokenizer's end token; not the stop token of the judge.
        unk: The token for text outside the vocabulary.
        listed: Added tokens by id.
        special: The special tokens, in the order of transformers: those with a role first.
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

    These are ``tokenizer.model`` and ``tokenizer_config.json`` only: if the latter has
    ``added_tokens_decoder``, ``added_tokens.json`` and ``special_tokens_map.json`` are not read.

    Raises:
        JudgeMisconfigured: A file is missing or broken, or has a setting that cannot be reproduced
            exactly; names the file.
    """
    model, path = _read_bytes(folder / MODEL_FILE), folder / CONFIG_FILE
    config = _read_config(path)
    listed = _added_tokens(path, config.added_tokens_decoder)
    bos, eos = _content(config.bos_token), _content(config.eos_token)
    unk = _content(config.unk_token)
    if unk is None:
        _refuse(path, "`unk_token` is null")
    if (config.add_bos_token and bos is None) or (config.add_eos_token and eos is None):
        _refuse(
            path, "a token is to be added to every text, but `bos_token` or `eos_token` is null"
        )
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
        special=_special_tokens(config, {token.content: token for token in listed.values()}),
    )


def _refuse(path: Path, problem: str) -> NoReturn:
    raise JudgeMisconfigured(
        f"The tokenizer of the judge model cannot be used: `{path}`: {problem}.",
        hint="download the whole repository of the judge model again, and point at that folder",
    )


class _Token(BaseModel):
    model_config = ConfigDict(strict=True)

    content: str = Field(min_length=1)
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


_RoleToken = _Token | str | None


class _Config(BaseModel):
    """``tokenizer_config.json``, with the defaults of the slow ``LlamaTokenizer``."""

    model_config = ConfigDict(strict=True)

    tokenizer_class: str
    added_tokens_decoder: dict[str, _Token]
    additional_special_tokens: list[_Token | str] | None = None
    bos_token: _RoleToken = "<s>"  # noqa: S105 - a token of text
    eos_token: _RoleToken = "</s>"  # noqa: S105
    unk_token: _RoleToken = "<unk>"  # noqa: S105
    sep_token: _RoleToken = None
    pad_token: _RoleToken = None
    cls_token: _RoleToken = None
    mask_token: _RoleToken = None
    legacy: bool | None = None
    add_bos_token: bool = True
    add_eos_token: bool = False
    clean_up_tokenization_spaces: bool = False
    split_special_tokens: bool = False
    sp_model_kwargs: dict[str, object] | None = None

    def role_tokens(self) -> dict[str, _RoleToken]:
        """The tokens with a role, in the order of transformers."""
        return {
            "bos_token": self.bos_token,
            "eos_token": self.eos_token,
            "unk_token": self.unk_token,
            "sep_token": self.sep_token,
            "pad_token": self.pad_token,
            "cls_token": self.cls_token,
            "mask_token": self.mask_token,
        }


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        _refuse(path, f"it cannot be read: {error.strerror}")


def _read_config(path: Path) -> _Config:
    try:
        config = _Config.model_validate_json(_read_bytes(path))
    except ValidationError as error:
        detail = error.errors()[0]
        key = ".".join(map(str, detail["loc"]))
        _refuse(path, f"`{key}`: {detail['msg']}" if key else detail["msg"])
    if config.tokenizer_class != "LlamaTokenizer":
        _refuse(path, f"`tokenizer_class` is {config.tokenizer_class!r}, not 'LlamaTokenizer'")
    if config.split_special_tokens or config.sp_model_kwargs:
        _refuse(path, "`split_special_tokens` or `sp_model_kwargs` is set, which is not supported")
    return config


def _added_tokens(path: Path, decoder: Mapping[str, _Token]) -> dict[int, AddedToken]:
    tokens: dict[int, AddedToken] = {}
    contents: set[str] = set()
    for key, token in decoder.items():
        number = int(key) if key.isdecimal() and len(key) <= _MAX_ID_DIGITS else -1
        if number < 0 or token.single_word:
            _refuse(path, f"`added_tokens_decoder.{key}` has no usable id, or is a `single_word`")
        if number in tokens or token.content in contents:
            _refuse(path, f"`added_tokens_decoder.{key}` ({token.content!r}) occurs twice")
        tokens[number] = _added(token)
        contents.add(token.content)
    return tokens


def _special_tokens(config: _Config, listed: Mapping[str, AddedToken]) -> tuple[AddedToken, ...]:
    """The special tokens, each with the flags that take precedence.

    For a role these are the list's, unless the file does not name the role: then it is the class's
    default token, which has no flags. For other tokens the list's flags take precedence over a
    string, and not over an object.
    """
    special: dict[str, AddedToken] = {}
    for role, role_token in config.role_tokens().items():
        if role_token is not None:
            token = _added(role_token)
            if role in config.model_fields_set:
                token = listed.get(token.content, token)
            special.setdefault(token.content, token)
    for additional in config.additional_special_tokens or ():
        token = _added(additional)
        if isinstance(additional, str):
            token = listed.get(additional, token)
        special.setdefault(token.content, token)
    return tuple(special.values())


def _added(token: _Token | str) -> AddedToken:
    if isinstance(token, str):
        return AddedToken(content=token)
    return AddedToken(content=token.content, lstrip=token.lstrip, rstrip=token.rstrip)


def _content(token: _RoleToken) -> str | None:
    return token.content if isinstance(token, _Token) else token


class SlowLlamaTokenizer:
    """Text to tokens and back. Has no state between calls; threads may share it.

    Attributes:
        files: The content of the checkpoint's files.
        added: The texts of all added tokens, in the order of their ids.
    """

    def __init__(self, files: TokenizerFiles) -> None:
        """Build the vocabulary.

        Raises:
            JudgeMisconfigured: The files do not fit together; names the file.
        """
        self.files = files
        self._processor = _processor(files)
        size = self._processor.get_piece_size()
        self._pieces = [self._processor.id_to_piece(i) for i in range(size)]
        self._id_of_piece = {piece: i for i, piece in enumerate(self._pieces)}
        self._by_id, self._length = _with_ids(files, self._pieces)
        self._by_content = {token.content: i for i, token in self._by_id.items()}
        self.added = tuple(self._by_id[i].content for i in sorted(self._by_id))
        self._check()
        self._special = {token.content for token in files.special}
        self._special_ids = {self._by_content[content] for content in self._special}
        longest_first = sorted(self.added, key=len, reverse=True)
        self._split = re.compile(f"({'|'.join(map(re.escape, longest_first))})").split
        self._unk_pieces = len(self._processor.encode(files.unk))

    @classmethod
    def from_folder(cls, folder: Path) -> SlowLlamaTokenizer:
        """Read a checkpoint's tokenizer.

        Raises:
            JudgeMisconfigured: Its files are missing, broken or of another tokenizer; names the
                file.
        """
        return cls(read_tokenizer_files(folder))

    @property
    def legacy(self) -> bool:
        """Whether spaces around added tokens are treated as before transformers 4.31."""
        return self.files.legacy

    def __len__(self) -> int:
        """Number of all tokens, the added ones included: the official ``len(tokenizer)``."""
        return self._length

    def id_of(self, token: str) -> int | None:
        """The id of an added token, or of a piece; None if there is no such token."""
        return self._by_content.get(token, self._id_of_piece.get(token))

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, after ``<s>`` if the files say so.

        Raises:
            UnicodeEncodeError: The text has a lone surrogate, which is not a character. A
                ValueError; the official tokenizer raises too.
        """
        text.encode()
        ids = [self._id(piece) for piece in self._tokens(text)]
        bos = [self._by_content[self.files.bos]] if self.files.add_bos and self.files.bos else []
        eos = [self._by_content[self.files.eos]] if self.files.add_eos and self.files.eos else []
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
            token = self._token(i)
            if token in self._by_content and token not in self._special:
                spans += [span for span in (self._joined(pieces),) if span]
                spans.append(token)
                pieces = []
            else:
                pieces.append(token)
        if pieces:
            spans.append(self._joined(pieces))
        text = " ".join(spans)
        return _cleaned_up(text) if self.files.cleans_up else text

    def _check(self) -> None:
        config = self.files.folder / CONFIG_FILE
        if self._by_id and max(self._by_id) >= len(self):
            problem = f"it adds the id {max(self._by_id)}, and there are {len(self)} tokens"
            _refuse(config, f"{problem} with `{MODEL_FILE}`")
        missing = [mark for mark in MARKS if mark not in self._by_content]
        if missing:
            _refuse(config, f"it does not add the token {missing[0]!r}")

    def _id(self, token: str) -> int:
        token_id = self.id_of(token)
        return self._processor.unk_id() if token_id is None else token_id

    def _token(self, i: int) -> str:
        if i in self._by_id:
            return self._by_id[i].content
        return self._pieces[i] if 0 <= i < len(self._pieces) else _REPLACEMENT

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
        pieces: list[str] = self._processor.encode(self.files.unk + part, out_type=str)
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


def _processor(files: TokenizerFiles) -> SentencePieceProcessor:
    from sentencepiece import SentencePieceProcessor

    path = files.folder / MODEL_FILE
    for suffix in (b"", b"" if files.legacy else _NO_DUMMY_PREFIX):  # the file alone must be valid
        processor = SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(files.model + suffix)
        except (RuntimeError, OSError) as error:
            _refuse(path, f"it is not a sentencepiece model, or is truncated ({error})")
    return processor


def _with_ids(files: TokenizerFiles, pieces: Sequence[str]) -> tuple[dict[int, AddedToken], int]:
    """Added tokens by id, and the number of all tokens.

    As ``_add_tokens``: a special token that is not listed has the id of its piece, or the next one.
    """
    by_id = dict(files.listed)
    contents = (by_id[i].content if i in by_id else piece for i, piece in enumerate(pieces))
    vocabulary = {content: i for i, content in enumerate(contents)}
    vocabulary |= {token.content: i for i, token in by_id.items()}
    for token in files.special:
        by_id[vocabulary.setdefault(token.content, len(vocabulary))] = token
    return by_id, len(vocabulary)


def _cleaned_up(text: str) -> str:
    for mark in _ATTACHED:
        text = text.replace(*(mark, "'") if mark == " ' " else (f" {mark}", mark))
    return text
