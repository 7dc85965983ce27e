"""Computing parts of prompts, those of several rows in one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mmie_tasks.judges.mmie_score.engine.attention import Attend, Attention, Rows
from mmie_tasks.judges.mmie_score.engine.rotary import prompt_is_long
from mmie_tasks.judges.mmie_score.engine.text_model import TextModel
from mmie_tasks.judges.mmie_score.engine.work import Part


class Prefill:
    """Stores the keys of parts of prompts.

    Args:
        text: The language model.
        attention: Over its pages.
        image_token_id: Marks a place of an image feature.
        fixed_rows: As many rows as go through the head in every step; None: as many as there are.
    """

    def __init__(
        self,
        text: TextModel,
        attention: Attention,
        image_token_id: int,
        fixed_rows: int | None = None,
    ) -> None:
        self._text = text
        self._attention = attention
        self._image_token_id = image_token_id
        self._fixed_rows = fixed_rows

    @torch.inference_mode()
    def step(self, parts: Sequence[Part], fixed_tokens: int | None = None) -> torch.Tensor:
        """Compute parts, and what comes after those that end a prompt.

        Args:
            parts: At least one, of different rows.
            fixed_tokens: As many as go through every layer, filled up behind the parts; None: as
                many as there are.

        Returns:
            Logits (parts that end a prompt, vocabulary).
        """
        text, device = self._text, self._text.device
        tokens = sum(part.stop - part.start for part in parts)
        padding = max(0, (fixed_tokens or 0) - tokens)
        hidden = text.forward(
            _padded(torch.cat([self._embedded(part) for part in parts]), padding),
            _filled(_positions(parts), padding, 0).to(device),
            _filled(self._are_long(parts), padding, 0).to(device),
            _filled(self._slots(parts), padding, self._scratch()).to(device),
            _within(tokens, self._attention.plan(_rows(parts), device), padding),
        )
        last = np.cumsum([part.stop - part.start for part in parts]) - 1
        ends = [int(place) for place, part in zip(last, parts, strict=True) if part.ends_prompt]
        ending = hidden[torch.tensor(ends, dtype=torch.long, device=device)]
        return text.logits(_padded(ending, max(0, (self._fixed_rows or 0) - len(ends))))[
            : len(ends)
        ]

    def _embedded(self, part: Part) -> torch.Tensor:
        """(tokens, hidden): image features at their places, words elsewhere."""
        ids = np.asarray(part.row.work.ids[: part.stop])
        is_image = ids == self._image_token_id
        embedded = self._text.embed(torch.from_numpy(ids[part.start :]).to(self._text.device))
        features = part.row.features
        if features is None:
            return embedded
        before, after = int(is_image[: part.start].sum()), int(is_image.sum())
        places = torch.from_numpy(np.flatnonzero(is_image[part.start :])).to(embedded.device)
        own = features[before:after].to(embedded.dtype)
        return embedded.index_copy(0, places, own)

    def _are_long(self, parts: Sequence[Part]) -> NDArray[np.bool_]:
        long_after = self._text.rotary.long_after
        return np.concatenate(
            [
                np.full(part.stop - part.start, prompt_is_long(part.row.work.ids, long_after))
                for part in parts
            ]
        )

    def _slots(self, parts: Sequence[Part]) -> NDArray[np.int64]:
        """As `decoding.slot` says it, of all at once."""
        page_tokens = self._attention.page_tokens
        slots = []
        for part in parts:
            places = np.arange(part.start, part.stop, dtype=np.int64)
            pages = np.asarray(part.row.pages)[places // page_tokens]
            slots.append(pages * page_tokens + places % page_tokens)
        return np.concatenate(slots)

    def _scratch(self) -> int:
        """A slot of the last page, which belongs to no row."""
        pages, page_tokens = self._text.keys.shape[1:3]
        return (pages - 1) * page_tokens


def _positions(parts: Sequence[Part]) -> NDArray[np.int64]:
    return np.concatenate([np.arange(part.start, part.stop, dtype=np.int64) for part in parts])


def _filled(values: NDArray[Any], count: int, value: int) -> torch.Tensor:
    """So many values behind."""
    return torch.from_numpy(np.pad(values, (0, count), constant_values=value))


def _rows(parts: Sequence[Part]) -> Rows:
    starts = np.cumsum([0, *(part.stop - part.start for part in parts)])
    return Rows(
        starts=[int(start) for start in starts],
        lengths=[part.stop for part in parts],
        tables=[part.row.pages for part in parts],
    )


def _padded(rows: torch.Tensor, count: int) -> torch.Tensor:
    """So many rows of zeros behind."""
    return torch.cat([rows, rows.new_zeros(count, *rows.shape[1:])]) if count else rows


def _within(tokens: int, attend: Attend, padding: int) -> Attend:
    """Attention for the first tokens; what fills up behind them sees nothing."""
    if not padding:
        return attend

    def attend_first(
        queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        return _padded(attend(queries[:tokens], keys, values), padding)

    return attend_first
