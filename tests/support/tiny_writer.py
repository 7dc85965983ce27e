"""A tiny language-vision model with random weights in the layout of the Hub, which lmms-eval loads
as any other.
"""

from __future__ import annotations

from pathlib import Path

WORDS = [
    "[picture]",
    "[Picture 1]",
    "<picture>",
    "\n",
    "A",
    "red",
    "door",
    "opens",
    "slowly",
    "near",
    "harbour",
    ".",
]
_SPECIAL = ["<unk>", "<pad>", "<s>", "</s>", "<image>"]
_TEMPLATE = (
    "{% for message in messages %}{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}{% endfor %}"
)


def write_tiny_writer(folder: Path) -> Path:
    """Write a LLaVA of a few thousand weights, whose vocabulary is `WORDS`: it writes markers by
    chance.
    """
    import numpy as np
    import torch
    from tokenizers import Regex, Tokenizer
    from tokenizers.decoders import Fuse
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )

    vocabulary = {word: i for i, word in enumerate([*_SPECIAL, *(f" {word}" for word in WORDS)])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Split(Regex(r"\s+"), "removed")
    tokenizer.decoder = Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        model_input_names=["input_ids", "attention_mask"],
    )
    fast.add_special_tokens({"additional_special_tokens": ["<image>"]})
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            image_size=28,
            patch_size=14,
            projection_dim=16,
        ),
        text_config=LlamaConfig(
            vocab_size=len(vocabulary),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=4096,
        ),
        image_token_index=vocabulary["<image>"],
        vision_feature_layer=-1,
    )
    model = LlavaForConditionalGeneration(config)
    weights = np.random.RandomState(12)  # it writes text and markers; the same with every torch
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.from_numpy(weights.normal(0, 0.5, tuple(parameter.shape))))
    model.generation_config.suppress_tokens = list(range(len(_SPECIAL)))
    model.save_pretrained(folder)
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessor(
            size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
        ),
        tokenizer=fast,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_TEMPLATE,
    )
    processor.save_pretrained(folder)
    return folder
