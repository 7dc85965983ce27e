"""Tiny text-to-image pipelines with random weights, in the layout of diffusers.

A picture of them is coloured noise that depends on prompt and seed. Nothing is downloaded.
"""

import contextlib
import io
import json
import warnings

WIDTH = 32  # of the text encoder
PICTURE_PX = 32
"""Side of a picture that is drawn without a size, in pixels."""

MAX_TOKENS = 77  # what a text encoder of CLIP reads


def write_tiny_pipeline(folder, *, seed=0, flags_everything=False):
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


def _strict_checker():
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
    checker.concept_embeds_weights.data.fill_(-2)  # the least similarity that is rejected
    return checker


def _small_images():
    from transformers import CLIPImageProcessor

    return CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=32)


@contextlib.contextmanager
def quietly():
    """No progress bars, and no warnings of libraries about each other."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _text_encoder():
    from transformers import CLIPTextConfig, CLIPTextModel

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
        projection_dim=WIDTH,
    )
    return CLIPTextModel(config)


def tiny_tokenizer(folder):
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
