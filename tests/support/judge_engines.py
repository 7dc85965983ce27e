"""Prompts for the engine of the judge, and what plain ``generate()`` of transformers replies."""

from random import Random
from typing import NamedTuple

import numpy as np
import torch
from transformers import GenerationConfig
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

from mmie_tasks.judges.mmie_score.checkpoint import CheckpointLocation, open_checkpoint
from mmie_tasks.judges.mmie_score.inputs import JudgePrompt
from mmie_tasks.judges.mmie_score.native_model import load_model
from mmie_tasks.judges.mmie_score.tiles import read_tiles
from mmie_tasks.judges.mmie_score.transformers_engine import normalized
from support import internvl_golden as golden

CPU = torch.device("cpu")


def outputs(engine, prompts):
    """The tokens generated for each prompt, by its key; none may fail."""
    return {key: result.output for key, result in engine.run(prompts)}


def open_folder(folder):
    return open_checkpoint(CheckpointLocation(folder=folder, name="test"))


def golden_prompts():
    """A prompt of each golden case; the key is its number."""
    prompts = []
    for key, case in enumerate(golden.cases()):
        images = [read_tiles(path, golden.TILE_PX) for path in case.images]
        prompts.append(
            JudgePrompt(
                key=key,
                ids=[*case.input_ids],
                tiles=np.concatenate(images) if images else None,
                tile_counts=case.tiles,
                max_new_tokens=case.max_new_tokens,
            )
        )
    return prompts


def other_prompts(checkpoint):
    """Prompts of another size: two images of 13 tiles, and hundreds of tokens above the border."""
    config, random = checkpoint.config, Random(0)  # noqa: S311
    side, per_tile = config.vision_config.image_size, config.tokens_per_tile
    border = config.llm_config.original_max_position_embeddings
    pixels = np.random.default_rng(0)
    prompts = []
    for key, (tile_counts, words) in enumerate(
        [((13, 13), 40), ((13,), 9), ((1, 5), 3 * border), ((), border - 8), ((), 4), ((1,), 90)]
    ):
        ids = [1, *(random.randrange(30, 900) for _ in range(words))]
        for count in tile_counts:
            ids += [checkpoint.image_token_id] * (count * per_tile) + [17]
        tiles = pixels.integers(0, 256, (sum(tile_counts), side, side, 3), dtype=np.uint8)
        prompts.append(
            JudgePrompt(
                key=key,
                ids=ids,
                tiles=tiles if tile_counts else None,
                tile_counts=tile_counts,
                max_new_tokens=24,
            )
        )
    return prompts


class Reference(NamedTuple):
    """What transformers' own ``generate()`` replies to a prompt alone."""

    ids: list[int]  # up to and with the end token, or the prompt's limit of them
    logits: torch.Tensor  # of each step, (steps, vocabulary)


def references(checkpoint, prompts):
    """The reply to each prompt, with the rotary embedding of transformers: no code of ours is
    between the weights and the tokens.
    """
    model = load_model(checkpoint, device=CPU, dtype=torch.float32)
    text = model.model.language_model
    text.rotary_emb = Phi3RotaryEmbedding(text.config)
    return [_reference(model, checkpoint, prompt) for prompt in prompts]


@torch.inference_mode()
def _reference(model, checkpoint, prompt):
    pixels = {}
    if prompt.tiles is not None:
        pixels["pixel_values"] = normalized(torch.from_numpy(prompt.tiles), torch.float32)
    output = model.generate(
        input_ids=torch.tensor([prompt.ids]),
        generation_config=GenerationConfig(
            max_new_tokens=prompt.max_new_tokens,
            do_sample=False,
            eos_token_id=checkpoint.end_token_id,
            pad_token_id=checkpoint.end_token_id,
            return_dict_in_generate=True,
            output_logits=True,
        ),
        **pixels,
    )
    ids = output.sequences[0, len(prompt.ids) :].tolist()
    return Reference(ids=ids, logits=torch.cat(output.logits))
