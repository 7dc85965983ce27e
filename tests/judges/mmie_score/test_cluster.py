"""MMIE-Score on a Ray cluster: three nodes on this machine, each of which claims a GPU."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
from loguru import logger
from support.internvl_golden import CHECKPOINT, cases
from support.ray_engines import NODE, TESTS, ScriptedEngine, computed, engines_started, three_nodes
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.base import (
    JudgeMisconfigured,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    RequestBroken,
)
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile
from mmie_tasks.judges.mmie_score import cluster as cluster_module
from mmie_tasks.judges.mmie_score import ray_session
from mmie_tasks.judges.mmie_score.cluster import EnginePool
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge
from mmie_tasks.judges.mmie_score.memory import DeviceFull
from mmie_tasks.judges.mmie_score.ray_session import RaySession, choose_session
from mmie_tasks.judges.mmie_score.remote import RemoteEngine
from mmie_tasks.judges.registry import create
from mmie_tasks.record.reply import JudgeReply

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}")  # of Ray's own modules
    for kind in ("DeprecationWarning", "FutureWarning", "ResourceWarning")
]

MakePool = Callable[..., EnginePool]


# Those without the cluster are first: it is the Ray session of this process until the end of the
# module.


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    with three_nodes() as nodes:
        yield nodes


def scripted_pool(
    folder: Path,
    *,
    limit: int | None = None,
    max_in_flight: int = 8,
    deadline_s: float = 60,
    **options: object,
) -> EnginePool:
    """A pool of scripted engines that write into a folder."""
    return EnginePool(
        RaySession({}, local_gpus=0),
        {"folder": str(folder), **options},
        limit=limit,
        max_in_flight=max_in_flight,
        deadline_s=deadline_s,
        engine_class=ScriptedEngine,
    )


@pytest.fixture
def make_pool(cluster, tmp_path: Path) -> Iterator[MakePool]:  # noqa: ARG001 - is connected to
    """Makes pools of scripted engines that write into `tmp_path`."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(closing(scripted_pool(tmp_path, **options)))


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("three_engines")


@pytest.fixture(scope="module")
def three_engines(cluster, shared_folder: Path) -> Iterator[EnginePool]:  # noqa: ARG001 - is connected to
    """A pool for several tests, as starting engines takes seconds."""
    with closing(scripted_pool(shared_folder)) as pool:
        yield pool


def requests(texts: Sequence[str]) -> list[JudgeRequest]:
    return [JudgeRequest(parts=(text,), max_tokens=10) for text in texts]


def ask(
    pool: EnginePool, texts: Sequence[str], on_outcome: Callable[[int], None] = lambda _: None
) -> dict[int, object]:
    """The outcomes of requests, one for each."""
    outcomes: dict[int, object] = {}
    for index, outcome in pool.ask(requests(texts), range(len(texts))):
        assert index not in outcomes
        outcomes[index] = outcome
        on_outcome(len(outcomes))
    assert sorted(outcomes) == list(range(len(texts)))
    return outcomes


def replies(outcomes: dict[int, object]) -> list[str]:
    return [
        outcome.text for _, outcome in sorted(outcomes.items()) if isinstance(outcome, JudgeReply)
    ]


def all_computed(folder: Path) -> list[str]:
    return [text for texts in computed(folder).values() for text in texts]


def forget(folder: Path) -> None:
    """Forget what engines have computed."""
    for path in folder.glob("*.requests"):
        path.unlink()


def free(resource: str, at_least: float = 0) -> float:
    """What is free of a resource of the cluster, after a few seconds at most."""
    import ray

    deadline_s = time.monotonic() + 5
    while (
        amount := ray.available_resources().get(resource, 0)
    ) < at_least and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return amount


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({"engines": "0"}, {}),
        ({"engines": "all"}, {}),
        ({"engines": "2", "device": "cuda:1"}, {}),
        ({"engines": "2"}, {"WORLD_SIZE": "8"}),
        ({"deadline_s": "0"}, {}),
    ],
)
def test_engines_that_cannot_run_here_are_refused(
    options: dict[str, str], environment: dict[str, str]
) -> None:
    name, value = next(iter(options.items()))
    with pytest.raises(JudgeMisconfigured, match=f"`{name}={value}"):
        create("mmie_score", options, environment)


