"""Tiny text-to-image pipelines with random weights, in the layout of diffusers.

A picture of them is coloured noise that depends on prompt and seed. Nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WIDTH = 32  # of the text encoder
PICTURE_PX = 32
"""Side of a picture that is drawn without a size, in pixels."""

MAX_TOKENS = 77  # what a text encoder of CLIP reads


def write_tiny_pipeline(folder: Path, *, seed: int = 0, flags_everything: bool = False) -> Path:
    """Write a Stable Diffusion with a few thousand random weights; return the folder.

    Args:
        folder: Made if it is not there.
        seed: Of the weights. The files of one seed are the same every time.
        flags_everything: Whether it has a safety checker, which rejects every picture.
    """
    import torch

    with quietly():
        from diffusers import (
            AutoencoderKL,
            DDIMScheduler,
            StableDiffusionPipeline,
            UNet2DConditionModel,
        )

    with torch.random.fork_rng(devices=[]), quietly():
        torch.manual_seed(seed)
        unet = UNet2DConditionModel(
            sample_size=PICTURE_PX // 2,
            block_out_channels=(8, 16),
            layers_per_block=1,
            norm_num_groups=4,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=WIDTH,
            attention_head_dim=4,
        )
        vae = AutoencoderKL(
            block_out_channels=(8, 8),
            norm_num_groups=4,
            latent_channels=4,
            down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
            up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
            sample_size=PICTURE_PX,
        )
        pipeline = StableDiffusionPipeline(
            vae=vae,
            text_encoder=_text_encoder(),
            tokenizer=tiny_tokenizer(folder / "tokenizer"),
            unet=unet,
            scheduler=DDIMScheduler(
                beta_schedule="scaled_linear",
                clip_sample=False,
                set_alpha_to_one=False,
                steps_offset=1,
            ),
            safety_checker=_strict_checker() if flags_everything else None,
            feature_extractor=_small_images() if flags_everything else None,
            requires_safety_checker=flags_everything,
        )
        pipeline.save_pretrained(folder, safe_serialization=True)
    return folder


def write_tiny_sd3(folder: Path) -> Path:
    """Write a Stable Diffusion 3: a transformer instead of a UNet, and three text encoders."""
    import torch

    with quietly():
        from diffusers import (
            AutoencoderKL,
            FlowMatchEulerDiscreteScheduler,
            SD3Transformer2DModel,
            StableDiffusion3Pipeline,
        )

    with torch.random.fork_rng(devices=[]), quietly():
        torch.manual_seed(0)
        transformer = SD3Transformer2DModel(
            sample_size=PICTURE_PX,
            patch_size=1,
            in_channels=4,
            num_layers=1,
            attention_head_dim=8,
            num_attention_heads=4,
            caption_projection_dim=32,
            joint_attention_dim=2 * WIDTH,
            pooled_projection_dim=2 * WIDTH,
            out_channels=4,
        )
        vae = AutoencoderKL(
            block_out_channels=(4,),
            norm_num_groups=4,
            latent_channels=4,
            sample_size=PICTURE_PX,
            shift_factor=0.06,
        )
        pipeline = StableDiffusion3Pipeline(
            transformer=transformer,
            scheduler=FlowMatchEulerDiscreteScheduler(),
            vae=vae,
            text_encoder=_text_encoder(projection=WIDTH),
            tokenizer=tiny_tokenizer(folder / "tokenizer"),
            text_encoder_2=_text_encoder(projection=WIDTH),
            tokenizer_2=tiny_tokenizer(folder / "tokenizer_2"),
            text_encoder_3=_t5(),
            tokenizer_3=tiny_tokenizer(folder / "tokenizer_3"),
        )
        pipeline.save_pretrained(folder, safe_serialization=True)
    return folder


def _t5() -> Any:
    from transformers import T5Config, T5EncoderModel

    return T5EncoderModel(
        T5Config(vocab_size=514, d_model=2 * WIDTH, d_ff=WIDTH, d_kv=8, num_layers=1, num_heads=2)
    )


def _strict_checker() -> Any:
    from diffusers.pipelines.stable_diffusion import StableDiffusionSafetyChecker
    from transformers import CLIPConfig

    vision = {
        "hidden_size": WIDTH,
        "intermediate_size": WIDTH,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 32,
        "patch_size": 16,
    }
    checker = StableDiffusionSafetyChecker(CLIPConfig(projection_dim=WIDTH, vision_config=vision))
    checker.concept_embeds_weights.data.fill_(
        -2
    )  # the least similarity to a concept that is rejected
    return checker


def _small_images() -> Any:
    from transformers import CLIPImageProcessor

    return CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=32)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """No progress bars, and no warnings of libraries about each other."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _text_encoder(projection: int = 0) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    config = CLIPTextConfig(
        vocab_size=514,
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=MAX_TOKENS,
        bos_token_id=512,
        eos_token_id=513,
        pad_token_id=513,
        projection_dim=projection or WIDTH,
    )
    return CLIPTextModelWithProjection(config) if projection else CLIPTextModel(config)


def tiny_tokenizer(folder: Path) -> Any:
    """A tokenizer of CLIP that knows all bytes and no words: one token a letter."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import CLIPTokenizer

    letters = sorted(ByteLevel.alphabet())
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    folder.mkdir(parents=True, exist_ok=True)
    vocab, merges = folder / "vocab.json", folder / "merges.txt"
    vocab.write_text(
        json.dumps({word: number for number, word in enumerate(words)}), encoding="utf-8"
    )
    merges.write_text("#version: 0.2\n", encoding="utf-8")
    return CLIPTokenizer.from_pretrained(folder, model_max_length=MAX_TOKENS)
