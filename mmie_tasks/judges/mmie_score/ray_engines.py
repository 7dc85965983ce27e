"""MMIE-Score on several GPUs of a machine or cluster by Ray: one actor on each.

Ray places the actors, restarts one that died, and sends it the same requests once more. Ray is
imported when it is used.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

from loguru import logger

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.judges.base import (
    JudgeError,
    JudgeMisconfigured,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    RequestBroken,
)
from mmie_tasks.judges.content import image_bytes
from mmie_tasks.judges.mmie_score.local import LocalJudge, LocalOptions
from mmie_tasks.judges.mmie_score.request_queue import MAX_AHEAD, QueuedRequest

INSTALL_RAY = "`pip install 'mmie-tasks[ray]'`, for a run of one process"
_WITHOUT_RAY = (
    "look at `ray status`; install the same versions on every machine; or judge without Ray, with "
    "`engines=1`"
)
_CONNECT_S = 60.0  # for Ray to start or to answer; its own limit is ten minutes
_TRIES = 3  # how often a request that did not reach an actor is handed out again
_LOOK_S = 20.0  # without an outcome, before looking for actors whose GPU is gone

_Actor: TypeAlias = Any  # Ray is untyped


class EngineActor:
    """The judge in a process of Ray, on the GPU that Ray shows it.

    Concurrent calls of `judge` are computed together. Takes the options of `LocalOptions`.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - checked by the judge
        # `LOCAL_RANK` is from the process that started Ray.
        environment = {name: value for name, value in os.environ.items() if name != "LOCAL_RANK"}
        self._judge = LocalJudge(LocalOptions(**options), environment)
        self._queue: SimpleQueue[QueuedRequest | None] | None = None
        self._pending: dict[int, Future[Outcome]] = {}
        self._keys, self._lock = count(), threading.Lock()

    def start(self) -> tuple[Mapping[str, object], str]:
        """The signature, then GPU and versions; raises like `LocalJudge.start`."""
        self._judge.start()
        return self._judge.signature(), self._judge.machine() or ""

    def judge(self, request: JudgeRequest, *images: bytes) -> Outcome:
        """The outcome of a request; `images` has its files, which may be on another machine."""
        pending: Future[Outcome] = Future()
        contents = dict(zip(_image_paths(request), images, strict=True))
        with self._lock:
            if self._queue is None:
                self._queue = SimpleQueue()
                threading.Thread(target=self._compute, args=(self._queue,), daemon=True).start()
            key = next(self._keys)
            self._pending[key] = pending
            self._queue.put(QueuedRequest(key=key, request=request, images=contents))
        return pending.result()

    def _compute(self, queue: SimpleQueue[QueuedRequest | None]) -> None:
        """Compute requests until an error of the judge, which all pending ones get as outcome."""
        try:
            for key, outcome in self._judge.serve(queue):
                self._pending.pop(key).set_result(outcome)
        except JudgeError as error:  # no memory, say
            with self._lock:
                self._queue = None
                while self._pending:
                    self._pending.popitem()[1].set_result(error)
        except Exception as error:  # noqa: BLE001 - torch: after an error of CUDA, nothing works
            logger.error(f"MMIE-Score: the engine ended: {error!r}.")
            os._exit(1)  # Ray starts another


