"""Runs of MMIE through lmms-eval: their folder, the command, the files they write."""

import json
from dataclasses import dataclass

from support.judge_server import JudgeServer
from support.mmie_data import contents, conversations_folder, draw
from support.mmie_judge import words
from support.runner import CommandResult, Workplace

KEY = "sk-secret-0123456789abcdef"
N = 6
TABLE = {  # of the answers of `answers`, judged `by_category`
    "official": 72.22,  # (2 x 3 + 2 x 4 + 2 x 6) / 6 of 6
    "official_SA": 50.0,
    "official_PBL": 66.67,
    "official_MSR": 100.0,
    "scored_PBL": 2.0,
    "robust": 72.22,
    "coverage": 100.0,
    "parse_rate": 100.0,
    "points_6": 2.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    workplace: Workplace
    judge: JudgeServer
    result: CommandResult


def create_workplace(folder):
    """A workplace with the stub model, ``data/``, ``answers.json``, ``drawn/``, ``words.json``."""
    workplace = Workplace(folder=folder)
    workplace.install_stub_model()
    conversations_folder(folder / "data", N)
    answers(folder)
    words(folder / "words.json")
    return workplace


def answers(folder):
    """An answer to each sample: three steps with a picture each, or a number."""
    saved_answers = []
    for i, (sample_id, _, _) in enumerate(contents(N)):
        steps = [
            {"text": f"Then {step}.", "image": f"drawn/{i}-{step}.png"} for step in ("a", "b", "c")
        ]
        for number, step in enumerate(steps):
            draw(folder / step["image"], 50 + 3 * i + number)
        saved_answers.append({"id": sample_id, "answer": f"{i + 2}" if i % 3 == 2 else steps})
    (folder / "answers.json").write_text(json.dumps(saved_answers), encoding="utf-8")
    return folder / "answers.json"


def evaluate(
    workplace, *more, url="", tasks="mmie", command=("lmms-eval",), processes=1, **variables
):
    """Run lmms-eval, by default on ``answers.json``; `url` is the judge."""
    pairs = f"name=openai,model=judge-model,base_url={url},prompts=words.json"
    judge = ("--launcher_args", pairs) if url else ()
    model = () if "--model" in more else ("--model", "predictions")
    args = () if model == () else ("--model_args", "path=answers.json")
    settings = {"MMIE_DATA": "data", "OPENAI_API_KEY": KEY}
    return workplace.run(
        *command,
        *(*model, *args, "--tasks", tasks, "--output_path", "out", "--log_samples"),
        *(*judge, *more),
        processes=processes,
        **{**settings, **variables},
    )


def samples(workplace, task="mmie", output="out"):
    """The lines of a sample log, in the order of the data file."""
    (path,) = (workplace.folder / output).rglob(f"*_samples_{task}.jsonl")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return sorted(lines, key=lambda line: int(line["id"].rpartition("-")[2]))


def results(workplace):
    (path,) = (workplace.folder / "out").rglob("*_results.json")
    return json.loads(path.read_text(encoding="utf-8"))


def printed(result, alias="MMIE"):
    return {
        metric: float(value) for (task, metric), value in result.values.items() if task == alias
    }
