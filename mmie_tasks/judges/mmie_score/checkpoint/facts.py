"""What an opened checkpoint says of itself, in plain numbers and words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Numbers of a checkpoint, read from its files and checked against each other.

    Attributes:
        system_message: The default one; it may be empty.
        image_px: Side of a tile.
        tokens_per_tile: How many tokens of the prompt a tile becomes.
        image_token_id: Of ``<IMG_CONTEXT>``.
        end_token_id: Of ``<|end|>``, the only token that stops.
        pad_token_id: What shorter prompts of a padded batch are filled with; it is masked.
        max_positions: The longest sequence, in tokens: 131072.
        long_after: Prompts of more tokens have the long rotary factors: 4096.
        weight_bytes: Of all tensors, as stored.
        dtype: Of most of the weights, as stored: ``bfloat16``, ``float16`` or ``float32``.
        hidden_size: Of the text model, like all that are not named for the vision model.
        layers: Of the text model.
        heads: Queries of a layer.
        kv_heads: Keys and values of a layer.
        head_dim: Numbers of one head.
        intermediate_size: Of the text model's feed-forward part.
        vocab_size: Rows of the embeddings and of the head; the tokenizer may have fewer tokens.
        vision_hidden_size: Of the vision model.
        vision_layers: Of the vision model.
        vision_intermediate_size: Of the vision model's feed-forward part.
    """

    system_message: str
    image_px: int
    tokens_per_tile: int
    image_token_id: int
    end_token_id: int
    pad_token_id: int
    max_positions: int
    long_after: int
    weight_bytes: int
    dtype: str
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    vision_hidden_size: int
    vision_layers: int
    vision_intermediate_size: int
