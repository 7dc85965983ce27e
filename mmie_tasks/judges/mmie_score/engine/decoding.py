"""One step of decoding: the next token of every row that has one already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from mmie_tasks.judges.mmie_score.engine.attention import Attention, Rows
from mmie_tasks.judges.mmie_score.engine.rotary import generated_is_long
from mmie_tasks.judges.mmie_score.engine.text_model import TextModel
from mmie_tasks.judges.mmie_score.engine.work import Row


class Decoder(Protocol):
    """A way to compute a step."""

    def step(self, rows: Sequence[Row]) -> torch.Tensor:
        """Logits (rows, vocabulary) of the tokens after the last ones of these rows."""
        ...


def position(row: Row) -> int:
    """Of the row's last token, which is the one to be computed."""
    return len(row.work.ids) + len(row.output) - 1


def slot(row: Row, place: int, page_tokens: int) -> int:
    """Where the keys of the row's token at a position go."""
    return row.pages[place // page_tokens] * page_tokens + place % page_tokens


class PlainDecoder:
    """As many tokens as there are rows.

    Args:
        text: The language model.
        attention: Over its pages.
    """

    def __init__(self, text: TextModel, attention: Attention) -> None:
        self._text = text
        self._attention = attention

    @torch.inference_mode()
    def step(self, rows: Sequence[Row]) -> torch.Tensor:
        """As `Decoder.step`."""
        text, device = self._text, self._text.device
        places = [position(row) for row in rows]
        page_tokens = self._attention.page_tokens
        long = [generated_is_long(place, text.rotary.long_after) for place in places]
        seen = Rows(
            starts=list(range(len(rows) + 1)),
            lengths=[place + 1 for place in places],
            tables=[row.pages for row in rows],
        )
        hidden = text.forward(
            text.embed(torch.tensor([row.output[-1] for row in rows], device=device)),
            torch.tensor(places, device=device),
            torch.tensor(long, device=device),
            torch.tensor(
                [slot(row, place, page_tokens) for row, place in zip(rows, places, strict=True)],
                device=device,
            ),
            self._attention.plan(seen, device),
        )
        return text.logits(hidden)
