"""The chat front of MMIE-Score in ``vllm serve``: a chat request becomes our token ids and tiles.

vLLM's own tokenizers, chat templates and image processors never run. vLLM joins the text of a reply
from the pieces of our tokenizer; it drops an unfinished character at the end.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from vllm.config import VllmConfig
from vllm.inputs import EngineInput
from vllm.renderers import BaseRenderer, ChatParams, TokenizeParams

from mmie_tasks.judges.base import JudgeError
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, locate, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.config import END, SYSTEM
from mmie_tasks.judges.mmie_score.checkpoint.tokenizer import SlowLlamaTokenizer
from mmie_tasks.judges.mmie_score.inputs import prompt_of
from mmie_tasks.judges.mmie_score.vllm.model import engine_input, marked, official_config

_DATA_URI = "base64,"


class MmieScoreTokenizer(SlowLlamaTokenizer):
    """The official tokenizer with the methods that vLLM calls (``TokenizerLike``).

    ``<|end|>`` is its end token, so that a request ends where the official code ends it.
    """

    is_fast = False
    truncation_side = "left"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.eos_token_id = self.pad_token_id = self.mark_ids[END]
        self.bos_token_id = self.encode(SYSTEM)[0]
        self.vocab_size = len(self)
        # The one after the vocabulary marks long prompts: see `marked`.
        self.max_token_id = official_config(folder).llm_config.vocab_size
        self.all_special_ids = sorted(self._special_ids)
        self.all_special_tokens = sorted(self._special)

    @classmethod
    def from_pretrained(
        cls, model: str | Path, *_: object, revision: str | None = None, **__: object
    ) -> MmieScoreTokenizer:
        """The tokenizer of a folder or repository."""
        return cls(locate(str(model), revision).folder)

    def __deepcopy__(self, _: object) -> MmieScoreTokenizer:
        return self  # it has no state

    def get_vocab(self) -> Mapping[str, int]:
        """Ids by piece or added token."""
        return self._ids

    def get_added_vocab(self) -> Mapping[str, int]:
        """Ids by added token, which vLLM puts between spaces, as the official code does."""
        return self._by_content

    def decode(self, ids: Sequence[int] | int, **_: object) -> str:
        """The text of tokens without special ones."""
        return super().decode([ids] if isinstance(ids, int) else ids)

    def convert_ids_to_tokens(
        self, ids: Iterable[int], skip_special_tokens: bool = False
    ) -> list[str]:
        """Pieces and added tokens; none for the mark of long prompts."""
        return [
            self.listed[i].content if i in self.listed else self._pieces[i]
            for i in ids
            if i < len(self) and not (skip_special_tokens and i in self._special_ids)
        ]

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """The text of pieces."""
        return self._joined(tokens)


class MmieScoreRenderer(BaseRenderer[MmieScoreTokenizer]):  # type: ignore[misc]
    """Makes the engine's inputs from chat requests, in threads."""

    def __init__(self, config: VllmConfig, tokenizer: MmieScoreTokenizer) -> None:
        super().__init__(config, tokenizer)
        model = config.model_config
        self._checkpoint = open_checkpoint(locate(str(model.model), model.revision))

    def render_messages(self, *_: object) -> tuple[list[object], EngineInput]:
        """Part of vLLM's own `render_chat`, which is not used."""
        raise NotImplementedError

    def render_chat(
        self,
        conversations: Sequence[Sequence[Mapping[str, object]]],
        chat_params: ChatParams,  # noqa: ARG002 - of templates
        tok_params: TokenizeParams | None = None,
        **_: object,
    ) -> tuple[list[list[object]], list[EngineInput]]:
        """The conversations, and the engine's inputs for them."""
        inputs = [self._input(messages, tok_params) for messages in conversations]
        return [[] for _ in conversations], inputs

    async def render_chat_async(
        self,
        conversations: Sequence[Sequence[Mapping[str, object]]],
        chat_params: ChatParams,
        tok_params: TokenizeParams | None = None,
        **options: object,
    ) -> tuple[list[list[object]], list[EngineInput]]:
        """Like `render_chat`."""
        return await asyncio.to_thread(
            self.render_chat, conversations, chat_params, tok_params, **options
        )

    def _input(
        self, messages: Sequence[Mapping[str, object]], limits: TokenizeParams | None
    ) -> EngineInput:
        """Raises `ValueError`, which the server answers with status 400."""
        arrival_time = time.time()
        try:
            rendered = chat_input(messages, self._checkpoint)
        except JudgeError as error:
            raise ValueError(str(error)) from error
        count = len(rendered["prompt_token_ids"])
        longest = count + (limits.max_output_tokens or 0 if limits else 0)
        if longest > (most := self.model_config.max_model_len):
            raise ValueError(
                f"this request may come to {longest:,} tokens, and the server allows {most:,}"
            )
        rendered["arrival_time"] = arrival_time
        return rendered


def chat_input(messages: Sequence[Mapping[str, object]], checkpoint: Checkpoint) -> EngineInput:
    """The engine's input for a chat of one user message with texts, and images as data URIs.

    Raises:
        ValueError: There is another message, or another kind of content.
        JudgeError: An image cannot be read, or the prompt does not fit the model.
    """
    match list(messages):
        case [{"role": "user", "content": str(text)}]:
            parts: list[str | bytes] = [text]
        case [{"role": "user", "content": content}] if isinstance(content, Iterable):
            parts = [_part(part) for part in content]
        case _:
            raise ValueError("MMIE-Score takes one user message, and no system message")
    prompt = prompt_of(parts, checkpoint)
    return engine_input(
        marked(prompt.ids, checkpoint.config),
        prompt.tiles,
        prompt.tile_counts,
        image_token_id=checkpoint.image_token_id,
        tokens_per_tile=checkpoint.config.tokens_per_tile,
    )


def _part(part: object) -> str | bytes:
    """A text, or the bytes of an image file."""
    match part:
        case str(text) | {"type": "text", "text": str(text)}:
            return text
        case {"type": "image_url", "image_url": {"url": str(url)}} if _DATA_URI in url[:80]:
            try:
                return base64.b64decode(url.partition(_DATA_URI)[2], validate=True)
            except binascii.Error as error:
                raise ValueError(f"an image is not base64: {error}") from error
    raise ValueError("a message consists of `text`, and of `image_url` with a data URI")
