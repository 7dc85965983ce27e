"""A model with the batch loop of the runner's Hugging Face models, which answers with what it was
shown.

The loop is that of lmms-eval 0.7.3, ``models/simple/qwen2_5_vl.py``: requests with equal generation
options share batches, and a batch is read by the functions of its first request. Only for runs of
lmms-eval in a process of its own.
"""

from __future__ import annotations

import hashlib
import json

import torch
from lmms_eval.api.instance import Instance
from lmms_eval.api.model import lmms
from lmms_eval.models.registry_v2 import ModelManifest
from lmms_eval.utils import Collator
from loguru import logger
from PIL.Image import Image

BATCHING = ModelManifest(
    model_id="batching", simple_class_path="support.batching_model.BatchingSimple"
)


def digest(image: Image) -> str:
    """Identifies an image by its pixels."""
    return hashlib.sha256(image.convert("RGB").tobytes()).hexdigest()


class BatchingSimple(lmms):
    """Answers with the digests of the images that were opened for a request."""

    def __init__(self, batch_size: int = 1, **_settings: object) -> None:
        super().__init__()
        self.batch_size = int(batch_size)
        self.device = torch.device("cpu")

    def generate_until(self, requests: list[Instance]) -> list[str]:
        collator = Collator(
            [request.args for request in requests],
            lambda args: (-len(args[0]), args[0]),
            grouping=True,
        )
        answers: list[str] = []
        for chunk in collator.get_batched(n=self.batch_size):
            _contexts, _kwargs, doc_to_visual, doc_ids, tasks, splits = zip(*chunk, strict=True)
            logger.info(f"a batch of {len(chunk)}")
            docs = self.task_dict[tasks[0]][splits[0]]
            answers += [
                json.dumps([digest(image) for image in doc_to_visual[0](docs[i])]) for i in doc_ids
            ]
        return collator.get_original(answers)

    def generate_until_multi_round(self, requests: list[Instance]) -> list[str]:
        return self.generate_until(requests)

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        return [(0.0, False)] * len(requests)
