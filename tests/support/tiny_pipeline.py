"""Tiny text-to-image pipelines with random weights, in the layout of diffusers.

A picture of them is coloured noise that depends on prompt and seed. Nothing is downloaded.
"""

import contextlib
import io
import json
import warnings

WIDTH = 32  # of the text encoder
LAYER = {"hidden_size": WIDTH, "intermediate_size": WIDTH}
LAYER |= {"num_hidden_layers": 1, "num_attention_heads": 2}
PICTURE_PX = 32  # side of a picture that is drawn without a size
MAX_TOKENS = 77  # what a text encoder of CLIP reads


def write_tiny_pipeline(folder, *, flags_everything=False):
    """Write a Stable Diffusion with a few thousand random weights, always the same; the folder.

    With `flags_everything` it has a safety checker, which rejects every picture.
    """
    import torch

    with quietly():
        import diffusers
        from transformers import CLIPImageProcessor

    with torch.random.fork_rng(devices=[]), quietly():
        torch.manual_seed(0)
        small_images = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=32)
        unet = diffusers.UNet2DConditionModel(
            sample_size=PICTURE_PX // 2,
            block_out_channels=(8, 16),
            layers_per_block=1,
            norm_num_groups=4,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=WIDTH,
            attention_head_dim=4,
        )
        vae = diffusers.AutoencoderKL(
            block_out_channels=(8, 8),
            norm_num_groups=4,
            latent_channels=4,
            down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
            up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
            sample_size=PICTURE_PX,
        )
        pipeline = diffusers.StableDiffusionPipeline(
            vae=vae,
            text_encoder=_text_encoder(),
            tokenizer=tiny_tokenizer(folder / "tokenizer"),
            unet=unet,
            scheduler=diffusers.DDIMScheduler(
                beta_schedule="scaled_linear",
                clip_sample=False,
                set_alpha_to_one=False,
                steps_offset=1,
            ),
            safety_checker=_strict_checker() if flags_everything else None,
            feature_extractor=small_images if flags_everything else None,
            requires_safety_checker=flags_everything,
        )
        pipeline.save_pretrained(folder, safe_serialization=True)
    return folder


def _strict_checker():
    from diffusers.pipelines.stable_diffusion import StableDiffusionSafetyChecker
    from transformers import CLIPConfig

    vision = {**LAYER, "image_size": 32, "patch_size": 16}
    checker = StableDiffusionSafetyChecker(CLIPConfig(projection_dim=WIDTH, vision_config=vision))
    checker.concept_embeds_weights.data.fill_(-2)  # the least similarity that is rejected
    return checker


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
        **LAYER,
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
