"""A chat model that opens the image of each question and answers from the gold answers."""

from __future__ import annotations

from pathlib import Path

import torch
from lmms_eval.api.instance import Instance
from lmms_eval.api.model import lmms
from lmms_eval.models.registry_v2 import ModelManifest

TELLING = ModelManifest(model_id="telling", chat_class_path="support.telling_model.Telling")


class Telling(lmms):
    """Answers two of three questions right, after a `<think>` block; fails without the image."""

    is_simple = False

    def __init__(self, **_settings: object) -> None:
        super().__init__()
        self.device = torch.device("cpu")

    def generate_until(self, requests: list[Instance]) -> list[str]:
        return [self._answer(*request.args) for request in requests]

    def generate_until_multi_round(self, requests: list[Instance]) -> list[str]:
        return self.generate_until(requests)

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        return [(0.0, False)] * len(requests)

    def _answer(
        self,
        _ctx: str,
        doc_to_messages: object,
        _kwargs: object,
        doc_id: int,
        task: str,
        split: str,
    ) -> str:
        doc = self.task_dict[task][split][doc_id]
        Path(doc["image"]).read_bytes()
        return f"<think>\n{doc['gold']}?\n</think>\n{doc['gold'] if doc_id % 3 else 'no idea'}"
