"""Judges that several benchmarks of a run share, and the judges of one benchmark, opened."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from loguru import logger

from mmie_tasks.core.log import warn
from mmie_tasks.judges.base import InProcess, Judge, JudgeMisconfigured, OnServer, SelfChecking
from mmie_tasks.judges.cache import unwrapped
from mmie_tasks.judges.model_variables import OWN_ADDRESS_HINT
from mmie_tasks.judges.other_models import warn_of_others
from mmie_tasks.judges.registry import plugin_errors
from mmie_tasks.judging.served_model import ServedModel, judges_itself, shared_server
from mmie_tasks.record.panel import Panel
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.signature import Signature

CHECK_VALID_S = 900.0
"""How long the check of a judge holds: later benchmarks of a run do not repeat it."""


@dataclass(slots=True)
class SharedJudge:
    """A judge that all benchmarks of a session use together, and its last check.

    Attributes:
        judge: The judge.
        name: As the user chose it, for messages.
        checked_until_s: Until when, on the monotonic clock, the last check holds.
        checked_images: The `max_images` of that check.
        warned_of: The other models that replied, of which the log has warned.
    """

    judge: Judge
    name: str = ""
    checked_until_s: float = 0.0
    checked_images: int = 0
    warned_of: set[str] = field(default_factory=set)

    @property
    def wrapped(self) -> Judge:
        """The judge without the cache around it."""
        return unwrapped(self.judge)

    @property
    def in_process(self) -> bool:
        """Whether its model runs in this process and takes its memory."""
        return isinstance(self.wrapped, InProcess)

    def check(self, tested: ServedModel | None = None, *, max_images: int = 0) -> None:
        """Check that the judge can be used, unless a check with as many pictures passed less than
        `CHECK_VALID_S` ago.

        The log warns of a server that is the judge's only because it is the tested model's.

        Args:
            tested: The tested model, if it is on a server.
            max_images: The most pictures that a request has.

        Raises:
            JudgeMisconfigured: It cannot reply as it is set up, or the tested model's server does
                not have it, or, of another package, it raised anything else.
            DataBroken: Its cache file is unusable.
        """
        if time.monotonic() < self.checked_until_s and max_images <= self.checked_images:
            return
        shared = shared_server(self.wrapped, tested)
        if shared:
            warn(f"{shared}.", hint=OWN_ADDRESS_HINT)
        with plugin_errors(self.name):
            if isinstance(self.wrapped, OnServer):
                self.wrapped.max_images = max_images
            if isinstance(self.judge, SelfChecking):
                self.judge.check()
            if shared and isinstance(self.wrapped, OnServer):
                from mmie_tasks.http.model_list import check_listed  # and the OpenAI SDK: a second

                judge = self.wrapped
                check_listed(judge.access, judge.model, JudgeMisconfigured, OWN_ADDRESS_HINT)
            if not self.in_process:  # there, the signature may start a device
                _ = self.judge.signature
        self.checked_until_s = time.monotonic() + CHECK_VALID_S
        self.checked_images = max_images

    def warn_of_others(self, replies: Iterable[JudgeReply]) -> None:
        """Warn of each other model than the judge's at its first reply."""
        models = {reply.model for reply in replies} - self.warned_of
        if models:
            warn_of_others(self.judge.signature, models)
        self.warned_of |= models

    def close(self) -> None:
        """Free the judge's memory if it runs in this process; it can be used again.

        A failure is logged: no result may be lost by it.
        """
        if isinstance(judge := self.wrapped, InProcess):
            try:
                judge.close()
            except Exception as error:  # noqa: BLE001 - a plugin, or a device that is out of order
                logger.warning(
                    f"The judge's memory could not be freed: {type(error).__name__}: {error}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJudges:
    """The judges of a benchmark, opened.

    Attributes:
        judges: One, or those of the panel in order.
        names: A short name for each, for log lines; one empty name without a panel.
        panel: How several judges make one verdict; None for a single judge.
    """

    judges: tuple[SharedJudge, ...]
    names: tuple[str, ...] = ("",)
    panel: Panel | None = None

    @property
    def signature(self) -> Signature:
        """Everything of the judges that can move a score."""
        return Signature.of_judges([shared.judge.signature for shared in self.judges], self.panel)

    def judges_itself(self, tested: ServedModel | None) -> str | None:
        """The first judge that is the tested model, as `served_model.judges_itself`; or None."""
        names = (judges_itself(shared.wrapped, tested) for shared in self.judges)
        return next(filter(None, names), None)
