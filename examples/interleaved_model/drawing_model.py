"""A tested model that answers with text and images, in the form that MMIE's tasks expect.

Images are saved to files, and the answer is a text: the JSON of all parts in order:
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

SIZE = (512, 512)  # pixels; MMIE's judge splits larger images into many tiles


class Drawing(lmms):
    """``--model drawing --model_args output_dir=DIR``."""

    is_simple = False  # takes messages: text and images in order

    def __init__(self, output_dir: str = "drawings", **_settings: object) -> None:
        super().__init__()
        self.device = torch.device("cpu")
        self.output_dir = Path(output_dir).absolute()  # image paths are valid in any directory
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
        images = [part["url"] for part in parts if part["type"] == "image"]  # Pillow images
        content: list[dict[str, str]] = []
        for number in (1, 2):  # a real model would generate here
            text = f"Part {number}: the question has {len(images)} images."
            path = self.output_dir / f"{task}-{doc_id}-{number}.png"  # unique for each image
            draw(text, path)
            content += [{"type": "text", "text": text}, {"type": "image", "path": str(path)}]
        return json.dumps({"content": content}, ensure_ascii=False)


def draw(text: str, path: Path) -> None:
    """Draw the text on a white image and save it."""
    image = Image.new("RGB", SIZE, "white")
    ImageDraw.Draw(image).text((20, 230), text, "black", ImageFont.load_default(size=24))
    image.save(path)
