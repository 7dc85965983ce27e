"""MMIE-Score on a Ray cluster: three nodes on this machine, each of which claims a GPU."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import torch
from support.internvl_golden import CHECKPOINT, cases
from support.judge_creation import create
from support.ray_engines import NODE, TESTS, ScriptedEngine, computed, engines_started, three_nodes
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.base import (
    JudgeMisconfigured,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    RequestBroken,
)
from mmie_tasks.judges.mmie_score import ray_engines
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge
from mmie_tasks.judges.mmie_score.ray_engines import RayEngines
from mmie_tasks.record.reply import JudgeReply

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}")  # of Ray's own modules
    for kind in ("DeprecationWarning", "FutureWarning", "ResourceWarning")
]


def engines_of(limit: int | None = None, device: str = "auto", **environment: str) -> RayEngines:
    return RayEngines(
        limit=limit, device=device, environment=environment, actor_class=ScriptedEngine
    )


def requests(texts: Sequence[str]) -> list[JudgeRequest]:
    return [JudgeRequest(parts=(text,), max_tokens=10) for text in texts]


def texts_of(outcomes: dict[int, Outcome]) -> list[str]:
    return [
        outcome.text for _, outcome in sorted(outcomes.items()) if isinstance(outcome, JudgeReply)
    ]


def all_computed(folder: Path) -> list[str]:
    return [text for texts in computed(folder).values() for text in texts]


# Those without the cluster are first: it is the Ray session of this process until the end of the
# module.


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({"engines": "0"}, {}),
        ({"engines": "all"}, {}),
        ({"engines": "2", "device": "cuda:1"}, {}),
        ({"engines": "2"}, {"WORLD_SIZE": "8"}),
    ],
)
def test_engines_that_cannot_run_here_are_refused(
    options: dict[str, str], environment: dict[str, str]
) -> None:
    with pytest.raises(JudgeMisconfigured, match=f"`engines={options['engines']}"):
        create("mmie_score", options, environment)


def test_several_engines_without_ray_have_a_hint_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray_engines, "find_spec", lambda _: None)
    with pytest.raises(JudgeMisconfigured, match=r"pip install 'mmie-tasks\[ray\]'"):
        create("mmie_score", {"engines": "4"}, {})
    create("mmie_score", {"engines": "1"}, {})


@pytest.mark.parametrize(
    ("limit", "device", "environment", "gpus", "expected"),
    [
        pytest.param(None, "auto", {}, 8, 8, id="several GPUs"),
        pytest.param(None, "auto", {}, 1, 0, id="one GPU"),
        pytest.param(None, "cuda:3", {}, 8, 0, id="a certain GPU"),
        pytest.param(None, "auto", {"WORLD_SIZE": "8"}, 8, 0, id="one of several processes"),
        pytest.param(1, "auto", {}, 8, 0, id="one engine"),
        pytest.param(4, "auto", {}, 1, 1, id="more engines than GPUs"),
        pytest.param(4, "auto", {}, 8, 4, id="fewer engines than GPUs"),
    ],
)
def test_ray_is_used_where_a_single_process_has_several_gpus(
    limit: int | None,
    device: str,
    environment: dict[str, str],
    gpus: int,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert engines_of(limit, device, **environment).gpus() == expected


def test_engines_without_any_gpu_are_refused() -> None:
    with pytest.raises(JudgeMisconfigured, match="neither this machine nor a Ray cluster"):
        engines_of(2).gpus()


def test_ray_on_this_machine_outlives_the_thread_that_started_it_and_ends_with_the_engines(
    tmp_path: Path,
) -> None:
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "LOGURU_LEVEL": "WARNING"}
    command = [sys.executable, str(TESTS / "support" / "local_engines.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr, done.returncode) == ("40 replies, connected: False\n", "", 0)
    assert not any(Path("/proc", process).exists() for process in computed(tmp_path))


def test_an_address_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engines, "_CONNECT_S", 0.1)
    monkeypatch.setattr(ray_engines, "_init", lambda *_: time.sleep(0.5))
    with pytest.raises(JudgeMisconfigured, match=r"`RAY_ADDRESS` is `h:1`\): no answer for 0\.1 s"):
        engines_of(3, RAY_ADDRESS="h:1").gpus()


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    with three_nodes() as nodes:
        yield nodes


@pytest.fixture
def started(cluster, tmp_path: Path) -> Iterator[Callable[..., RayEngines]]:  # noqa: ARG001
    """Starts scripted engines that write into `tmp_path`."""
    with ExitStack() as stack:

        def start(number: int = 3, max_rows: int = 8, **options: object) -> RayEngines:
            engines = stack.enter_context(closing(engines_of()))
            folder = {"folder": str(tmp_path)}
            engines.start({**folder, **options}, number=number, max_rows=max_rows)
            return engines

        yield start


def ask(
    engines: RayEngines, texts: Sequence[str], on_outcome: Callable[[int], None] = lambda _: None
) -> dict[int, Outcome]:
    """The outcomes of requests, one for each."""
    outcomes: dict[int, Outcome] = {}
    for index, outcome in engines.ask(requests(texts), range(len(texts))):
        assert index not in outcomes
        outcomes[index] = outcome
        on_outcome(len(outcomes))
    assert sorted(outcomes) == list(range(len(texts)))
    return outcomes


def test_every_gpu_computes_and_each_request_has_its_reply(started, tmp_path: Path) -> None:
    texts = [f"{number} cost={number % 10 + 1}" for number in range(240)]
    engines = started()
    assert texts_of(ask(engines, texts)) == texts
    assert len(computed(tmp_path)) == 3
    assert sorted(all_computed(tmp_path)) == sorted(texts)
    assert engines.machine() == "a GPU"


def test_requests_are_handed_out_in_the_given_order(
    started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engines, "MAX_AHEAD", 0)
    engines = started(number=1, max_rows=1)
    list(engines.ask(requests(["short", "longest", "middle"]), [1, 2, 0]))
    assert all_computed(tmp_path) == ["longest", "middle", "short"]


def test_a_caller_that_stops_early_ends_the_engines(started, tmp_path: Path) -> None:
    outcomes = started().ask(requests([f"{number} cost=10" for number in range(200)]), range(200))
    for _ in range(5):
        next(outcomes)
    outcomes.close()
    time.sleep(0.5)
    number = len(all_computed(tmp_path))
    time.sleep(0.5)
    assert len(all_computed(tmp_path)) == number < 200


def test_the_requests_of_an_engine_that_dies_are_computed_again_once(
    started, tmp_path: Path
) -> None:
    texts = [f"{number} cost=3" for number in range(60)]
    texts[20] += " die"
    assert texts_of(ask(started(), texts)) == texts
    assert max(Counter(all_computed(tmp_path)).values()) == 2


def test_a_request_that_ends_its_engine_twice_is_unavailable_and_later_ones_have_replies(
    started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engines, "MAX_AHEAD", 0)
    texts = ["good", "bad die-always", *(f"{number}" for number in range(5))]
    outcomes = ask(started(number=1, max_rows=1), texts)
    assert isinstance(outcomes[1], JudgeUnavailable)
    assert len(texts_of(outcomes)) == 6
    assert all_computed(tmp_path).count("bad die-always") == 2


def test_a_node_that_is_lost_costs_no_reply(
    cluster, started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engines, "_LOOK_S", 8.0)
    texts = [f"{number} cost=5" for number in range(150)]
    node = next(iter(cluster.worker_nodes))

    def lose_a_node(finished: int) -> None:
        if finished == 60:
            cluster.remove_node(node, allow_graceful=False)

    outcomes = ask(started(rows=2, max_rows=8), texts, lose_a_node)
    cluster.add_node(**NODE)
    assert texts_of(outcomes) == texts


def test_an_exception_in_an_engine_costs_its_own_request(started) -> None:
    outcomes = ask(started(number=1), ["good", "raise", "misconfigured", "good again"])
    assert "RuntimeError: CUDA error" in str(outcomes[1])
    assert isinstance(outcomes[2], JudgeMisconfigured)
    assert texts_of(outcomes) == ["good", "good again"]


def test_an_engine_with_another_signature_is_not_used(
    started, tmp_path: Path, warnings: list[str]
) -> None:
    texts = [f"{number} cost=10" for number in range(60)]
    assert texts_of(ask(started(signature="first-other"), texts)) == texts
    assert len(warnings) == 3 - len(computed(tmp_path))
    assert all("it would judge as `" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("signature", "words"), [("error", "No such checkpoint."), ("exit", "an engine of Ray")]
)
def test_engines_that_cannot_start_are_an_error_with_the_reason(
    signature: str, words: str, started, tmp_path: Path
) -> None:
    with pytest.raises(JudgeMisconfigured, match=words):
        started(signature=signature)
    assert engines_started(tmp_path) >= 3


def test_images_travel_with_their_request_and_one_that_is_missing_costs_only_its_own(
    started, tmp_path: Path
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
    outcomes = dict(started(number=1).ask(asked, range(3)))
    assert texts_of(outcomes) == [f"a {digests[0]} {digests[1]}", f"b die {digests[1]}"]
    assert isinstance(outcomes[2], RequestBroken)
    assert str(missing) in str(outcomes[2])


@needs_transformers_5
def test_engines_reply_as_one_in_this_process(cluster, warnings: list[str]) -> None:  # noqa: ARG001
    asked = [JudgeRequest(parts=case.parts, max_tokens=case.max_new_tokens) for case in cases()]
    options = {"model": str(CHECKPOINT), "device": "cpu"}
    alone = create("mmie_score", {**options, "engines": "1"}, {})
    judge = create("mmie_score", {**options, "engines": "2"}, {})
    assert isinstance(judge, MmieScoreJudge)
    freed: list[str] = []
    judge.before_loading(lambda: freed.append("freed"))
    assert judge.signature == alone.signature
    judge.check()
    with closing(judge):
        outcomes = dict(judge.ask(asked))
        expected = dict(alone.ask(asked))
        assert texts_of(outcomes) == texts_of(expected) == [case.response for case in cases()]
        assert freed == ["freed"]
        assert judge.machine() == f"CPU, torch {torch.__version__}"
        judge.close()
        assert texts_of(dict(judge.ask(asked[:1]))) == texts_of(expected)[:1]
    assert freed == ["freed", "freed"]
    assert not any("engine of Ray" in warning for warning in warnings)
