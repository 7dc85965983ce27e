"""The judge model's inputs for a request: token ids of the prompt, and tiles of its images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.hub.images import size_px
from mmie_tasks.judges.base import JudgeRequest, RequestUnfit
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.config import (
    END,
    IMAGE,
    IMAGE_CONTEXT,
    query,
    question_of,
)
from mmie_tasks.judges.mmie_score.generation import JudgePrompt
from mmie_tasks.judges.mmie_score.tiles import read_tiles, tiles


def reply_text(text: str) -> str:
    r"""The reply in the decoded text: everything before the first ``<|end|>``, stripped.

    >>> reply_text(" Fair.\n### Score\n4 <|end|> \n")
    'Fair.\n### Score\n4'
    """
    return text.split(END, maxsplit=1)[0].strip()


def control_strings(parts: Iterable[str | Path], added: Iterable[str]) -> tuple[str, ...]:
    """The judge's control strings that occur in a request's text, each once.

    An ``<image>`` in the text takes the position of an image, and an added token is read as that
    token, as in the official code: a judged answer could end its turn and write its own score.

    ``<image>`` comes first, the others in the order of `added`, the judge's added tokens.

    >>> control_strings(["See <image>.", "<|end|>"], ["<s>", "<|end|>"])
    ('<image>', '<|end|>')
    """
    texts = [part for part in parts if isinstance(part, str)]
    return tuple(
        mark for mark in dict.fromkeys((IMAGE, *added)) if any(mark in text for text in texts)
    )


def ids_of(text: str, tiles: Sequence[int], checkpoint: Checkpoint) -> list[int]:
    """The tokens of a text that `query` made for the same tiles, with as many ``<IMG_CONTEXT>`` as
    its images need.

    Without images, an ``<IMG_CONTEXT>`` in the text is a token like any other, as in the official
    code. With images, that code raises an error and ends the run; here the request fails.

    Raises:
        RequestUnfit: Images and image tokens do not match, the prompt is longer than the model's
            positions, or the text is not Unicode.
    """
    try:
        ids = checkpoint.tokenizer.encode(text)
    except ValueError as error:
        raise RequestUnfit(f"the judge cannot read the text: {error}") from error
    count = ids.count(checkpoint.image_token_id)
    needed = sum(tiles) * checkpoint.config.tokens_per_tile
    if tiles and count != needed:
        raise RequestUnfit(
            f"the prompt has {count:,} `{IMAGE_CONTEXT}` and its {len(tiles)} images need "
            f"{needed:,}: fewer `{IMAGE}` than images, or control strings in the text"
        )
    if len(ids) > (limit := checkpoint.config.llm_config.max_position_embeddings):
        raise RequestUnfit(
            f"the prompt has {len(ids):,} tokens, and the model reads {limit:,} at most"
        )
    return ids


@dataclass(frozen=True, slots=True)
class InputBuilder:
    """Builds the model's inputs as MMIE's script and ``model.chat()`` do."""

    checkpoint: Checkpoint

    def prompt(
        self, key: int, request: JudgeRequest, images: Mapping[Path, bytes] = MappingProxyType({})
    ) -> JudgePrompt:
        """Token ids and tiles of a request. Raises like `read_tiles` and `ids_of`, and
        `RequestUnfit` for what MMIE-Score was never trained on.
        """
        if request.system or request.schema:
            raise RequestUnfit("MMIE-Score takes no system message and no reply schema")
        image_tiles = [
            read_tiles(path, self._tile_px, images.get(path)) for path in _images(request)
        ]
        counts = [len(image) for image in image_tiles]
        return JudgePrompt(
            key=key,
            ids=ids_of(self._query(request, counts), counts, self.checkpoint),
            tiles=np.concatenate(image_tiles) if image_tiles else None,
            tile_counts=tuple(counts),
            max_new_tokens=request.max_tokens,
        )

    def tile_counts(self, request: JudgeRequest) -> list[int]:
        """The number of tiles of each image, by its header; raises like `size_px`."""
        return [tiles(*size_px(path), tile_px=self._tile_px) for path in _images(request)]

    def length(self, request: JudgeRequest) -> int:
        """Number of tokens, by the headers of the images; 0 if the prompt cannot be prepared."""
        try:
            counts = self.tile_counts(request)
            text_tokens = len(
                self.checkpoint.tokenizer.encode(self._query(request, [0] * len(counts)))
            )
        except (DataMissing, DataBroken, ValueError):
            return 0
        return text_tokens + sum(counts) * self.checkpoint.config.tokens_per_tile

    @property
    def _tile_px(self) -> int:
        return self.checkpoint.config.vision_config.image_size

    def _query(self, request: JudgeRequest, counts: Sequence[int]) -> str:
        return query(
            question_of(request.parts),
            counts,
            system_message=self.checkpoint.system_message,
            tokens_per_tile=self.checkpoint.config.tokens_per_tile,
        )


def _images(request: JudgeRequest) -> list[Path]:
    return [part for part in request.parts if isinstance(part, Path)]
