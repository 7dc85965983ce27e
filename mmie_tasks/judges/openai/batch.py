"""The `openai` judge with ``batch=true``: the provider's Batch API, at half the price.

Slower and cheaper than asking online: all requests go to the provider in files, and the replies are
there within 24 hours, most often sooner. The judge is the same, so the signature is, and a reply
that the cache has of one serves the other. A run that is interrupted in any way goes on where it
stopped when the same command is given again: see `batch_state`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

from loguru import logger

from mmie_tasks.errors import SettingWrong
from mmie_tasks.judges.base import Judge, JudgeRequest, Outcome, RequestBroken, content_key
from mmie_tasks.judges.openai import wire
from mmie_tasks.judges.openai.advice import missing_key
from mmie_tasks.judges.openai.batch_calls import Provider
from mmie_tasks.judges.openai.batch_files import Limits
from mmie_tasks.judges.openai.batch_outcomes import Reading
from mmie_tasks.judges.openai.batch_retry import BatchPace
from mmie_tasks.judges.openai.batch_run import Run
from mmie_tasks.judges.openai.batch_state import Submissions
from mmie_tasks.judges.openai.batch_work import Means, Work
from mmie_tasks.judges.openai.check import check
from mmie_tasks.judges.openai.settings import Settings, shown

DISCOUNT = 0.5
"""What a batch costs, as a fraction of the price of the same requests made one by one."""


def open_batch_judge(
    settings: Settings,
    *,
    limits: Limits | None = None,
    pace: BatchPace | None = None,
) -> Judge:
    """A judge that asks by way of batches. Nothing is asked yet.

    Args:
        settings: As of the online judge.
        limits: What goes into one file.
        pace: How long is waited.

    Raises:
        SettingWrong: There is a setting that batches cannot obey.
    """
    _refuse(settings)
    return BatchJudge(settings, limits or Limits(), pace or BatchPace())


def _refuse(settings: Settings) -> None:
    if settings.api_type == "azure":
        raise SettingWrong(
            "`batch=true` is not supported at Azure, where batches are another service.",
            hint="leave `batch=true` out",
        )
    if len(settings.base_urls) > 1:
        raise SettingWrong(
            f"`batch=true` was given with {len(settings.base_urls)} base URLs.",
            hint="give one: a batch is done by one server",
        )
    if settings.max_cost_usd is not None:
        raise SettingWrong(
            "`max_cost` cannot be kept with `batch=true`: a batch is paid for as a whole, and what "
            "it cost is known when it is over.",
            hint="leave one of them out; `--limit` makes a run smaller",
        )


class BatchJudge:
    """Asks by way of batches; see `open_batch_judge`."""

    def __init__(self, settings: Settings, limits: Limits, pace: BatchPace) -> None:
        self._settings = settings
        self._limits = limits
        self._pace = pace

    @property
    def signature(self) -> str:
        """That of the online judge: the replies are the same model's."""
        return self._settings.signature

    def check(self) -> None:
        """Return if key, server and model are right: see `check.check`. No batch is made.

        Raises:
            JudgeMisconfigured: They are not.
        """
        check(self._settings, pace=self._pace.tries)

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Give one outcome for each request, as batches end, with the request's index.

        The same request twice is asked once.
        """
        if (error := missing_key(self._settings)) is not None:
            yield from ((index, error) for index in range(len(requests)))
            return
        places: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            key = _key(request)
            if isinstance(key, RequestBroken):
                yield index, key
            else:
                places.setdefault(key, []).append(index)
        if not places:
            return
        with closing(self._asked({key: requests[at[0]] for key, at in places.items()})) as asked:
            for key, outcome in asked:
                yield from ((index, outcome) for index in places[key])

    def _asked(
        self, waiting: dict[str, JudgeRequest]
    ) -> Generator[tuple[str, Outcome], None, None]:
        provider = Provider(self._settings, self._pace)
        dialect = wire.dialect_of(self._settings.model)
        work = Work(waiting=waiting, dialect=dialect, limits=self._limits)
        try:
            yield from Run(work, self._means(provider)).outcomes()
        except (KeyboardInterrupt, GeneratorExit):
            if names := ", ".join(f"`{entry.batch}`" for entry in work.running):
                logger.warning(
                    f"mmie-tasks: the batches {names} go on at {provider.address}. Give the same "
                    "command again to wait for them; nothing is paid for twice."
                )
            raise
        finally:
            provider.close()

    def _means(self, provider: Provider) -> Means:
        settings = self._settings
        price = settings.price.times(DISCOUNT) if settings.price else None
        return Means(
            signature=self.signature,
            provider=provider,
            submissions=Submissions(
                settings.cache_dir / "judge" / "batches",
                server=shown(settings.base_urls[0]),
                signature=self.signature,
            ),
            reading=Reading(model=settings.model, price=price, secrets=settings.secrets),
            body_of=settings.body,
            pace=self._pace,
        )


def _key(request: JudgeRequest) -> str | RequestBroken:
    try:
        return content_key(request)
    except RequestBroken as error:
        return error
