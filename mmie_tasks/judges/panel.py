"""A judge that asks several judges; `record.judgement` combines their verdicts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

from mmie_tasks.judges.base import Judge, JudgeRequest, Outcome, close_judge
from mmie_tasks.judges.cache import outcomes_of
from mmie_tasks.record.signature import Signature

if TYPE_CHECKING:
    from mmie_tasks.hub.asset import Asset


_Arrived: TypeAlias = "SimpleQueue[tuple[int, Outcome] | BaseException | None]"


class PanelJudge(Judge):
    """Asks two or more judges at the same time, but those in this process one after another.

    A judge that fails or raises costs only its own replies.
    """

    def __init__(self, members: Sequence[Judge]) -> None:
        self._members = tuple(members)
        self._takes_turns = sum(member.in_process for member in members) > 1
        self._turn = threading.Lock()  # held by the judge whose model has this process's memory

    @property
    def members(self) -> tuple[Judge, ...]:
        """The judges, in order."""
        return self._members

    @property
    def signature(self) -> Mapping[str, object]:
        """The values of all judges, joined; see `Signature.fields`."""
        return Signature.of_judges([one.signature for one in self.members]).fields

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes of all judges as they arrive; see `Judge.ask`.

        If one is interrupted, all are stopped, and what has arrived by then is still yielded.
        """
        arrived: _Arrived = SimpleQueue()
        is_closed = threading.Event()
        running = len(self.members)
        interrupt: BaseException | None = None
        with ThreadPoolExecutor(1) as in_turn, ThreadPoolExecutor(running) as together:
            for position, member in enumerate(self.members):
                pool = in_turn if member.in_process else together
                pool.submit(self._collect, position, requests, arrived, is_closed)
            try:
                while running:
                    match arrived.get():
                        case None:
                            running -= 1
                        case BaseException() as error:
                            interrupt = error
                            self.stop()
                        case outcome:
                            yield outcome
            finally:
                is_closed.set()
                if running:
                    self.stop()
        if interrupt is not None:
            raise interrupt

    def _collect(
        self,
        position: int,
        requests: Sequence[JudgeRequest],
        arrived: _Arrived,
        is_closed: threading.Event,
    ) -> None:
        """Queue the outcomes of one judge, or the error that stopped it, and then None."""
        try:
            for index, outcome in self._outcomes(position, requests):
                arrived.put((position * len(requests) + index, outcome))
                if is_closed.is_set():
                    break
        except BaseException as error:  # noqa: BLE001 - raised again in `ask`
            arrived.put(error)
        arrived.put(None)

    def _outcomes(
        self, position: int, requests: Sequence[JudgeRequest]
    ) -> Iterator[tuple[int, Outcome]]:
        member = self.members[position]
        takes_turn = self._takes_turns and member.in_process
        with self._turn if takes_turn else nullcontext():
            try:
                yield from outcomes_of(member, requests, self.title(position))
            finally:
                if takes_turn:
                    close_judge(member)  # the next model needs the memory

    def title(self, position: int) -> str:
        """A short name of one judge: ``judge 1 of 2 (openai:gpt-4o)``."""
        member = self.members[position]
        name = f"{member.name}:{member.model}" if member.model else member.name
        return f"judge {position + 1} of {len(self.members)} ({name})"

    def check(self, max_images: int = 0) -> None:
        """Check every judge."""
        for member in self.members:
            member.check(max_images)

    def assets(self) -> Sequence[Asset]:
        """The assets of all judges."""
        return [asset for member in self.members for asset in member.assets()]

    def stop(self) -> None:
        """Stop every judge."""
        for member in self.members:
            member.stop()

    def before_loading(self, callback: Callable[[], object]) -> None:
        """Register a function to call before any judge loads a model."""
        for member in self.members:
            member.before_loading(callback)

    def machine(self) -> str | None:
        """The machines of all judges that have one."""
        return "; ".join(filter(None, (member.machine() for member in self.members))) or None

    def close(self) -> None:
        """Free the memory of every judge."""
        for member in self.members:
            close_judge(member)
