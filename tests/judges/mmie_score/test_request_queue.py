"""The queue of requests, and prompts prepared ahead in threads."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue

from support import internvl_golden as golden
from support.internvl_golden import CHECKPOINT
from support.judge_engines import open_folder

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.mmie_score.generation import JudgePrompt
from mmie_tasks.judges.mmie_score.inputs import InputBuilder
from mmie_tasks.judges.mmie_score.request_queue import (
    PromptPreparer,
    QueuedRequest,
    RequestQueue,
    longest_first,
    queue_of,
)

IMAGE = golden.IMAGES / "vga.png"


def builder() -> InputBuilder:
    return InputBuilder(open_folder(CHECKPOINT))


def request_of(*parts: str | Path) -> JudgeRequest:
    return JudgeRequest(parts=parts, max_tokens=40)


class SlowBuilder:
    """A builder that waits until a test lets it finish."""

    def __init__(self) -> None:
        self.may_finish, self.has_begun = threading.Event(), threading.Event()
        self.keys: list[int] = []

    def prompt(self, key: int, request: JudgeRequest, images: object = None) -> JudgePrompt:
        self.has_begun.set()
        assert self.may_finish.wait(10)
        self.keys.append(key)
        return JudgePrompt(key=key, ids=[1])


def test_without_waiting_only_a_finished_prompt_is_supplied() -> None:
    slow = SlowBuilder()
    with closing(PromptPreparer(slow, queue_of([request_of("a")], [0]))) as preparer:  # type: ignore[arg-type]
        assert preparer.get(wait=False) is None
        slow.may_finish.set()
        assert isinstance(preparer.get(wait=True), JudgePrompt)
        assert preparer.get(wait=True) is None
        assert preparer.get(wait=False) is None


def test_closing_ends_the_threads_and_prepares_nothing_more() -> None:
    slow = SlowBuilder()
    queue = queue_of([request_of("a")] * 100, range(100))
    with closing(PromptPreparer(slow, queue)) as preparer:  # type: ignore[arg-type]
        assert preparer.get(wait=False) is None
        assert slow.has_begun.wait(10)
        threading.Timer(0.05, slow.may_finish.set).start()
    assert len(slow.keys) < 24, "requests that were not begun are dropped"
    assert not [t for t in threading.enumerate() if t.name.startswith("judge-inputs")]


def test_a_queue_supplies_what_other_threads_put_until_it_is_closed() -> None:
    queue: RequestQueue = SimpleQueue()
    with closing(PromptPreparer(builder(), queue)) as preparer:
        assert preparer.get(wait=False) is None
        threading.Timer(
            0.05, queue.put, [QueuedRequest(key=7, request=request_of("Late."))]
        ).start()
        prompt = preparer.get(wait=True)
        assert isinstance(prompt, JudgePrompt)
        assert prompt.key == 7
        queue.put(QueuedRequest(key=8, request=request_of("Last.")))
        queue.put(None)
        queue.put(QueuedRequest(key=9, request=request_of("Too late.")))
        assert [getattr(preparer.get(wait=True), "key", None) for _ in range(3)] == [8, None, None]


def test_the_longest_request_is_the_first() -> None:
    requests = [request_of("Why?"), request_of("Why? ", IMAGE), request_of("Why, oh why?")]
    assert longest_first(builder(), requests) == [1, 2, 0]