class RayEngines:
    """Actors on the GPUs of a Ray session, and requests handed out to them.

    At most `limit` actors run; None is one on each GPU. With the device ``cpu``, which is for
    tests, Ray only counts GPUs. `environment` contains ``RAY_ADDRESS`` of a running cluster and
    ``WORLD_SIZE`` of launchers.
    """

    def __init__(
        self,
        *,
        limit: int | None,
        device: str,
        environment: Mapping[str, str],
        actor_class: type = EngineActor,
    ) -> None:
        self._limit, self._device, self._environment = limit, device, environment
        self._actor_class, self._actors = actor_class, dict[_Actor, str]()  # with their machines
        self._unreached = dict[_Actor, float]()  # with the times until which others are preferred
        self._max_in_flight = 0
        self._start: Callable[[], Mapping[str, object]]
        self._closing = threading.Event()  # of the session that is ours
        self._session: threading.Thread | None = None

    def gpus(self) -> int:
        """How many GPUs of Ray will judge; 0 if this process judges by itself.

        Without a limit, a run's only process uses Ray if it has several GPUs, or if the cluster
        that it names has. Starts no cluster on this machine. Raises `JudgeMisconfigured` if
        requested engines have no GPU, or if Ray cannot be used.
        """
        import torch

        address = self._environment.get("RAY_ADDRESS", "")
        may_be = self._device in ("auto", "cuda") and _is_only_process(self._environment)
        if self._limit == 1 or (self._limit is None and not (may_be and _ray_is_installed())):
            return 0
        local = (self._limit or 0) if self._device == "cpu" else torch.cuda.device_count()
        if _is_connected() or address:
            self._connect(address, local)
            gpus = _cluster_gpus()
        else:
            gpus = local
        if self._limit and not gpus:
            raise JudgeMisconfigured(
                f"`engines={self._limit}` was requested, and neither this machine nor a Ray "
                "cluster has a GPU.",
                hint="look at `nvidia-smi` and `ray status`, or leave `engines=` out",
            )
        number = min(gpus, self._limit or gpus)
        return number if number > 1 or self._limit else 0

    def start(
        self, options: Mapping[str, object], *, number: int, max_rows: int
    ) -> Mapping[str, object]:
        """Start so many actors and return their signature; raises `JudgeMisconfigured` if none can
        be used.

        An actor with another signature than the first one's is ended with a warning.
        """
        import ray

        self._start = partial(self.start, options, number=number, max_rows=max_rows)
        self._max_in_flight = max_rows + MAX_AHEAD
        self._connect(self._environment.get("RAY_ADDRESS", ""), number)
        remote = ray.remote(
            num_gpus=1,
            num_cpus=0,
            max_restarts=3,
            max_task_retries=1,
            max_concurrency=self._max_in_flight + 1,
        )(self._actor_class)
        actors = [remote.remote(**options) for _ in range(number)]
        logger.info(f"MMIE-Score: Ray starts {number} engines.")
        starts = {actor: actor.start.remote() for actor in actors}
        results = {actor: _result(start) for actor, start in starts.items()}
        signatures: list[Mapping[str, object]] = [
            one[0] for one in results.values() if isinstance(one, tuple)
        ]
        for actor, result in results.items():
            if isinstance(result, tuple) and result[0] == signatures[0]:
                self._actors[actor] = result[1]
                continue
            reason = f"it would judge as `{result[0]}`" if isinstance(result, tuple) else result
            logger.warning(f"MMIE-Score: an engine of Ray is not used: {reason}")
            ray.kill(actor)
        if not signatures:
            self.close()
            problem = next(iter(results.values()))
            raise JudgeMisconfigured(f"No engine can be used: {problem}", hint=_WITHOUT_RAY)
        return signatures[0]

    def machine(self) -> str | None:
        """GPUs and versions of the actors; None before `start`."""
        return "; ".join(sorted(set(self._actors.values()))) or None

    def ask(
        self, requests: Sequence[JudgeRequest], order: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield one outcome for each request as it arrives; requests are handed out in this order.

        If the caller stops before the last one, the actors end. After `close` they are started
        again, which raises like `start`.
        """
        import ray

        if not self._actors:
            self._start()

        waiting, in_flight = deque(order), dict[Any, tuple[int, _Actor]]()
        again = Counter[tuple[type, int]]()  # for each reason and request
        try:
            while waiting or in_flight:
                yield from self._hand_out(requests, waiting, in_flight)
                ready, _ = ray.wait(list(in_flight), timeout=_LOOK_S) if in_flight else ((), ())
                for reference in ready:
                    index, actor = in_flight.pop(reference)
                    result = _result(reference)
                    again[type(result), index] += 1
                    if self._goes_again(actor, result, again[type(result), index]):
                        waiting.appendleft(index)
                    else:
                        yield index, result
                if in_flight and not ready:
                    self._end_homeless()
        finally:
            if waiting or in_flight:
                self.close()

    def _goes_again(self, actor: _Actor, result: object, times: int) -> bool:
        """Whether a request is handed out again after this kind of result came so often."""
        if isinstance(result, _Unreached):
            self._unreached[actor] = time.monotonic() + _LOOK_S
            return times <= _TRIES
        if isinstance(result, _Died):
            if self._actors.pop(actor, None) is not None:
                logger.warning(f"MMIE-Score: {result}; others compute its requests.")
            return bool(self._actors) and times == 1
        return False

    def _hand_out(
        self,
        requests: Sequence[JudgeRequest],
        waiting: deque[int],
        in_flight: dict[Any, tuple[int, _Actor]],
    ) -> Iterator[tuple[int, Outcome]]:
        """Fill the actors, but give none more than its share of the remaining requests."""
        load = Counter(actor for _, actor in in_flight.values())
        share = -(-(len(waiting) + len(in_flight)) // max(len(self._actors), 1))
        now = time.monotonic()
        unreached = {actor for actor, until in self._unreached.items() if now < until}
        if waiting and unreached >= self._actors.keys() > set():
            time.sleep(1.0)  # an actor that starts again is soon known to do so
        while waiting:
            actor = min(self._actors, key=lambda one: (one in unreached, load[one]), default=None)
            if actor is not None and load[actor] >= min(share, self._max_in_flight):
                return
            request = requests[index := waiting.popleft()]
            if actor is None:
                yield index, JudgeUnavailable("all engines of Ray have died")
                continue
            try:
                images = [image_bytes(path) for path in _image_paths(request)]
            except RequestBroken as error:
                yield index, error
            else:
                in_flight[actor.judge.remote(request, *images)] = index, actor
                load[actor] += 1

    def close(self) -> None:
        """End the actors, which frees their GPUs, and the session if it is ours."""
        if self._actors:
            import ray

            for actor in self._actors if _is_connected() else ():
                ray.kill(actor)
            self._actors.clear()
        if self._session is not None:
            self._closing.set()
            self._session.join()
            self._session = None

    def _end_homeless(self) -> None:
        """End the actors that wait for a GPU whose machine is gone."""
        import ray

        if _cluster_gpus() >= len(self._actors):
            return
        answers = {
            actor: actor.start.options(max_task_retries=0).remote() for actor in self._actors
        }
        alive, _ = ray.wait(list(answers.values()), num_returns=len(answers), timeout=_LOOK_S)
        for actor, answer in answers.items():
            if answer not in alive or isinstance(_result(answer), JudgeError):
                ray.kill(actor)

    def _connect(self, address: str, local_gpus: int) -> None:
        """Connect to Ray in a thread that lasts until `close`: Ray ends with its first thread."""
        if _is_connected():
            return
        closing, connected = threading.Event(), threading.Event()
        problems: list[str] = []

        def hold_session() -> None:
            import ray

            try:
                _init(address, local_gpus)
            except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
                problems.append(_reason(error))
            connected.set()
            closing.wait()
            ray.shutdown()

        session = threading.Thread(target=hold_session, name="ray-session", daemon=True)
        session.start()
        if not connected.wait(_CONNECT_S) or problems:
            closing.set()
            problem = problems[0] if problems else f"no answer for {_CONNECT_S:g} s"
            where = f"`RAY_ADDRESS` is `{address}`" if address else "on this machine"
            message = f"Ray cannot be used ({where}): {problem}."
            raise JudgeMisconfigured(message, hint=_WITHOUT_RAY)
        self._closing, self._session = closing, session


def engine_limit(option: str, device: str, environment: Mapping[str, str]) -> int | None:
    """The number of engines that the option allows, None for ``auto``; raises `JudgeMisconfigured`
    if so many cannot run here.
    """
    if option == "auto":
        return None
    limit = int(option) if option.isascii() and option.isdecimal() else 0
    if limit > 1 and not _ray_is_installed():
        message = f"`engines={option}` needs Ray, which is not installed."
        raise JudgeMisconfigured(message, hint=INSTALL_RAY)
    may_be_several = _is_only_process(environment) and not device.startswith("cuda:")
    if limit < 1 or (limit > 1 and not may_be_several):
        raise JudgeMisconfigured(
            f"`engines={option}` is not possible with `device={device}` in this process.",
            hint="a number from 1 or `auto`; more than 1 in a run of one process, and not on one "
            "GPU alone",
        )
    return limit


def idle_gpus(device: str, environment: Mapping[str, str]) -> int:
    """How many GPUs of this machine stay idle because Ray is not installed or not used."""
    import torch

    uses_ray = _ray_is_installed() and _is_only_process(environment)
    if device not in ("auto", "cuda") or uses_ray or environment.get("LOCAL_RANK", "0") != "0":
        return 0
    return max(0, torch.cuda.device_count() - int(environment.get("LOCAL_WORLD_SIZE") or 1))


def _ray_is_installed() -> bool:
    return find_spec("ray") is not None


def _is_only_process(environment: Mapping[str, str]) -> bool:
    """Whether no launcher has started other processes of this run, by ``WORLD_SIZE``."""
    return environment.get("WORLD_SIZE", "1") in ("", "1")


def _is_connected() -> bool:
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def _init(address: str, local_gpus: int) -> None:
    import ray

    if address:
        ray.init(address=address, logging_level=logging.CRITICAL)
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Stops Ray's advice about actors without GPUs.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init(
        address="local",
        num_gpus=local_gpus,
        num_cpus=0,  # else Ray starts an idle process for each CPU
        include_dashboard=False,
        logging_level=logging.CRITICAL,
    )


def _cluster_gpus() -> int:
    import ray

    return int(ray.cluster_resources().get("GPU", 0))


def _image_paths(request: JudgeRequest) -> list[Path]:
    """The image files of a request, each once, in order."""
    return list(dict.fromkeys(part for part in request.parts if isinstance(part, Path)))


class _Unreached(JudgeUnavailable):
    """The request did not reach its actor, which Ray does not know to have ended."""


class _Died(JudgeUnavailable):
    """An actor died too often, or was ended."""


def _result(reference: Any) -> Any:  # noqa: ANN401 - Ray is untyped
    """What a call of an actor returned or raised."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        match error.cause:
            case JudgeError() as cause:
                return cause
            case MmieTasksError() as cause:
                return JudgeMisconfigured(cause.message, hint=cause.hint)
        return JudgeUnavailable(f"an engine of Ray failed: {_reason(error)}")
    except ray.exceptions.ActorDiedError as error:
        return _Died(f"an engine of Ray died: {_reason(error)}")
    except ray.exceptions.RayError as error:
        kind = _Unreached if "failed to connect" in str(error) else JudgeUnavailable
        return kind(f"an engine of Ray was lost: {_reason(error)}")


def _reason(error: Exception) -> str:
    """The last line of Ray's message, which may be a traceback."""
    return (str(error).strip() or type(error).__name__).rpartition("\n")[2].strip().rstrip(".")