def test_several_engines_without_ray_have_a_hint_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray_session, "find_spec", lambda _: None)
    with pytest.raises(JudgeMisconfigured, match=r"pip install 'mmie-tasks\[ray\]'"):
        create("mmie_score", {"engines": "4"}, {})
    create("mmie_score", {"engines": "1"}, {})


@pytest.mark.parametrize(
    ("limit", "device", "environment", "gpus", "expected"),
    [
        pytest.param(None, "auto", {}, 8, 8, id="several GPUs"),
        pytest.param(None, "auto", {}, 1, None, id="one GPU"),
        pytest.param(None, "cuda:3", {}, 8, None, id="a certain GPU"),
        pytest.param(None, "auto", {"WORLD_SIZE": "8"}, 8, None, id="one of several processes"),
        pytest.param(1, "auto", {}, 8, None, id="one engine"),
        pytest.param(4, "auto", {}, 1, 1, id="more engines than GPUs"),
    ],
)
def test_ray_is_used_where_a_single_process_has_several_gpus(
    limit: int | None,
    device: str,
    environment: dict[str, str],
    gpus: int,
    expected: int | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    session = choose_session(limit, device, {"TMPDIR": str(tmp_path), **environment})
    assert (session and session.gpus()) == expected


@pytest.mark.parametrize(
    ("gpus", "environment", "looks"),
    [(0, {}, False), (1, {}, True), (0, {"RAY_ADDRESS": "h:1"}, True)],
)
def test_a_session_is_looked_at_only_from_a_machine_with_a_gpu_or_by_its_address(
    gpus: int, environment: dict[str, str], looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(RaySession, "gpus", lambda _: 16)
    assert (choose_session(None, "auto", environment) is not None) == looks


def test_engines_without_any_gpu_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        JudgeMisconfigured, match="neither this machine nor a Ray cluster has a GPU"
    ):
        choose_session(2, "auto", {"TMPDIR": str(tmp_path)})


def processes(count: int, *, rank: int) -> dict[str, str]:
    """The environment that a launcher gives one of several processes on a machine."""
    return {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "LOCAL_RANK": str(rank)}


@pytest.mark.parametrize(
    ("environment", "idle"),
    [
        pytest.param({}, 7, id="one process"),
        pytest.param(processes(8, rank=0), 0, id="a process for each GPU"),
        pytest.param(processes(6, rank=1), 0, id="another process has said so"),
    ],
)
def test_idle_gpus_are_counted(
    environment: dict[str, str], idle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    assert ray_session.idle_gpus("auto", environment) == (
        idle if environment else 0
    )  # one process uses all by Ray
    monkeypatch.setattr(ray_session, "find_spec", lambda _: None)
    assert ray_session.idle_gpus("auto", environment) == idle
    assert ray_session.idle_gpus("cuda:0", environment) == 0


@needs_transformers_5
def test_idle_gpus_are_named_once_with_the_way_to_use_them(
    monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    monkeypatch.setattr(ray_session, "find_spec", lambda _: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    judge = create("mmie_score", {"model": str(CHECKPOINT)}, {})
    assert isinstance(judge, MmieScoreJudge)
    judge.check()
    judge.check()
    [warning] = warnings
    assert (
        "7 GPUs of this machine are idle while MMIE-Score judges. hint: `pip install "
        "'mmie-tasks[ray]'`" in warning
    )


def test_ray_on_this_machine_outlives_the_thread_that_started_it_and_ends_with_the_pool(
    tmp_path: Path,
) -> None:
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "LOGURU_LEVEL": "WARNING"}
    command = [sys.executable, str(TESTS / "support" / "local_engines.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr, done.returncode) == ("40 replies, connected: False\n", "", 0)
    [process] = computed(tmp_path)
    assert not Path("/proc", process).exists()


def test_a_ray_that_does_not_answer_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_session, "_START_S", 0.1)
    monkeypatch.setattr(RaySession, "_init", lambda *_: time.sleep(0.5))
    session = RaySession({"TMPDIR": str(tmp_path)}, local_gpus=2)
    with pytest.raises(
        JudgeMisconfigured, match=r"cannot be used \(on this machine\): no answer for 0\.1 s"
    ):
        session.nodes()
    session._thread.join(timeout=10)
    assert not session._thread.is_alive()


def test_an_address_of_the_user_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(
        JudgeMisconfigured,
        match=r"`RAY_ADDRESS` is `127\.0\.0\.1:9`, and no Ray cluster answers there",
    ):
        RaySession({"RAY_ADDRESS": "127.0.0.1:9"}, local_gpus=3).gpus()


def test_every_gpu_computes_and_the_load_is_balanced(
    three_engines: EnginePool, shared_folder: Path
) -> None:
    texts = [
        f"{number} cost={number % 10 + 1}" for number in range(240)
    ]  # replies of 1 to 10 units
    ask(
        three_engines, [f"{number} cost=30" for number in range(24)]
    )  # until all engines have started
    forget(shared_folder)
    assert replies(ask(three_engines, texts)) == texts
    loads = [
        sum(int(text.partition("=")[2]) for text in done)
        for done in computed(shared_folder).values()
    ]
    assert len(loads) == 3
    assert sum(loads) == 240 * 5.5
    assert max(loads) / min(loads) < 1.1


def test_a_caller_that_stops_early_ends_the_engines(
    three_engines: EnginePool, shared_folder: Path
) -> None:
    forget(shared_folder)
    outcomes = three_engines.ask(
        requests([f"{number} cost=10" for number in range(200)]), range(200)
    )
    for _ in range(5):
        next(outcomes)
    outcomes.close()
    time.sleep(0.3)
    number = len(all_computed(shared_folder))
    time.sleep(0.5)
    assert len(all_computed(shared_folder)) == number < 100
    assert free("GPU", at_least=3) == 3


def test_requests_are_handed_out_in_the_given_order(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(limit=1, max_in_flight=1)
    assert pool.signature() == "scripted"
    list(pool.ask(requests(["short", "longest", "middle"]), [1, 2, 0]))
    assert all_computed(tmp_path) == ["longest", "middle", "short"]


def test_engines_that_do_not_start_are_named_once(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    monkeypatch.setattr(cluster_module, "_WAIT_S", 0.05)
    monkeypatch.setattr(cluster_module, "_PATIENCE_S", 0.1)
    assert replies(ask(make_pool(limit=1), ["one"])) == ["one"]
    [warning] = warnings
    assert "no engine has started for 0.1 s. Other work may hold the GPUs of Ray" in warning


def test_a_node_that_is_lost_costs_no_reply(
    cluster, make_pool: MakePool, tmp_path: Path, warnings: list[str]
) -> None:
    texts = [f"{number} cost=5" for number in range(150)]
    node = next(iter(cluster.worker_nodes))

    def lose_a_node(finished: int) -> None:
        if finished == 60:
            cluster.remove_node(node, allow_graceful=False)

    outcomes = ask(make_pool(rows=2), texts, lose_a_node)
    cluster.add_node(**NODE)
    assert replies(outcomes) == texts
    counts = Counter(all_computed(tmp_path))
    # Those in flight at the lost engine.
    assert 0 < sum(number - 1 for number in counts.values()) <= 8
    assert "was lost" in "".join(warnings)


def test_a_request_that_ends_three_engines_is_unavailable(
    make_pool: MakePool, tmp_path: Path
) -> None:
    pool = make_pool(limit=1, max_in_flight=1)
    outcomes = ask(pool, ["good", "bad die-always", *(f"{number}" for number in range(5))])
    assert isinstance(outcomes[1], JudgeUnavailable)
    assert "3 engines were lost" in str(outcomes[1])
    assert len(replies(outcomes)) == 6
    assert all_computed(tmp_path).count("bad die-always") == 3


def test_a_hung_engine_is_replaced(
    make_pool: MakePool, tmp_path: Path, warnings: list[str]
) -> None:
    texts = [f"{number} cost=2" for number in range(30)]
    texts[15] += " hang"
    assert replies(ask(make_pool(limit=1, deadline_s=1), texts)) == texts
    assert engines_started(tmp_path) == 2
    assert "no reply for 1 s" in "".join(warnings)


def test_a_caller_that_takes_its_time_is_no_deadline(make_pool: MakePool, tmp_path: Path) -> None:
    ask_slowly = make_pool(limit=1, deadline_s=0.5)
    texts = [f"{number} cost=1" for number in range(12)]
    assert (
        replies(ask(ask_slowly, texts, lambda finished: time.sleep(1.2 * (finished == 4)))) == texts
    )
    assert engines_started(tmp_path) == 1


def test_an_exception_in_an_engine_ends_it_and_not_the_run(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "_MAX_LOSSES", 1)
    outcomes = ask(make_pool(limit=1, max_in_flight=1), ["good", "raise", "good again"])
    assert "RuntimeError: CUDA error" in str(outcomes[1])
    assert replies(outcomes) == ["good", "good again"]


def test_engines_that_die_at_once_are_not_replaced_for_ever(
    make_pool: MakePool, tmp_path: Path
) -> None:
    outcomes = ask(make_pool(limit=1, signature="exit"), ["one", "two"])
    for outcome in outcomes.values():
        assert isinstance(outcome, JudgeUnavailable)
        assert "was lost" in str(outcome)
    assert engines_started(tmp_path) == 3
    with pytest.raises(
        JudgeMisconfigured, match=r"No engine can be used: the engine on .* was lost"
    ):
        make_pool(limit=1, signature="exit").signature()


def test_an_engine_with_another_signature_is_refused(
    make_pool: MakePool, tmp_path: Path, warnings: list[str]
) -> None:
    texts = [f"{number} cost=10" for number in range(60)]
    pool = make_pool(signature="first-other")
    assert replies(ask(pool, texts)) == texts
    used, refused = (2, 1) if pool.signature() == "scripted" else (1, 2)
    assert len(computed(tmp_path)) == used
    assert engines_started(tmp_path) == 3  # those refused are not replaced
    assert len(warnings) == refused
    assert all("`other`" in warning and "`scripted`" in warning for warning in warnings)


def test_if_all_engines_are_refused_the_first_reason_is_the_outcome_of_all(
    make_pool: MakePool, tmp_path: Path
) -> None:
    outcomes = ask(make_pool(signature="error"), ["one", "two"])
    for outcome in outcomes.values():
        assert isinstance(outcome, JudgeMisconfigured)
        assert outcome.message == "No such checkpoint."
        assert outcome.hint == "copy it there"
    assert engines_started(tmp_path) == 3


def test_an_engine_that_cannot_load_is_refused_with_its_reason(make_pool: MakePool) -> None:
    outcomes = ask(make_pool(max_in_flight=1), ["misconfigured"])
    assert isinstance(outcomes[0], JudgeMisconfigured)
    assert outcomes[0].message == "There is no memory for one request."


def test_an_engine_without_memory_is_tried_again(make_pool: MakePool, warnings: list[str]) -> None:
    assert replies(ask(make_pool(limit=1, signature="full-first"), ["one"])) == ["one"]
    [warning] = warnings
    assert "was lost: There is no memory." in warning


def test_warnings_of_engines_are_logged_once_per_text_and_gpus_of_different_kinds_once(
    make_pool: MakePool, warnings: list[str]
) -> None:
    texts = [f"{number} cost=5 warns{number % 2}" for number in range(60)]
    pool = make_pool(machines=("one GPU", "another GPU"))
    assert replies(ask(pool, texts)) == texts
    assert pool.machine() == "another GPU; one GPU"
    assert sum("warns0" in warning for warning in warnings) == 1
    assert sum("warns1" in warning for warning in warnings) == 1
    assert sum("different GPUs" in warning for warning in warnings) == 1
    assert len(warnings) == 3


def test_images_travel_with_their_request_and_one_that_is_missing_costs_only_its_own(
    make_pool: MakePool, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(2)]
    contents = [bytes([number]) * 300_000 for number in range(2)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    digests = [hashlib.sha256(content).hexdigest()[:8] for content in contents]
    missing = tmp_path / "missing.png"
    parts: list[tuple[str | Path, ...]] = [
        ("a", paths[0], paths[1], paths[0]),
        ("b die", paths[1]),
        ("c", missing),
    ]
    asked = [JudgeRequest(parts=part, max_tokens=1) for part in parts]
    outcomes = dict(make_pool(limit=1).ask(asked, range(3)))
    assert replies(outcomes) == [f"a {digests[0]} {digests[1]}", f"b die {digests[1]}"]
    assert isinstance(outcomes[2], RequestBroken)
    assert str(missing) in str(outcomes[2])


def judge_with(engines: str) -> MmieScoreJudge:
    judge = create(
        "mmie_score", {"model": str(CHECKPOINT), "device": "cpu", "engines": engines}, {}
    )
    assert isinstance(judge, MmieScoreJudge)
    return judge


def remove_at_once(cluster, node) -> None:
    """Kill a node with its engine, which would otherwise go on for a moment."""
    (raylet,) = node.all_processes["raylet"]
    workers = psutil.Process(raylet.process.pid).children(recursive=True)
    cluster.remove_node(node, allow_graceful=False)
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.kill()


def wait_for_engines(judge: MmieScoreJudge, count: int) -> None:
    """Send requests until so many engines are ready for them."""
    deadline = time.monotonic() + 300
    ready = 0
    while ready < count:
        assert time.monotonic() < deadline
        list(judge.ask([JudgeRequest(parts=("Why?",), max_tokens=1)]))
        assert judge._pool is not None
        ready = sum(engine.start is None for engine in judge._pool._engines)


@needs_transformers_5
def test_three_engines_of_which_one_is_lost_reply_as_one_in_this_process_and_fill_the_same_cache(
    cluster, tmp_path: Path, warnings: list[str]
) -> None:
    asked = [
        JudgeRequest(parts=(*case.parts, f" {number}"), max_tokens=case.max_new_tokens)
        for number in range(4)
        for case in cases()
    ]
    alone, judge = judge_with("1"), judge_with("3")
    freed: list[str] = []
    judge.before_loading(lambda: freed.append("freed"))
    assert judge.signature == alone.signature
    judge.check()
    assert judge.ray_gpus() == 3
    wait_for_engines(judge, 3)  # so that each has requests in flight when the first reply arrives
    cached = CachedJudge(judge, CacheFile(tmp_path / "cache.sqlite3"))
    outcomes: dict[int, Outcome] = {}
    for index, outcome in cached.ask(asked):
        outcomes[index] = outcome
        if len(outcomes) == 1:
            remove_at_once(cluster, next(iter(cluster.worker_nodes)))
    cluster.add_node(**NODE)
    assert sum("was lost" in warning for warning in warnings) == 1
    for index, reply in alone.ask(asked):
        assert replace(outcomes[index], digits=None) == replace(reply, digits=None)
    assert freed == ["freed"]
    judge.close()
    assert replies(dict(cached.ask(asked))) == replies(outcomes)
    assert freed == ["freed"]  # no engine was started again
    assert judge.signature == alone.signature


async def _together(
    engine: RemoteEngine, asked: JudgeRequest, *contents: list[bytes]
) -> list[object]:
    """Outcomes of requests with these images, and exceptions, asked at the same time."""
    calls = [engine.judge(asked, *images) for images in contents]
    with closing(engine):
        return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), timeout=60)


@needs_transformers_5
def test_warnings_of_an_engine_go_with_its_next_reply() -> None:
    async def ask_twice() -> list[object]:
        engine = RemoteEngine(model=str(CHECKPOINT), device="cpu")
        logger.warning("slow")
        asked = JudgeRequest(parts=("Why?",), max_tokens=1)
        first = await engine.judge(asked)
        with closing(engine):
            return [first, await engine.judge(asked)]

    first, second = asyncio.run(ask_twice())
    assert (first.warnings, second.warnings) == (("slow",), ())
    assert first.machine == f"CPU, torch {torch.__version__}"


@needs_transformers_5
def test_an_exception_of_an_engine_reaches_everything_in_flight_and_later_requests() -> None:
    async def ask_thrice() -> list[object]:
        engine = RemoteEngine(model=str(CHECKPOINT), device="cpu", max_memory_bytes=2**20)
        first = await _together(engine, JudgeRequest(parts=("Why?",), max_tokens=5), [], [])
        return [*first, *await _together(engine, JudgeRequest(parts=("Why?",), max_tokens=5), [])]

    outcomes = asyncio.run(ask_thrice())
    assert [type(outcome) for outcome in outcomes] == [DeviceFull] * 3
