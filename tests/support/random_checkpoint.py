"""Checkpoints in the official layout, of any size, with random weights.

The tokenizer is that of the golden set; it has no weights, and no size matters to it. Random
weights are scaled so that activations stay where they are in trained models, attention looks at
few tokens, and logits are as far apart as in the golden set. The replies make no sense, and are
reproducible.
"""

import json
import math
import shutil
from dataclasses import dataclass
from zlib import crc32

import torch
from safetensors.torch import save_file

from mmie_tasks.judges.mmie_score.checkpoint.config import read_config
from mmie_tasks.judges.mmie_score.checkpoint.tokenizer import SlowLlamaTokenizer
from mmie_tasks.judges.mmie_score.native_model import empty_model, native_names
from support.internvl_golden import CHECKPOINT, added_id

GAIN = 1.3  # of a layer: size of its outputs for inputs of size 1
LOGIT_STD = 4.0
SPREAD = 0.2  # of norms around 1, and of biases around 0
DTYPE, PER_FILE = torch.bfloat16, 24  # as stored; tensors of a file, 1 GB of the real size


def expected_shapes(config):
    """The shapes of all weights of the official model, by official name."""
    model = empty_model(config, image_token_id=0)
    native, shapes = model.state_dict(), {}
    for official, names in native_names(model).items():
        rows, *others = native[names[0]].shape
        shapes[official] = (len(names) * rows, *others)
    return shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model's sizes, as fields of ``config.json``."""

    vision: dict[str, int]
    text: dict[str, int]
    image_px: int  # side of a tile, a multiple of 28


def _sizes(hidden, layers, heads, intermediate):
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    return dict(zip(names, (hidden, layers, heads, intermediate), strict=True))


# The vocabulary has at least 1000 tokens, those of the golden tokenizer; no other is generated.
REAL = Shape(
    vision=_sizes(1024, 24, 16, 4096),
    text={
        **_sizes(3072, 32, 32, 8192),
        "num_key_value_heads": 32,
        "vocab_size": 32_020,
        "original_max_position_embeddings": 4096,
        "max_position_embeddings": 131_072,
    },
    image_px=448,
)
"""InternVL2-4B: 4.15 B weights, 8.3 GB as bfloat16."""

TINY_SHAPE = Shape(
    vision=_sizes(64, 2, 2, 128),
    text={
        **_sizes(192, 2, 2, 256),
        "num_key_value_heads": 2,
        "vocab_size": 1000,
        "original_max_position_embeddings": 146,
        "max_position_embeddings": 8192,
    },
    image_px=84,
)
"""As small as the layers allow, with heads of the real width: 1 M weights, for trials."""


def write(folder, shape, *, seed=0, ends=True, device="cpu"):
    """Write a checkpoint into a new folder, one file of weights after another: only one is in
    memory. The same seed gives the same weights on one kind of `device`. Without `ends`,
    ``<|end|>`` cannot be generated, and every reply runs into its limit.
    """
    folder.mkdir(parents=True)
    for path in CHECKPOINT.iterdir():
        if path.suffix != ".safetensors" and not path.name.endswith("index.json"):
            shutil.copyfile(path, folder / path.name)
    content = config_content(shape)
    (folder / "config.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    shapes = expected_shapes(read_config(content, folder / "config.json"))
    tokenizer = SlowLlamaTokenizer(folder)
    never_generated = [*range(len(tokenizer), shape.text["vocab_size"])]
    never_generated += [] if ends else [added_id(tokenizer, "<|end|>")]
    tensors = _Weights(shape, seed, never_generated, device)
    weight_map = {}
    file_names = [[*shapes][at : at + PER_FILE] for at in range(0, len(shapes), PER_FILE)]
    for number, names in enumerate(file_names, 1):
        file = f"model-{number:05}-of-{len(file_names):05}.safetensors"
        weights = {name: tensors.weight(name, shapes[name]).to("cpu", DTYPE) for name in names}
        save_file(weights, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(names, file)
    index = json.dumps({"weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    return folder


def config_content(shape):
    """``config.json`` of the golden set with other sizes."""
    content = json.loads((CHECKPOINT / "config.json").read_bytes())
    factors = shape.text["hidden_size"] // shape.text["num_attention_heads"] // 2
    content |= {
        "force_image_size": shape.image_px,
        "hidden_size": shape.text["hidden_size"],
        "torch_dtype": "bfloat16",
    }
    rope = {
        "type": "su",
        "short_factor": [round(1 + 1.75 * n / (factors - 1), 4) for n in range(factors)],
        "long_factor": [round(1.03 + 63 * (n / (factors - 1)) ** 2, 4) for n in range(factors)],
    }
    content["llm_config"] |= {**shape.text, "rope_scaling": rope}
    content["vision_config"] |= shape.vision | {"image_size": shape.image_px, "patch_size": 14}
    return content


@dataclass(frozen=True, slots=True)
class _Weights:
    """Random weights by their official names; each has its own seed."""

    shape: Shape
    seed: int
    never_generated: list[int]  # rows of the head that are never the largest
    device: str

    def weight(self, name, shape):
        """In fp32."""
        generator = torch.Generator(self.device).manual_seed(crc32(f"{self.seed} {name}".encode()))
        values = torch.randn(shape, generator=generator, device=self.device)
        if name.endswith("lm_head.weight"):
            values *= LOGIT_STD / math.sqrt(shape[-1])
            values[self.never_generated] = 0
        elif name.endswith((".ls1", ".ls2")):
            values = (1 + SPREAD * values) * self._damping(self.shape.vision["num_hidden_layers"])
        elif name.endswith(".bias"):
            values *= SPREAD
        elif len(shape) == 1:
            values = 1 + SPREAD * values
        elif "embed_tokens" not in name and "embeddings.class" not in name:
            values *= self._gain(name, shape)
        return values

    def _gain(self, name, shape):
        if "position_embedding" in name:
            return 0.5
        gain = GAIN / math.sqrt(math.prod(shape[1:]))
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            return gain * self._damping(self.shape.text["num_hidden_layers"])
        return gain

    def _damping(self, layers):
        """Keeps the sum of many layers as large as that of two."""
        return min(1.0, math.sqrt(2 / layers))
