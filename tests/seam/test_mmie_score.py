"""MMIE with the paper's judge in the process itself, on a CPU, on tiny checkpoints."""

from __future__ import annotations

from pathlib import Path

from support import scripted_checkpoint
from support.logged_records import replies_of
from support.mmie_seam import N, evaluate, printed, results, samples
from support.runner import CommandResult, Workplace
from support.transformers_5 import needs_transformers_5

pytestmark = needs_transformers_5

LOADED = "Loading MMIE-Score"
FREED = "No GPU memory is held in this process."


def judged(workplace: Workplace, judge: Path, processes: int = 1) -> CommandResult:
    more = ("--judge_args", "prompts=words.json", "--model", "stub")
    settings = {"MMIE_SCORE_MODEL": str(judge), "MMIE_TASKS_JUDGE": " "}
    command = ("mmie-tasks", "eval")
    return evaluate(workplace, *more, command=command, processes=processes, **settings)


def test_the_default_judge_is_that_of_the_paper_and_gives_the_table(workplace: Workplace) -> None:
    judge = scripted_checkpoint.write(workplace.folder / "judge")
    result = judged(workplace, judge, processes=2)
    values = printed(result)
    assert values["official"] == 66.67, result.output  # 4 of 6 points for each
    assert values["points_4"] == float(N)
    assert (values["coverage"], values["parse_rate"]) == (100.0, 100.0)
    assert "over_4096" not in values
    signature = results(workplace)["configs"]["mmie"]["metadata"]["signature"]
    assert signature.startswith("judge:mmie_score|model:MMIE-Score@")
    assert "|paper_judge:yes|" in signature
    assert "|dtype:float32|device:cpu|" in signature
    logged = replies_of(samples(workplace)[0]["record"])[0]
    assert logged.text == "### Score: 4"
    assert logged.usage.input_tokens > 50
    assert logged.usage.cost_usd == 0.0

    # Each process loads the judge after its tested model is freed.
    assert result.output.count(LOADED) == result.output.count(FREED) == 2
    assert result.output.index("stub: generating") < result.output.index(FREED)
    assert result.output.index(FREED) < result.output.index(LOADED)
    again = judged(workplace, judge)
    assert {
        name: str(value) for name, value in printed(again).items()
    } == {  # as texts: NaN is not itself
        name: str(value) for name, value in values.items()
    }, again.output
    assert LOADED not in again.output  # every reply is in the cache
