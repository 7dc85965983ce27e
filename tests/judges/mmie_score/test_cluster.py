"""MMIE-Score on a Ray cluster: three nodes on this machine, each with a GPU that is none."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.internvl_golden import CHECKPOINT, cases
from support.ray_engines import NODE, ScriptedEngine, computed, engines_started, three_nodes
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.base import JudgeMisconfigured, JudgeReply, JudgeRequest, JudgeUnavailable, RequestBroken
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile
from mmie_tasks.judges.mmie_score import cluster as cluster_module
from mmie_tasks.judges.mmie_score.cluster import EnginePool, RaySession
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge
from mmie_tasks.judges.registry import create

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}")  # of Ray's own modules
    for kind in ("DeprecationWarning", "FutureWarning", "ResourceWarning")
]

MakePool = Callable[..., EnginePool]


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    with three_nodes() as nodes:
        yield nodes


@pytest.fixture
def make_pool(cluster, tmp_path: Path) -> Iterator[MakePool]:  # noqa: ARG001 - is connected to
    """Makes pools of scripted engines that write into `tmp_path`."""
    pools: list[EnginePool] = []

    def make(
        *,
        limit: int | None = None,
        max_in_flight: int = 8,
        deadline_s: float = 60,
        expects: str | None = "scripted",
        **options: object,
    ) -> EnginePool:
        pool = EnginePool(
            RaySession({}, local_gpus=0),
            {"folder": str(tmp_path), **options},
            signature=expects,
            limit=limit,
            max_in_flight=max_in_flight,
            deadline_s=deadline_s,
            engine_class=ScriptedEngine,
        )
        pools.append(pool)
        return pool

    yield make
    for pool in pools:
        pool.close()


def requests(texts: Sequence[str]) -> list[JudgeRequest]:
    return [JudgeRequest(parts=(text,), max_tokens=10) for text in texts]


def ask(
    pool: EnginePool, texts: Sequence[str], on_outcome: Callable[[int], None] = lambda _: None
) -> dict[int, object]:
    """The outcomes of requests, one for each."""
    outcomes: dict[int, object] = {}
    for index, outcome in pool.ask(requests(texts), [1] * len(texts)):
        assert index not in outcomes
        outcomes[index] = outcome
        on_outcome(len(outcomes))
    assert sorted(outcomes) == list(range(len(texts)))
    return outcomes


def replies(outcomes: dict[int, object]) -> list[str]:
    return [outcome.text for _, outcome in sorted(outcomes.items()) if isinstance(outcome, JudgeReply)]


def all_computed(folder: Path) -> list[str]:
    return [text for texts in computed(folder).values() for text in texts]


def test_every_gpu_computes_and_the_load_is_balanced(make_pool: MakePool, tmp_path: Path) -> None:
    texts = [f"{number} cost={number % 10 + 1}" for number in range(240)]  # replies of 1 to 10 units
    pool = make_pool(limit=3)
    ask(pool, [f"{number} cost=30" for number in range(24)])  # until all engines have started
    for path in tmp_path.glob("*.requests"):
        path.unlink()
    assert replies(ask(pool, texts)) == texts
    loads = [sum(int(text.partition("=")[2]) for text in done) for done in computed(tmp_path).values()]
    assert len(loads) == 3
    assert sum(loads) == 240 * 5.5
    assert max(loads) / min(loads) < 1.1


def test_no_engine_holds_more_than_its_share(make_pool: MakePool, tmp_path: Path) -> None:
    ask(make_pool(max_in_flight=1000, rows=1000), [f"{number} cost=100" for number in range(30)])
    assert max(len(texts) for texts in computed(tmp_path).values()) == 10


def test_the_longest_requests_go_first(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(limit=1, max_in_flight=1)
    list(pool.ask(requests(["short", "longest", "middle"]), [1, 9, 5]))
    assert all_computed(tmp_path) == ["longest", "middle", "short"]


def test_a_node_that_is_lost_and_one_that_joins_cost_no_reply(
    cluster, make_pool: MakePool, tmp_path: Path, warnings: list[str]
) -> None:
    texts = [f"{number} cost=5" for number in range(300)]
    node = next(iter(cluster.worker_nodes))
    joined_after: list[set[str]] = []

    def change_nodes(finished: int) -> None:
        if finished == 60:
            cluster.remove_node(node, allow_graceful=False)
        if finished == 150:
            joined_after.append(set(computed(tmp_path)))
            cluster.add_node(**NODE)

    outcomes = ask(make_pool(rows=2), texts, change_nodes)
    assert replies(outcomes) == texts
    repeated = {text: number - 1 for text, number in Counter(all_computed(tmp_path)).items() if number > 1}
    assert 0 < sum(repeated.values()) <= 8  # those in flight at the lost engine
    assert len(set(computed(tmp_path)) - joined_after[0]) == 1  # the engine of the node that joined
    assert "was lost" in "".join(warnings)


def test_requests_of_a_dead_engine_go_to_others_and_nothing_else_is_computed_twice(
    make_pool: MakePool, tmp_path: Path
) -> None:
    texts = [f"{number} cost=2" for number in range(60)]
    texts[20] += " die"
    assert replies(ask(make_pool(), texts)) == texts
    counts = Counter(all_computed(tmp_path))
    assert counts[texts[20]] == 2
    assert sum(counts.values()) - 60 <= 8
    assert max(counts.values()) == 2


def test_a_request_that_ends_three_engines_is_unavailable(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(limit=1, max_in_flight=1)
    outcomes = ask(pool, ["good", "bad die-always", *(f"{number}" for number in range(5))])
    assert isinstance(outcomes[1], JudgeUnavailable)
    assert "3 engines were lost" in str(outcomes[1])
    assert len(replies(outcomes)) == 6
    assert all_computed(tmp_path).count("bad die-always") == 3


def test_a_hung_engine_is_replaced(make_pool: MakePool, tmp_path: Path, warnings: list[str]) -> None:
    texts = [f"{number} cost=2" for number in range(30)]
    texts[15] += " hang"
    assert replies(ask(make_pool(limit=1, deadline_s=1.5), texts)) == texts
    assert engines_started(tmp_path) == 2
    assert "no reply for 1.5 s" in "".join(warnings)


def test_a_caller_that_takes_its_time_is_no_deadline(make_pool: MakePool, tmp_path: Path) -> None:
    ask_slowly = make_pool(limit=1, deadline_s=0.5)
    texts = [f"{number} cost=1" for number in range(12)]
    assert replies(ask(ask_slowly, texts, lambda finished: time.sleep(1.2 * (finished == 4)))) == texts
    assert engines_started(tmp_path) == 1


def test_an_exception_in_an_engine_is_the_outcome_after_three_engines(make_pool: MakePool) -> None:
    outcomes = ask(make_pool(limit=1, max_in_flight=1), ["good", "raise", "good again"])
    assert "CUDA error" in str(outcomes[1])
    assert replies(outcomes) == ["good", "good again"]


def test_errors_of_single_requests_are_their_outcomes(make_pool: MakePool) -> None:
    outcomes = ask(make_pool(limit=1), ["good", "unavailable"])
    assert isinstance(outcomes[1], JudgeUnavailable)
    assert str(outcomes[1]) == "not now"


def test_an_engine_with_another_signature_is_refused(make_pool: MakePool, tmp_path: Path, warnings: list[str]) -> None:
    texts = [f"{number} cost=10" for number in range(60)]
    assert replies(ask(make_pool(signature="first-other"), texts)) == texts
    assert len(computed(tmp_path)) == 2
    assert engines_started(tmp_path) == 3  # the refused one is not replaced
    [warning] = warnings
    assert "its signature is `other`, not `scripted`" in warning


def test_if_all_engines_are_refused_the_first_reason_is_the_outcome_of_all(make_pool: MakePool, tmp_path: Path) -> None:
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


def test_engines_that_die_at_once_are_replaced_a_few_times_only(
    make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "_MAX_REPLACED", 1)
    outcomes = ask(make_pool(signature="exit"), ["one", "two"])
    for outcome in outcomes.values():
        assert isinstance(outcome, JudgeUnavailable)
        assert "was lost" in str(outcome)
    assert engines_started(tmp_path) == 6


def test_without_a_signature_of_the_driver_the_first_engine_has_it(make_pool: MakePool) -> None:
    pool = make_pool(expects=None)
    assert pool.signature() == "scripted"
    assert replies(ask(pool, ["one"])) == ["one"]


def test_an_image_travels_once_and_is_dropped_after_its_last_request(
    make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    paths = [tmp_path / f"{number}.png" for number in range(3)]
    contents = [bytes([number]) * 300_000 for number in range(3)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    digests = [hashlib.sha256(content).hexdigest()[:8] for content in contents]
    put: list[bytes] = []
    ray_put = ray.put
    monkeypatch.setattr(ray, "put", lambda content: put.append(content) or ray_put(content))
    free_bytes = _free_bytes()
    missing = tmp_path / "missing.png"
    parts: list[tuple[str | Path, ...]] = [("a cost=20", paths[0], paths[1], paths[0]), ("b cost=20", paths[1])]
    parts += [("c die", paths[1], paths[2]), ("d", missing), ("e cost=20", paths[2])]
    asked = [JudgeRequest(parts=part, max_tokens=1) for part in parts]
    outcomes = dict(make_pool(limit=1).ask(asked, [1] * 5))
    assert replies(outcomes) == [
        f"a cost=20 {digests[0]} {digests[1]}",
        f"b cost=20 {digests[1]}",
        f"c die {digests[1]} {digests[2]}",
        f"e cost=20 {digests[2]}",
    ]
    assert isinstance(outcomes[3], RequestBroken)
    assert str(missing) in str(outcomes[3])
    assert sorted(put) == contents
    assert _free_bytes(at_least=free_bytes) == free_bytes


def _free_bytes(at_least: float = 0) -> float:
    """Memory of the object stores that is free, after two seconds at most."""
    import ray

    deadline_s = time.monotonic() + 2
    while (free := ray.available_resources()["object_store_memory"]) < at_least and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return free


def test_a_caller_that_stops_early_ends_the_engines(make_pool: MakePool, tmp_path: Path) -> None:
    outcomes = make_pool().ask(requests([f"{number} cost=10" for number in range(200)]), [1] * 200)
    for _ in range(5):
        next(outcomes)
    outcomes.close()
    time.sleep(0.3)
    number = len(all_computed(tmp_path))
    time.sleep(0.5)
    assert len(all_computed(tmp_path)) == number < 100
    assert _gpus_free() == 3


@needs_transformers_5
def test_engines_on_ray_reply_as_one_in_this_process_and_fill_the_same_cache(cluster, tmp_path: Path) -> None:  # noqa: ARG001
    def judge_with(engines: str) -> MmieScoreJudge:
        judge = create("mmie_score", {"model": str(CHECKPOINT), "device": "cpu", "engines": engines}, {})
        assert isinstance(judge, MmieScoreJudge)
        return judge

    asked = [JudgeRequest(parts=case.parts, max_tokens=case.max_new_tokens) for case in cases()]
    alone, judge = judge_with("1"), judge_with("2")
    freed: list[str] = []
    judge.before_loading(lambda: freed.append("freed"))
    assert judge.signature == alone.signature
    cached = CachedJudge(judge, CacheFile(tmp_path / "cache.sqlite3"))
    outcomes = dict(cached.ask(asked))
    expected = dict(alone.ask(asked))
    for index, reply in expected.items():
        assert replace(outcomes[index], digits=None) == replace(reply, digits=None)
    assert replies(outcomes) == [case.response for case in cases()]
    assert freed == ["freed"]
    judge.close()
    assert replies(dict(cached.ask(asked))) == replies(outcomes)
    assert freed == ["freed"]  # no engine was started again
    assert judge.signature == alone.signature


def _gpus_free() -> float:
    import ray

    deadline_s = time.monotonic() + 5
    while (free := ray.available_resources().get("GPU", 0)) < 3 and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return free
