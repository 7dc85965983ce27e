"""The official checkpoint: found or downloaded, and checked without reading weights.

No file of a checkpoint is ever run, and no pickle is ever opened: ``conversation.py`` is parsed as
text, and weights are safetensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from mmie_tasks.core.files import readable_size
from mmie_tasks.judges.mmie_score.checkpoint import files
from mmie_tasks.judges.mmie_score.checkpoint.config import (
    END,
    IMAGE_CONTEXT,
    Config,
    read_config,
    read_message,
)
from mmie_tasks.judges.mmie_score.checkpoint.source import CheckpointLocation, locate
from mmie_tasks.judges.mmie_score.checkpoint.tokenizer import SlowLlamaTokenizer
from mmie_tasks.judges.mmie_score.checkpoint.weights import Weight, weights_of

__all__ = ["Checkpoint", "CheckpointLocation", "locate", "open_checkpoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint whose files were checked; its weights have not been read.

    Attributes:
        digest: Identifies its content; see `files.digest_of`.
        system_message: The default system message, from `message_file`; may be empty.
        message_file: The name of the file with the system message.
        image_token_id: The id of ``<IMG_CONTEXT>``.
        end_token_id: The id of ``<|end|>``, the only stop token.
        weight_bytes: Size of all tensors, as stored.
        dtype: Type of most weights, as stored: ``bfloat16``, ``float16`` or ``float32``.
        weights: Weights by official name.
    """

    location: CheckpointLocation
    digest: str
    config: Config = field(repr=False)
    tokenizer: SlowLlamaTokenizer = field(repr=False)
    system_message: str
    message_file: str
    image_token_id: int
    end_token_id: int
    weight_bytes: int
    dtype: str
    weights: Mapping[str, Weight] = field(repr=False)

    def description(self) -> str:
        """The content of the files, without the system message, which is not ours to show."""
        tokenizer, text = self.tokenizer, self.config.llm_config
        stripping = sum(token.rstrip for token in tokenizer.listed.values())
        updates = sum(len(weight) > 1 for weight in self.weights.values())
        return (
            f"InternVL2 with Phi-3, {readable_size(self.weight_bytes)} of {self.dtype}, "
            f"{text.num_hidden_layers} layers, vocabulary {text.vocab_size:,}, "
            f"tiles of {self.config.vision_config.image_size} px; "
            f"rope {text.rope_scaling.type}, long above "
            f"{text.original_max_position_embeddings:,} of {text.max_position_embeddings:,} "
            f"tokens; tokenizer legacy={str(tokenizer.legacy).lower()}, {len(tokenizer.added)} "
            f"added tokens, {stripping} with rstrip; system message of "
            f"{len(self.system_message)} characters in `{self.message_file}`; "
            f"digest {self.digest}"
        ) + (f"; a LoRA fine-tune of {updates} weights is merged when loaded" if updates else "")


def open_checkpoint(location: CheckpointLocation) -> Checkpoint:
    """Read and check everything but the weights, in seconds, without torch.

    Raises `JudgeMisconfigured` if a file is missing, damaged, of another model, or does not fit the
    others.
    """
    folder = location.folder
    files.require(folder, [files.CONFIG])
    content = files.read_object(folder / files.CONFIG)
    config = read_config(content, folder / files.CONFIG)
    files.require(folder, [files.TOKENIZER, files.TOKENIZER_CONFIG])
    message = read_message(folder, content)
    shards = files.find_shards(folder)
    tensors = files.read_headers(shards)
    tokenizer = SlowLlamaTokenizer(folder)
    if len(tokenizer) > config.llm_config.vocab_size:
        raise files.unusable(
            f"The tokenizer in `{folder}` has {len(tokenizer)} tokens, and `llm_config.vocab_size` "
            f"in `{files.CONFIG}` is {config.llm_config.vocab_size}: they are not of the same "
            "model."
        )
    small_files = (folder / name for name in (files.CONFIG, *files.TOKENIZER_FILES, message.file))
    existing = [path for path in dict.fromkeys(small_files) if path.is_file()]
    bytes_by_dtype: Counter[str] = Counter()
    for tensor in tensors:
        bytes_by_dtype[files.DTYPES[tensor.dtype]] += tensor.n_bytes
    return Checkpoint(
        location=location,
        digest=files.digest_of(existing, shards),
        config=config,
        tokenizer=tokenizer,
        system_message=message.text,
        message_file=message.file,
        image_token_id=tokenizer.mark_ids[IMAGE_CONTEXT],
        end_token_id=tokenizer.mark_ids[END],
        weight_bytes=bytes_by_dtype.total(),
        dtype=bytes_by_dtype.most_common(1)[0][0],
        weights=weights_of(tensors),
    )
