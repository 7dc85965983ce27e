"""The slow ``LlamaTokenizer`` of transformers 4.37.2, on sentencepiece alone.

The official judge used it (``use_fast=False``). transformers 5 has only the fast tokenizer, which
gives other tokens for every prompt of the judge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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

_SPACE = "\u2581"  # sentencepiece's mark for a space
_REPLACEMENT = "\ufffd"

# A sentencepiece model is a protobuf message, in which a repeated field is merged: appended to the
# file's bytes, these set `normalizer_spec { add_dummy_prefix: false }`.
_NO_DUMMY_PREFIX = b"\x1a\x02\x18\x00"


class AddedToken(BaseModel):
    """A token that is not sentencepiece's; may absorb the white space before or after it."""

    model_config = ConfigDict(strict=True)

    content: str = Field(min_length=1)
    lstrip: bool = False
    rstrip: bool = False
    single_word: Literal[False] = False


class TokenizerConfig(BaseModel):
    """``tokenizer_config.json``, with the defaults of the slow ``LlamaTokenizer``."""

    model_config = ConfigDict(strict=True)

    tokenizer_class: Literal["LlamaTokenizer"]
    added_tokens_decoder: dict[Annotated[int, Field(ge=0)], AddedToken]
    additional_special_tokens: list[AddedToken | str] | None = None
    bos_token: AddedToken | str
    eos_token: AddedToken | str
    unk_token: AddedToken | str
    pad_token: AddedToken | str | None = None
    legacy: bool | None = None
    add_bos_token: bool = True
    add_eos_token: Literal[False] = False
    clean_up_tokenization_spaces: Literal[False] = False

    def special_tokens(self) -> list[AddedToken | str]:
        """The special tokens, as the file has them."""
        roles = (self.bos_token, self.eos_token, self.unk_token, self.pad_token)
        return [token for token in (*roles, *(self.additional_special_tokens or ())) if token]


def _refuse(path: Path, problem: str) -> NoReturn:
    raise unusable(f"The tokenizer of the judge model cannot be used: `{path}`: {problem}.")


def _content(token: AddedToken | str) -> str:
    return token if isinstance(token, str) else token.content


def _read_config(path: Path) -> TokenizerConfig:
    """The configuration; all marks and special tokens must be in ``added_tokens_decoder``."""
    try:
        config = TokenizerConfig.model_validate_json(read_bytes(path))
    except ValidationError as error:
        _refuse(path, problems_of(error))
    listed = {token.content: token for token in config.added_tokens_decoder.values()}
    for token in (*MARKS, *config.special_tokens()):
        if (content := _content(token)) not in listed:
            _refuse(path, f"`added_tokens_decoder` lacks the token {content!r}")
        if isinstance(token, AddedToken) and token != listed[content]:
            _refuse(path, f"it has {content!r} with two sets of flags")
    return config


