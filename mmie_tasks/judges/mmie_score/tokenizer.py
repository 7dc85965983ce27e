"""The slow ``LlamaTokenizer`` of transformers 4.37.2, on sentencepiece alone.

The official judge was run with it (``use_fast=False``). transformers 5 has only the fast one, which
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


# A checkpoint's tokenizer files, read and checked; nothing is decided here about any text.

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


_SPACE = "\u2581"  # how sentencepiece writes a space
_UNKNOWN = "\ufffd"

# A sentencepiece model is a protobuf message, in which a part that comes twice is merged. So this,
# behind the file's bytes, is `normalizer_spec { add_dummy_prefix: false }`.
_NO_DUMMY_PREFIX = b"\x1a\x02\x18\x00"

# What `clean_up_tokenization` of transformers puts closer to the word before it, in its order.
_CLOSER = (".", "?", "!", ",", " ' ", "n't", "'m", "'s", "'ve", "'re")


class SlowLlamaTokenizer:
    """Text to tokens and back. Holds no state between calls; threads may share it.

    Attributes:
        files: What the checkpoint's files say.
        added: All added tokens, in the order of their ids.
    """

    def __init__(self, files: TokenizerFiles) -> None:
        """Put the vocabulary together.

        Raises:
            JudgeMisconfigured: The files do not fit each other; names the file.
        """
        self.files = files
        self._processor = _processor(files)
        size = self._processor.get_piece_size()
        self._pieces = [self._processor.id_to_piece(i) for i in range(size)]
        self._id_of_piece = {piece: i for i, piece in enumerate(self._pieces)}
        self._by_id, self._length = _placed(files, self._pieces)
        self._by_content = {token.content: i for i, token in self._by_id.items()}
        self.added = tuple(self._by_id[i].content for i in sorted(self._by_id))
        self._check()
        self._special = {token.content for token in files.special}
        self._skipped = {self._by_content[content] for content in self._special}
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
        """The flag as read: whether spaces around added tokens are treated the old way."""
        return self.files.legacy

    def __len__(self) -> int:
        """Tokens in all, the added ones included: what the official ``len(tokenizer)`` is."""
        return self._length

    def id_of(self, token: str) -> int | None:
        """The id of an added token, or of a piece; None where there is no such token."""
        return self._by_content.get(token, self._id_of_piece.get(token))

    def encode(self, text: str) -> list[int]:
        """The text's tokens, with ``<s>`` in front if the files say so.

        Raises:
            UnicodeEncodeError: The text has half a surrogate pair, which is no character. A
                ValueError; the official tokenizer raises as well.
        """
        text.encode()
        ids = [self._id(piece) for piece in self._tokens(text)]
        bos = [self._by_content[self.files.bos]] if self.files.add_bos and self.files.bos else []
        eos = [self._by_content[self.files.eos]] if self.files.add_eos and self.files.eos else []
        return [*bos, *ids, *eos]

    def decode(self, ids: Sequence[int]) -> str:
        r"""The text of tokens, special ones left out.

        As the official ``batch_decode(skip_special_tokens=True)``: other added tokens stay, with a
        space on each side. An id that is no token is U+FFFD, where the official code raises.
        """
        stretches: list[str] = []
        waiting: list[str] = []
        for i in ids:
            if i in self._skipped:
                continue
            token = self._token(i)
            if token in self._by_content and token not in self._special:
                stretches += [text for text in (self._joined(waiting),) if text]
                stretches.append(token)
                waiting = []
            else:
                waiting.append(token)
        if waiting:
            stretches.append(self._joined(waiting))
        text = " ".join(stretches)
        return _cleaned_up(text) if self.files.cleans_up else text

    def _check(self) -> None:
        config = self.files.folder / CONFIG_FILE
        if self._by_id and max(self._by_id) >= len(self):
            found = f"it adds the id {max(self._by_id)}, and there are {len(self)} tokens"
            refuse(config, f"{found} with `{MODEL_FILE}`")
        lacking = [mark for mark in MARKS if mark not in self._by_content]
        if lacking:
            refuse(config, f"it does not add the token {lacking[0]!r}")

    def _id(self, token: str) -> int:
        found = self.id_of(token)
        return self._processor.unk_id() if found is None else found

    def _token(self, i: int) -> str:
        if i in self._by_id:
            return self._by_id[i].content
        return self._pieces[i] if 0 <= i < len(self._pieces) else _UNKNOWN

    def _tokens(self, text: str) -> list[str]:
        if not self.legacy and text:
            text = _SPACE + text.replace(_SPACE, " ")
        parts = self._stripped([part for part in self._split(text) if part])
        tokens: list[str] = []
        for part in parts:
            tokens += [part] if part in self._by_content else self._pieces_of(part)
        first_goes = len(tokens) > 1 and tokens[0] == _SPACE and tokens[1] in self._special
        return tokens[1:] if first_goes and not self.legacy else tokens

    def _stripped(self, parts: list[str]) -> list[str]:
        """Take white space off the neighbours of added tokens that want it."""
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

        Without the dummy prefix it drops a leading space, so the space is put behind the unknown
        token, and that token's pieces are cut off again.
        """
        if self.legacy or not part.startswith((_SPACE, " ")):
            whole: list[str] = self._processor.encode(part, out_type=str)
            return whole
        pieces: list[str] = self._processor.encode(self.files.unk + part, out_type=str)
        return pieces[self._unk_pieces :] if len(pieces) >= self._unk_pieces else pieces

    def _joined(self, tokens: Sequence[str]) -> str:
        """The text of a stretch without added tokens that stay.

        A piece may be spelled like a special token whose id is another one; then sentencepiece is
        not shown it.
        """
        if not tokens:
            return ""
        text = ""
        waiting: list[str] = []
        for n, token in enumerate([tokens[0].removeprefix(_SPACE), *tokens[1:]]):
            if token not in self._special:
                waiting.append(token)
                continue
            space = " " if self.legacy and n > 0 and tokens[n - 1] not in self._special else ""
            text += f"{space}{self._processor.decode(waiting)}{token}"
            waiting = []
        return f"{text}{self._processor.decode(waiting)}"


def _processor(files: TokenizerFiles) -> SentencePieceProcessor:
    from sentencepiece import SentencePieceProcessor

    path = files.folder / MODEL_FILE
    for suffix in (b"", b"" if files.legacy else _NO_DUMMY_PREFIX):  # the file alone must be whole
        processor = SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(files.model + suffix)
        except (RuntimeError, OSError) as error:
            refuse(path, f"it is not a sentencepiece model, or is cut off ({error})")
    return processor


def _placed(files: TokenizerFiles, pieces: Sequence[str]) -> tuple[dict[int, AddedToken], int]:
    """Added tokens by id, and how many tokens there are in all.

    As ``_add_tokens``: a special token that is not listed has the id of its piece, or the next one.
    """
    by_id = dict(files.listed)
    spelled = (by_id[i].content if i in by_id else piece for i, piece in enumerate(pieces))
    vocabulary = {content: i for i, content in enumerate(spelled)}
    vocabulary |= {token.content: i for i, token in by_id.items()}
    for token in files.special:
        by_id[vocabulary.setdefault(token.content, len(vocabulary))] = token
    return by_id, len(vocabulary)


def _cleaned_up(text: str) -> str:
    for mark in _CLOSER:
        text = text.replace(*(mark, "'") if mark == " ' " else (f" {mark}", mark))
    return text
