"""Two evaluations in one process: nothing of the first is in the second."""

from __future__ import annotations

import json
from pathlib import Path

from support.judge_server import JudgeServer
from support.mmie_judge import by_category
from support.mmie_seam import KEY, N, create_workplace
from support.runner import CommandResult, write

DIES = """
from itertools import count
from lmms_eval.evaluator import simple_evaluate
from mmie_tasks.benchmarks.mmie import request

prepared, calls = request.prepared, count(1)

def fails_from_last(*args):
    if next(calls) >= LAST:  # the runner tries it again
        raise RuntimeError("out of memory")
    return prepared(*args)

request.prepared = fails_from_last
try:
    simple_evaluate(model="stub", model_args="answer=red", tasks=["mmie"], launcher_args="JUDGE")
except Exception as error:
    print("ended:", type(error).__name__)
request.prepared = prepared
simple_evaluate(model="stub", model_args="answer=blue", tasks=["mmie"], launcher_args="JUDGE")
"""


def run(folder: Path, script: str, judge: JudgeServer) -> CommandResult:
    workplace = create_workplace(folder)
    judge_pairs = f"name=openai,model=judge-model,base_url={judge.url},prompts=words.json"
    write(folder / "evaluation.py", script.replace("JUDGE", judge_pairs))
    return workplace.run(*("python", "evaluation.py"), MMIE_DATA="data", OPENAI_API_KEY=KEY)


def test_samples_of_an_evaluation_that_died_are_not_judged_in_the_second(tmp_path: Path) -> None:
    with JudgeServer(by_category) as judge:
        result = run(tmp_path, DIES.replace("LAST", str(N)), judge)
    assert "ended: " in result.output
    assert ["blue" in json.dumps(body) for body in judge.asked] == [True] * N
