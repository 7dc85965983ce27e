"""A checkpoint in the official layout that always says the same: real code, weights made by hand.

Nothing but the last token counts in it: attention and feed-forward parts add zero, and the head
has one row for each token of the script, which answers to the token before. So it says its script
token by token, through everything that a real checkpoint goes through.
"""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from mmie_tasks.judges.mmie_score.tokenizer import SlowLlamaTokenizer
from support.internvl_golden import CHECKPOINT

_SILENT = ("o_proj.weight", "down_proj.weight")
_LOUD = 100.0


def write(folder: Path, says: str = "### Score: 4") -> Path:
    """The golden checkpoint in a new folder, with other weights; no token of `says` twice."""
    shutil.copytree(CHECKPOINT, folder)
    tokenizer = SlowLlamaTokenizer.from_folder(folder)
    said = [token for token in tokenizer.encode(says) if token != tokenizer.id_of("<s>")]
    first, last = tokenizer.id_of("<|assistant|>"), tokenizer.id_of("<|end|>")
    assert first is not None
    assert last is not None
    script = [first, *said, last]
    assert len(set(script)) == len(script), "a token comes twice"
    words = torch.nn.functional.normalize(
        torch.randn(len(tokenizer), 64, generator=torch.Generator().manual_seed(5)), dim=-1
    )
    for shard in folder.glob("*.safetensors"):
        tensors = load_file(shard)
        for name, tensor in tensors.items():
            if name.endswith(_SILENT):
                tensor.zero_()
            elif name == "language_model.model.embed_tokens.weight":
                tensor.copy_(words)
            elif name == "language_model.lm_head.weight":
                tensor.zero_()
                for before, after in pairwise(script):
                    tensor[after] = _LOUD * words[before]
            elif name == "language_model.model.norm.weight":
                tensor.fill_(1)
        save_file(tensors, shard, metadata={"format": "pt"})
    return folder