class SlowLlamaTokenizer:
    """Text to tokens and back. Has no state between calls; threads may share it.

    Attributes:
        legacy: Whether spaces around added tokens are treated as before transformers 4.31; true if
            the flag is absent or null, as in transformers.
        listed: Added tokens by id. Their flags count, not the flags of a special token.
        added: The texts of all added tokens, in the order of their ids.
        mark_ids: The ids of `MARKS`.
    """

    def __init__(self, folder: Path) -> None:
        """Read ``tokenizer.model`` and ``tokenizer_config.json``.

        If the latter has ``added_tokens_decoder``, transformers 4.37.2 reads neither
        ``added_tokens.json`` nor ``special_tokens_map.json``. Raises `JudgeMisconfigured` if a file
        is missing or broken, or has a setting that cannot be reproduced exactly.
        """
        model, config_path = read_bytes(folder / TOKENIZER), folder / TOKENIZER_CONFIG
        self.config = config = _read_config(config_path)
        self.legacy = config.legacy is not False
        self.listed: Mapping[int, AddedToken] = config.added_tokens_decoder
        self.added = tuple(self.listed[i].content for i in sorted(self.listed))
        self._by_content = {token.content: i for i, token in self.listed.items()}
        self._special = {_content(token) for token in config.special_tokens()}
        self.mark_ids = {mark: self._by_content[mark] for mark in MARKS}
        self._special_ids = {self._by_content[content] for content in self._special}
        self._processor = processor = _processor(folder / TOKENIZER, model, self.legacy)
        self._pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
        self._ids = {piece: i for i, piece in enumerate(self._pieces)} | self._by_content
        unlisted = {piece for i, piece in enumerate(self._pieces) if i not in self.listed}
        self._length = len(unlisted.union(self.added))
        if len(self._by_content) < len(self.listed) or max(self.listed) >= len(self):
            problem = f"it adds {len(self.listed)} tokens, up to the id {max(self.listed)}, and"
            _refuse(config_path, f"{problem} with `{TOKENIZER}` there are {len(self)} tokens")
        longest_first = sorted(self.added, key=len, reverse=True)
        self._split = re.compile(f"({'|'.join(map(re.escape, longest_first))})").split
        self._unk = _content(config.unk_token)
        self._unk_pieces = len(self._processor.encode(self._unk))

    def __len__(self) -> int:
        """Number of all tokens including added ones: the official ``len(tokenizer)``."""
        return self._length

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, after ``<s>`` if the files say so; raises `UnicodeEncodeError` for
        a lone surrogate, like the official tokenizer.
        """
        text.encode()
        unk = self._processor.unk_id()
        ids = [self._ids.get(token, unk) for token in self._tokens(text)]
        bos = self._by_content[_content(self.config.bos_token)]
        return [bos, *ids] if self.config.add_bos_token else ids

    def decode(self, ids: Sequence[int]) -> str:
        r"""The text of tokens, like the official ``batch_decode(skip_special_tokens=True)``.

        Added tokens that are not special stay, with a space on each side. An id outside the
        vocabulary becomes U+FFFD, where the official code raises.
        """
        spans: list[str] = []
        pieces: list[str] = []
        for i in ids:
            if i in self._special_ids:
                continue
            piece = self._pieces[i] if 0 <= i < len(self._pieces) else _REPLACEMENT
            token = self.listed[i].content if i in self.listed else piece
            if token in self._by_content and token not in self._special:
                spans += [span for span in (self._joined(pieces),) if span]
                spans.append(token)
                pieces = []
            else:
                pieces.append(token)
        if pieces:
            spans.append(self._joined(pieces))
        return " ".join(spans)

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
        """Strip white space next to added tokens that absorb it."""
        for n, part in enumerate(parts):
            if part not in self._by_content:
                continue
            token = self.listed[self._by_content[part]]
            if token.rstrip and n + 1 < len(parts):
                parts[n + 1] = parts[n + 1].lstrip()
            if token.lstrip and n > 0:
                parts[n - 1] = parts[n - 1].rstrip()
        return [part for part in parts if part]

    def _pieces_of(self, part: str) -> list[str]:
        """Sentencepiece's pieces. Without the dummy prefix it drops a leading space, so the unknown
        token is put before the text and its pieces are removed again.
        """
        if self.legacy or not part.startswith((_SPACE, " ")):
            encoded: list[str] = self._processor.encode(part, out_type=str)
            return encoded
        pieces: list[str] = self._processor.encode(self._unk + part, out_type=str)
        return pieces[self._unk_pieces :] if len(pieces) >= self._unk_pieces else pieces

    def _joined(self, tokens: Sequence[str]) -> str:
        """The text of consecutive tokens without added tokens that stay."""
        pieces = [tokens[0].removeprefix(_SPACE), *tokens[1:]] if tokens else []
        text: str = self._processor.decode(pieces)
        return text


def _processor(path: Path, model: bytes, legacy: bool) -> SentencePieceProcessor:
    from sentencepiece import SentencePieceProcessor

    for suffix in (b"", b"" if legacy else _NO_DUMMY_PREFIX):  # the file alone must be valid
        processor = SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(model + suffix)
        except (RuntimeError, OSError) as error:
            _refuse(path, f"it is not a sentencepiece model, or is truncated ({error})")
    return processor
