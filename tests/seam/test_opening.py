"""OpenING through lmms-eval itself, on the bundled samples, with loopback judges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.judge_server import Body, JudgeServer
from support.mia_judge import full_marks
from support.mmie_judge import by_category
from support.mmie_seam import KEY
from support.opening_data import EXAMPLE, PROMPTS, reply
from support.runner import CommandResult, Workplace

EXAMPLES = EXAMPLE.parent
DATA = {
    "OPENING_DATA": str(EXAMPLE / "data"),
    "MMIE_DATA": str(EXAMPLES / "mmie" / "data"),
    "MIA_BENCH_DATA": str(EXAMPLES / "mia_bench" / "data"),
    "OPENAI_API_KEY": KEY,
}
ANSWERS = ";".join(str(EXAMPLES / name / "answers") for name in ("mmie", "opening", "mia_bench"))


def called(points: int) -> Body:
    """A completion that calls the function with the same points for all metrics."""
    call = {"name": "grade", "arguments": reply(points)}
    message = {"role": "assistant", "content": None, "function_call": call}
    return {"choices": [{"message": message, "finish_reason": "stop"}], "model": "gpt-4o"}


@pytest.fixture
def judges() -> Iterator[dict[str, JudgeServer]]:
    """A judge for each task."""
    replies = {"mmie": by_category, "opening": lambda _: called(7), "mia_bench": full_marks}
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(JudgeServer(says, key=KEY)) for name, says in replies.items()
        }


def evaluate(workplace: Workplace, judges: dict[str, JudgeServer], *more: str) -> CommandResult:
    words: list[str] = []
    for task, server in judges.items():
        model = "gpt-4o-2024-11-20" if task == "opening" else f"judge-of-{task}"
        judge = f"{task}=openai:{model},base_url={server.url},max_concurrency=1"
        prompts = "" if task == "mia_bench" else f",prompts={EXAMPLES / task / 'prompts.json'}"
        words += ["--judge", judge + prompts]
    return workplace.run(
        *(
            "mmie-tasks",
            "eval",
            "--model",
            "predictions",
            "--model_args",
            f"path={ANSWERS},images={ANSWERS.partition(';')[0]}",
        ),
        *("--tasks", ",".join(judges), "--output_path", "out", "--log_samples", *words, *more),
        **DATA,
    )


def test_a_judge_gets_the_official_form_of_a_request(
    tmp_path, judges: dict[str, JudgeServer]
) -> None:
    only = {"opening": judges["opening"]}
    result = evaluate(Workplace(folder=tmp_path), only)
    assert result.status == 0, result.output
    assert float(result.values["OpenING", "official"]) == 70, result.output
    texts = json.loads(PROMPTS.read_text(encoding="utf-8"))["judge"]
    assert len(judges["opening"]) == 7
    for body in judges["opening"].asked:
        system, user = body["messages"]
        assert system == {"role": "system", "content": texts["system"]}
        assert user["content"][0]["text"].startswith("INPUT: ")
        assert user["content"][-1]["text"] == texts["ending"]
        assert {part["type"] for part in user["content"]} <= {"text", "image_url"}
        (function,) = body["functions"]
        assert body["function_call"] == {"name": function["name"]}
    assert sum("image_url" in str(body) for body in judges["opening"].asked) > 1
