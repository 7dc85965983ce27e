"""A chat model without weights. Only for runs of lmms-eval in a subprocess."""

from __future__ import annotations

import torch
from lmms_eval.api.instance import Instance
from lmms_eval.api.model import lmms
from loguru import logger


class StubChat(lmms):
    """Looks at every message and says the same word to each: ``--model_args answer=...``."""

    is_simple = False

    def __init__(self, answer: str = "red", **_settings: object) -> None:
        super().__init__()
        self.answer = answer
        self.device = torch.device("cpu")

    def generate_until(self, requests: list[Instance]) -> list[str]:
        logger.info(f"stub: generating {len(requests)} answers")
        for _ctx, doc_to_messages, _kwargs, doc_id, task, split in (r.args for r in requests):
            doc_to_messages(self.task_dict[task][split][doc_id])
        return [self.answer] * len(requests)

    def generate_until_multi_round(self, requests: list[Instance]) -> list[str]:
        return self.generate_until(requests)

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        return [(0.0, False)] * len(requests)
