"""MMIE-Score on a server that ``mmie-tasks serve`` started, asked by the judge `openai`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from urllib.parse import urlsplit

import httpx
from loguru import logger

from mmie_tasks.core.errors import first_line
from mmie_tasks.judges.base import (
    Judge,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeRequest,
    Outcome,
    RequestCounts,
    RequestUnfit,
)
from mmie_tasks.judges.mmie_score.inputs import UNFIT_FIELDS
from mmie_tasks.judges.openai.judge import OpenAIJudge
from mmie_tasks.judges.openai.settings import OpenAIOptions
from mmie_tasks.record.reply import JudgeReply

_NAME = re.compile(r"MMIE-Score@[0-9a-f]{12}(-\w+)?")
_CHECK_TIMEOUT_S = 30.0
_CHECK_PAUSES_S = (1.0, 3.0)


def served_name(digest: str, dtype: str = "auto") -> str:
    """The name of a checkpoint in the list of its server, and in the signature.

    >>> served_name("0123456789ab"), served_name("0123456789ab", "float16")
    ('MMIE-Score@0123456789ab', 'MMIE-Score@0123456789ab-float16')
    """
    return f"MMIE-Score@{digest}" + ("" if dtype == "auto" else f"-{dtype}")


def served_signature(name: str) -> Mapping[str, object]:
    """The signature of replies by a server: the checkpoint's content, and no host."""
    return {"judge": "mmie_score", "model": name, "engine": "vllm"}


def listed_models(base_url: str, key: str, timeout_s: float = _CHECK_TIMEOUT_S) -> list[str]:
    """The names in a server's list of models; raises `httpx.HTTPError` or `ValueError`."""
    answer = httpx.get(
        f"{base_url}/models", headers={"Authorization": f"Bearer {key}"}, timeout=timeout_s
    )
    answer.raise_for_status()
    return [str(model["id"]) for model in answer.json()["data"]]


class ServedMmieScore(Judge):
    """MMIE-Score at an address.

    Args:
        base_url: ``http://HOST:PORT/v1``.
        model: The name that the server has to have; empty for the one that it has.
        environment: Contains ``JUDGE_API_KEY`` if the server wants a key.
        timeout_s: Longest time of one attempt; a request may wait for others in the server.
        patience_s: Without any reply for so long, all open requests are given up. A server that
            died may be started again in that time.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        environment: Mapping[str, str],
        *,
        max_concurrency: int = 256,
        timeout_s: float = 600,
        patience_s: float = 600,
    ) -> None:
        self._requested = model
        self._key = environment.get("JUDGE_API_KEY") or "EMPTY"
        self._environment = {**environment, "JUDGE_API_KEY": self._key}
        self._options = OpenAIOptions(
            model="MMIE-Score",
            base_url=base_url,
            max_concurrency=max_concurrency,
            timeout=timeout_s,
            patience=patience_s,
        )
        access = self._options.access(self._environment)  # raises `SettingWrong`
        self._base_url, self.address = access.base_url, access.address

    @cached_property
    def served(self) -> str:
        """The model's name in the server's list; raises like `check`."""
        hint = (
            "`mmie-tasks serve` starts one, where `pip install 'mmie-tasks[vllm]'` was run; or "
            "correct `base_url=`, which ends in `/v1`"
        )
        try:
            names = self._listed()
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise JudgeMisconfigured(
                f"There is no server of MMIE-Score at {self.address}: "
                f"{type(error).__name__}: {first_line(error)}",
                hint=hint,
            ) from error
        ours = [name for name in names if _NAME.fullmatch(name)]
        if self._requested in ours:
            return self._requested
        listed = ", ".join(f"`{name}`" for name in ours or names) or "no model"
        if self._requested:
            raise JudgeMisconfigured(
                f"The server at {self.address} has {listed}, and not `{self._requested}`.",
                hint="leave `model=` out, or name what it has; a digest is a checkpoint's",
            )
        if not ours:
            raise JudgeMisconfigured(
                f"The server at {self.address} has {listed}, and no `MMIE-Score@DIGEST`.", hint=hint
            )
        return ours[0]

    def _listed(self) -> list[str]:
        for pause_s in _CHECK_PAUSES_S:
            try:
                return listed_models(self._base_url, self._key)
            except httpx.TransportError:  # noqa: PERF203 - once a second
                time.sleep(pause_s)
        return listed_models(self._base_url, self._key)

    @cached_property
    def _openai(self) -> OpenAIJudge:
        options = self._options.model_copy(update={"model": self.served})
        return OpenAIJudge(options, self._environment)

    @property
    def signature(self) -> Mapping[str, object]:
        """See `served_signature`; raises like `check`."""
        return served_signature(self.served)

    def check(self, max_images: int = 0) -> None:  # noqa: ARG002 - as `Judge.check`
        """Ask the server what it has, and log it.

        Raises:
            JudgeMisconfigured: It does not answer, or has another model or none of ours.
        """
        logger.info(f"The judge is {self.served}, by vLLM at {self.address}.")

    def counts(self) -> RequestCounts:
        """See `Judge.counts`."""
        return self._openai.counts()

    def machine(self) -> str:
        """The server's host, for the provenance of a run."""
        return f"vLLM at {urlsplit(self.address).hostname}"

    def stop(self) -> None:
        """See `Judge.stop`."""
        self._openai.stop()

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes as they arrive; what the server refuses is `RequestUnfit`."""
        sent = []
        for index, request in enumerate(requests):
            if request.system or request.schema:
                yield index, RequestUnfit(UNFIT_FIELDS)
            else:
                sent.append(index)
        for number, outcome in self._openai.ask([requests[index] for index in sent]):
            if isinstance(outcome, JudgeRefused):
                outcome = RequestUnfit(str(outcome))
            elif isinstance(outcome, JudgeReply):
                outcome = replace(
                    outcome, text=outcome.text.strip(), usage=replace(outcome.usage, cost_usd=0.0)
                )
            yield sent[number], outcome
