"""MIA-Bench through lmms-eval itself, on the bundled samples, with a loopback judge."""

from __future__ import annotations

import json
import random
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.judge_server import Body, JudgeServer, completion
from support.loopback import HANG_UP, Sent, error
from support.mmie_judge import content_of, text_of
from support.mmie_seam import KEY, printed
from support.runner import CommandResult, Workplace

from mmie_tasks.results.run import open_runs

DATA = Path(__file__).resolve().parents[2] / "examples" / "mia_bench" / "data"
SETTINGS = {"MIA_BENCH_DATA": str(DATA), "OPENAI_API_KEY": KEY}
COLUMNS = ["id", "score", "robust", "unscored", "question", "answer", "reply"]
FULL = {"official": 97.5, "robust": 100.0, "coverage": 100.0, "differ": 1.0}
"""What full marks for all eight samples print; one of them is worth 8 points of 10."""
STORM = (  # faults, and full marks for None, in percent of the requests
    *((error(429), 10), (error(500), 10), (HANG_UP, 5), (Sent(content=b'{"choices": [{"mess'), 5)),
    *((completion(""), 4), (None, 66)),
)


def full_marks(body: Body) -> str:
    """A reply in the official form, out of 10, with full marks for every component."""
    (listed,) = re.findall(r"worth ([\d, and]+) scores", text_of(body))
    weights = [int(number) for number in re.findall(r"\d+", listed)]
    parts = [f"score of component {i}: {w}/{w}" for i, w in enumerate(weights, 1)]
    return ", ".join([*parts, f"total score: {sum(weights)}/10"]) + ". All of it is there."


def stormy(seed: int) -> Callable[[Body], str | Body | Sent]:
    """Full marks, and the faults of `STORM` in a random order."""
    draws, (replies, percents) = random.Random(seed), zip(*STORM, strict=True)  # noqa: S311
    return lambda body: draws.choices(replies, percents)[0] or full_marks(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRun:
    """A run of `predict_only` that was scored by the command that it printed, by a stormy judge."""

    workplace: Workplace
    judge: JudgeServer
    written: CommandResult
    scored: CommandResult


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    workplace = Workplace(folder=tmp_path_factory.mktemp("mia_bench"))
    workplace.install_stub_model()
    return workplace


def evaluate(workplace: Workplace, judge: JudgeServer, *more: str) -> CommandResult:
    """An evaluation of the stub model."""
    pairs = f"name=openai,model=judge-model,base_url={judge.url}"
    options = ("--model", "stub", "--tasks", "mia_bench", "--launcher_args", pairs, *more)
    return workplace.run("lmms-eval", *options, **SETTINGS)


@pytest.fixture(scope="module")
def run(workplace: Workplace) -> Iterator[ScoredRun]:
    with JudgeServer(stormy(seed=50), key=KEY) as judge:  # faults come before the last reply
        model = ("--model_args", "pretrained=org/stub-7b", "--predict_only")
        written = evaluate(workplace, judge, *model, "--output_path", "out", "--log_samples")
        assert len(judge.log) == 0
        command = shlex.split(written.output.rstrip().splitlines()[-1])
        words = ("--judge", "openai:judge-model", "--judge_args", f"base_url={judge.url}")
        scored = workplace.run(*command, *words, **SETTINGS)
        yield ScoredRun(workplace=workplace, judge=judge, written=written, scored=scored)


def test_a_predict_only_run_needs_no_judge_and_is_scored_under_its_name(run: ScoredRun) -> None:
    assert "stub: generating 8 answers" in run.written.output, run.written.output
    assert re.search("^mia_bench +stub-7b ", run.scored.output, re.MULTILINE)
    output = run.workplace.folder / "out"
    (folder,) = output.iterdir()
    names = {json.loads(path.read_text())["model_name"] for path in folder.glob("*_results.json")}
    assert (folder.name, names) == ("org__stub-7b", {"org/stub-7b"})
    (of_run,) = open_runs([str(output)])
    assert of_run.name == "stub-7b"


def test_a_storm_of_the_judges_faults_costs_no_sample(run: ScoredRun) -> None:
    assert FULL.items() <= printed(run.scored, "MIA-Bench").items(), run.scored.output
    # The check, eight replies, one cut off and two empty ones; a reset.
    assert run.judge.statuses == {200: 1 + 8 + 1 + 2, 429: 2, 500: 2, 0: 1}
    images = {path.read_bytes() for path in (DATA / "images").iterdir()}
    sent = [[p for p in content_of(body) if isinstance(p, bytes)] for body in run.judge.asked]
    assert {image for (image,) in sent} == images


def test_the_log_and_the_results_file_have_the_scores_the_signature_and_no_key(
    run: ScoredRun,
) -> None:
    folder = run.workplace.folder
    log = max((folder / "out").rglob("*_samples_mia_bench.jsonl"))
    logged = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    scores = {line["id"]: line["score"] for line in logged}
    assert scores == {**dict.fromkeys("01234567", 1.0), "6": 0.8}
    assert [*logged[0]][:7] == COLUMNS
    assert [line["official"] for line in logged] == [line["score"] for line in logged]
    assert all("score of component 1" in json.dumps(line["record"]) for line in logged)
    results_file = json.loads(max((folder / "out").rglob("*_results.json")).read_text("utf-8"))
    signature = results_file["configs"]["mia_bench"]["metadata"]["signature"]
    assert "judge:openai|model:judge-model|t:0" in signature
    assert "paper_judge:no" in signature
    assert signature in run.scored.output
    assert results_file["usage"]["by_source"]["judge"]["n_api_calls"] == 8
    files = (path for path in folder.rglob("*") if path.is_file())
    written = b"".join(path.read_bytes() for path in files)  # including the cache
    output = run.written.output + run.scored.output
    assert KEY.encode() not in written + output.encode()


def test_a_wrong_key_stops_the_run_before_the_model_is_loaded(workplace: Workplace) -> None:
    with JudgeServer(key="another") as judge:
        result = evaluate(workplace, judge)
    assert result.status == 1, result.output
    assert "401" in result.output
    assert "stub: loaded" not in result.output
    assert "Traceback" not in result.output
    assert KEY not in result.output
