"""A chat model that does not compute. Only for runs of lmms-eval in a process of its own."""

import torch
from lmms_eval.api.model import lmms
from loguru import logger


class StubChat(lmms):
    """Reads all messages and gives the same answer to each: ``--model_args answer=...``.

    With the answer ``none`` it raises.
    """

    is_simple = False

    def __init__(self, answer="red", **_settings):
        super().__init__()
        logger.info("stub: loaded")
        self.answer = answer
        self.device = torch.device("cpu")

    def generate_until(self, requests):
        logger.info(f"stub: generating {len(requests)} answers")
        for _ctx, doc_to_messages, _kwargs, doc_id, task, split in (r.args for r in requests):
            doc_to_messages(self.task_dict[task][split][doc_id])
        if self.answer == "none":
            raise RuntimeError("the stub has no answer")
        return [self.answer] * len(requests)

    def generate_until_multi_round(self, requests):
        return self.generate_until(requests)

    def loglikelihood(self, requests):
        return [(0.0, False)] * len(requests)
