"""A tested model that answers with words and pictures, in the form MMIE's tasks read best.

An answer is text. Pictures go into files, and the text is JSON that says what stands where:
``{"content": [{"type": "text", "text": ...}, {"type": "image", "path": ...}, ...]}``.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lmms_eval.api.instance import Instance
from lmms_eval.api.model import lmms
from PIL import Image, ImageDraw, ImageFont

SIZE = (512, 512)  # pixels; MMIE's judge looks at larger pictures in many tiles


class Drawing(lmms):
    """``--model drawing --model_args output_dir=DIR``."""

    is_simple = False  # it reads messages: text and images in their order

    def __init__(self, output_dir: str = "drawings", **_settings: object) -> None:
        super().__init__()
        self.device = torch.device("cpu")
        self.output_dir = Path(output_dir).absolute()  # so that a judge finds them from anywhere
        self.output_dir.mkdir(parents=True, exist_ok=True)

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """One answer for each request, in their order."""
        return [self._answer(*request.args) for request in requests]

    def generate_until_multi_round(self, requests: list[Instance]) -> list[str]:
        """Not needed for MMIE."""
        raise NotImplementedError

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Not needed for MMIE."""
        raise NotImplementedError

    def _answer(
        self,
        _prompt: str,
        doc_to_messages: Callable[[Any], list[dict[str, Any]]],
        _settings: dict[str, Any],
        doc_id: int,
        task: str,
        split: str,
    ) -> str:
        messages = doc_to_messages(self.task_dict[task][split][doc_id])
        parts = [part for message in messages for part in message["content"]]
        images = [part["url"] for part in parts if part["type"] == "image"]  # opened, as Pillow's
        content: list[dict[str, str]] = []
        for number in (1, 2):  # here a real model would write and draw
            words = f"Part {number}, after a look at {len(images)} of your pictures."
            path = self.output_dir / f"{task}-{doc_id}-{number}.png"  # a name for each picture
            draw(words, path)
            content += [{"type": "text", "text": words}, {"type": "image", "path": str(path)}]
        return json.dumps({"content": content}, ensure_ascii=False)


def draw(words: str, path: Path) -> None:
    """Write the words on a card."""
    card = Image.new("RGB", SIZE, "white")
    ImageDraw.Draw(card).text((20, 230), words, "black", ImageFont.load_default(size=24))
    card.save(path)
