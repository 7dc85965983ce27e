"""A panel: several judges, most of them on loopback servers, and the median of their points."""

import math
from contextlib import ExitStack

import pytest
from support.judge_server import JudgeServer
from support.judged_samples import submit
from support.judges import FunctionJudge, class_of, echo, reply, text_of
from support.signatures import signature_from

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.verdict import Scored, Unscored, Verdicts
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.choice import parse_flags
from mmie_tasks.judges.session import BenchmarkJudge, JudgingSession
from mmie_tasks.record.judgement import Judgement, combine
from mmie_tasks.record.reply import JudgeResult


@pytest.fixture(autouse=True)
def api_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-thisisnotarealkey")


@pytest.fixture
def serve():
    """Starts a server for each script."""
    with ExitStack() as stack:
        yield lambda *scripts: [stack.enter_context(JudgeServer(says)) for says in scripts]


def choose(servers, *more_judges):
    """The session of a benchmark whose panel is one judge per server, and further judges."""
    judges = [
        f"openai:m{number},base_url={server.url}" for number, server in enumerate(servers, start=1)
    ]
    flags = parse_flags([*judges, *more_judges], [])
    benchmark = BenchmarkJudge("mmie", "openai:m", title="MMIE")
    benchmark.session = JudgingSession(flags)
    return benchmark


def register(monkeypatch, **judges):
    """Register judges of another package."""
    classes = {name: class_of(judge) for name, judge in judges.items()}
    built_in = registry.judge_class
    monkeypatch.setattr(registry, "judge_class", lambda name: classes.get(name) or built_in(name))


def judge(benchmark, count, judged=None):
    """The rows of samples whose requests are the numbers 0, 1 and so on."""
    rows = [submit(benchmark, str(n), judged) for n in range(count)]
    return [dict(row) for row in rows]


def test_judges_on_servers_are_asked_at_the_same_time(serve):
    first, second = serve("2", "4")
    first.ready = lambda: len(second) == 3  # each answers only when the other has all requests
    second.ready = lambda: len(first) == 3
    assert judge(choose([first, second]), 3) == [{"score": 3.0}] * 3


def test_a_judge_that_cannot_be_used_or_is_there_twice_stops_the_run_before_any_request(serve):
    first, second = serve("2", "4")
    with pytest.raises(SettingWrong):
        choose([first], f"openai:m1,timeout=60,base_url={first.url}").check()
    second.key = "another"
    with pytest.raises(JudgeMisconfigured, match="401"):
        choose([first, second]).check()
    assert (len(first), len(second)) == (0, 0)


# Judges of other packages, and in this process


class InProcessJudge(FunctionJudge):
    """Loads and frees a model, and writes that into a list."""

    in_process = True

    def __init__(self, name, events):
        super().__init__(echo)
        self.signature = {"judge": name}
        self._name, self._events, self._is_loaded = name, events, False

    def ask(self, requests):
        self._events.append(f"{self._name} loads")
        self._is_loaded = True
        yield from super().ask(requests)

    def close(self):
        if self._is_loaded:
            self._is_loaded = False
            self._events.append(f"{self._name} closes")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["a", "b"], ["a loads", "a closes", "b loads", "b closes"], id="two"),
        pytest.param(["a"], ["a loads"], id="the-only-one-stays-loaded"),
    ],
)
def test_a_local_judge_is_closed_before_the_next_loads(monkeypatch, serve, names, expected):
    events = []
    register(monkeypatch, **{name: InProcessJudge(name, events) for name in names})
    judge(choose(serve("4"), *names), 3)
    assert events == expected


def test_a_judge_that_raises_costs_only_its_own_verdicts(monkeypatch, serve, logs):
    def reply_or_raise(request):
        if text_of(request) == "1":
            raise ZeroDivisionError("in a judge of another package")
        return reply("4")

    register(monkeypatch, raising=FunctionJudge(reply_or_raise))
    judged = []
    rows = judge(choose(serve("2", "3"), "raising"), 4, judged)
    assert rows == [{"score": 2.5}] * 2 + [{"score": 3.0}] * 2
    failures = [one[2].result.failure for one in judged if one[2].result.failure]
    assert [failure.reason for failure in failures] == ["unavailable"] * 2
    text = "".join(logs)
    assert "Judge 3 of 3 (raising) ended early; 2 samples left without its verdict." in text
    assert "ZeroDivisionError" in text


# The median


def member(official, name="b", **fields):
    verdicts = Verdicts(**{"official": official, "robust": official, **fields})
    judge = signature_from(f"judge:openai|model:{name}")
    return Judgement(judge=judge, result=JudgeResult(), verdicts=verdicts)


NO, DOWN = Unscored("refused", "no"), Unscored("unavailable")
HALF = "1 of 2 judges gave points (b: refused)"
FEW = "1 of 3 judges gave points (b: unavailable, b: refused)"
NONE = "0 of 3 judges gave points (b: refused, b: unavailable, b: unavailable)"


@pytest.mark.parametrize(
    ("verdicts", "combined"),
    [
        pytest.param([Scored(1), Scored(5), Scored(6)], Scored(5), id="odd"),
        pytest.param([Scored(1), Scored(2), Scored(5), Scored(6)], Scored(3.5), id="even"),
        pytest.param([Scored(4), Scored(math.inf)], Scored(math.inf), id="infinite"),
        pytest.param([Scored(4), Scored(5), NO], Scored(4.5), id="of-those-with-points"),
        pytest.param([Scored(3), NO], Unscored("refused", HALF), id="half"),
        pytest.param([Scored(3), DOWN, NO], Unscored("unavailable", FEW), id="too-few"),
        pytest.param([NO, DOWN, DOWN], Unscored("unavailable", NONE), id="most-frequent-reason"),
    ],
)
def test_the_panels_points_are_the_median_for_each_kind_and_not_rounded(verdicts, combined):
    both = combine([member(verdict) for verdict in verdicts])
    assert (both.official, both.robust) == (combined, combined)
    half = combine([member(verdict, robust=NO) for verdict in verdicts])
    assert half.official == combined
    assert isinstance(half.robust, Unscored)


def test_components_are_combined_one_by_one_over_the_judges_that_are_scored():
    members = [
        member(Scored(50), shares={"official": {"style": 0.5, "length": 1.0}}),
        member(Scored(75), shares={"official": {"style": 1.0}, "robust": {"style": 0.25}}),
        member(Unscored("cut_off"), shares={"official": {"style": 0.0}}),
    ]
    shares = combine(members).shares
    assert shares == {"official": {"style": 0.75, "length": 1.0}, "robust": {"style": 0.25}}
