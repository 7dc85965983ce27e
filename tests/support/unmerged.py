"""A checkpoint's weights as an unmerged LoRA fine-tune, whose sum is the checkpoint itself."""

import torch

RANK = 4
TARGETS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "attn.qkv", "attn.proj", "fc1", "fc2")


def wrapped(name):
    """A name as the wrapper of peft makes it."""
    model, _, rest = name.partition(".")
    return f"{model}.base_model.model.{rest}" if model != "mlp1" else name


def split(tensors):
    """Take an update out of every target, so that merging gives back the very same weight."""
    generator = torch.Generator().manual_seed(0)
    parts = {}
    for name, tensor in tensors.items():
        stem, _, kind = wrapped(name).rpartition(".")
        if not stem.endswith(TARGETS):
            parts[wrapped(name)] = tensor
        elif kind == "bias":
            parts[f"{stem}.base_layer.bias"] = tensor
        else:
            # Small powers of two: sums and products are exact in fp32.
            down = torch.randint(-2, 3, (RANK, tensor.shape[1]), generator=generator) / 8
            up = torch.randint(-2, 3, (tensor.shape[0], RANK), generator=generator) / 8
            parts[f"{stem}.base_layer.weight"] = tensor.float() - 2 * up @ down
            parts[f"{stem}.lora_A.default.weight"] = down.to(torch.bfloat16)
            parts[f"{stem}.lora_B.default.weight"] = up.to(torch.bfloat16)
    return parts
