"""A checkpoint whose attention heads are twice as wide, and that computes the same function.

vLLM's attention on CPUs has no heads of 16, those of the golden set. Everything that is added is
zero: half of the hidden size, and half of each head. The files stay in the official form.
"""

import json
import shutil

import torch
from safetensors.torch import load_file, save_file

_HALF = 0.5**0.5


def write(source, folder):
    """Write the checkpoint of a folder with wider heads into another one; that folder."""
    folder.mkdir(parents=True)
    for path in source.iterdir():
        if path.suffix != ".safetensors":
            shutil.copy(path, folder)
    content = json.loads((source / "config.json").read_text(encoding="utf-8"))
    text = content["llm_config"]
    heads, width = text["num_attention_heads"], text["hidden_size"]
    size = width // heads
    text["hidden_size"] = 2 * width
    text["rms_norm_eps"] /= 2  # the mean of the squares is half of what it was
    for name in ("short_factor", "long_factor"):
        text["rope_scaling"][name] = _factors(
            text["rope_scaling"][name], size, text.get("rope_theta", 10_000.0)
        )
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    for path in source.glob("*.safetensors"):
        weights = {
            name: _wide(name, weight.float(), heads, size)
            for name, weight in load_file(path).items()
        }
        save_file(weights, folder / path.name, metadata={"format": "pt"})
    return folder


def _factors(factors, size, theta):
    """Factors that give the frequencies of narrower heads; the added ones turn zeros."""
    same = [
        factor * theta ** (2 * i / size - 2 * i / (2 * size)) for i, factor in enumerate(factors)
    ]
    return [*same, *[1.0] * len(factors)]


def _wide(name, weight, heads, size):
    """A weight with zeros for the added half of its rows, columns, or each head."""
    width = heads * size
    if name.startswith(("vision_model.", "mlp1.0")):
        return weight
    if name.startswith("mlp1.1"):
        return _padded(weight, 0)
    if name.startswith("mlp1.3"):
        return _padded(_padded(weight, 0), 1) if weight.ndim == 2 else _padded(weight, 0)
    if name.endswith("norm.weight"):  # of the layers as well
        return _padded(weight * _HALF, 0)
    if name.endswith("qkv_proj.weight"):
        parts = _wide_heads(weight.view(3 * heads, size, width), 1).view(3, -1, width)
        parts[0] /= _HALF  # scores are divided by the root of a head's size
        return _padded(parts.flatten(0, 1), 1)
    if name.endswith("o_proj.weight"):
        return _padded(_wide_heads(weight.view(width, heads, size), 2).flatten(1), 0)
    return _padded(weight, 0 if name.endswith("down_proj.weight") else 1)


def _padded(weight, dim):
    return torch.cat((weight, torch.zeros_like(weight)), dim).contiguous()


def _wide_heads(weight, dim):
    """Each half of a head with zeros after it: the two halves are what a position rotates."""
    first, second = weight.chunk(2, dim)
    zeros = torch.zeros_like(first)
    return torch.cat((first, zeros, second, zeros), dim)
