"""A checkpoint in the official layout that always gives the same reply.

Only the last token counts: attention and feed-forward parts add zero, and the head has one row for
each token of the script, which matches the token before. So the model generates its script token by
token, with the same code as a real checkpoint.
"""

import shutil
from itertools import pairwise

import torch
from safetensors.torch import load_file, save_file

from mmie_tasks.judges.mmie_score.checkpoint.tokenizer import SlowLlamaTokenizer
from support.internvl_golden import CHECKPOINT, added_id

_ZEROED = ("o_proj.weight", "down_proj.weight")
_LARGE = 100.0


def write(folder, reply="### Score: 4"):
    """The golden checkpoint in a new folder with other weights; `reply` has no token twice."""
    shutil.copytree(CHECKPOINT, folder)
    tokenizer = SlowLlamaTokenizer(folder)
    start = added_id(tokenizer, "<s>")
    tokens = [token for token in tokenizer.encode(reply) if token != start]
    first, last = added_id(tokenizer, "<|assistant|>"), added_id(tokenizer, "<|end|>")
    script = [first, *tokens, last]
    assert len(set(script)) == len(script), "a token occurs twice"
    embeddings = torch.nn.functional.normalize(
        torch.randn(len(tokenizer), 64, generator=torch.Generator().manual_seed(5)), dim=-1
    )
    for shard in folder.glob("*.safetensors"):
        tensors = load_file(shard)
        for name, tensor in tensors.items():
            if name.endswith(_ZEROED):
                tensor.zero_()
            elif name == "language_model.model.embed_tokens.weight":
                tensor.copy_(embeddings)
            elif name == "language_model.lm_head.weight":
                tensor.zero_()
                for before, after in pairwise(script):
                    tensor[after] = _LARGE * embeddings[before]
            elif name == "language_model.model.norm.weight":
                tensor.fill_(1)
        save_file(tensors, shard, metadata={"format": "pt"})
    return folder
