"""Writes the data of `make calibrate`; a script of this repository, not an example of use.

``python make.py OUT`` writes 400 samples in MMIE's layout, two models' answers and two judges'
replies: ``OUT/data``, ``OUT/answers-a``, ``OUT/answers-b``, ``OUT/replies.jsonl`` and
``OUT/old_replies.jsonl``. ``python make.py OUT PLAN`` then writes ``OUT/people.csv``: the plan,
scored as two people would. All of it is made up: a story has six sentences, an answer tells some of
them, people count them with an error, and the judge, which reports the probabilities of its points,
is kind to bad answers. The old judge is nearer to people.
"""

from __future__ import annotations

import csv
import random
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[1]
CATEGORIES = {"SA": 100, "PBL": 228, "MSR": 72}  # in MMIE's proportions
SKILL = {"a": 3.1, "b": 3.6}  # sentences that a model tells on average
STORIES = {
    "SA": (
        "kite-in-grass",
        "kite-flies",
        "The wind comes up",
        "A girl lets the kite go",
        "It climbs",
        "It sees a tree",
    ),
    "PBL": (
        "walls",
        "roof",
        "Draw a square",
        "Draw a roof on it",
        "Draw a door",
        "Draw two windows",
    ),
    "MSR": (
        "dots-2",
        "dots-5",
        "There are two discs",
        "Three more are drawn",
        "Two and three are five",
        "So it is 5",
    ),
}
ENDING = ("Nothing is missing now", "That is all")
JUDGE = "made-up"
OLD_JUDGE = "made-up-old"


def normal(key: str, mean: float, spread: float) -> float:
    """A number from the normal distribution, always the same for a key."""
    return random.Random(key).gauss(mean, spread)  # noqa: S311 - not a secret


def sentences(category: str) -> tuple[str, ...]:
    """The six sentences of a story."""
    return (*STORIES[category][2:], *ENDING)


def samples() -> Iterator[tuple[str, str, int]]:
    """Id, category and number of each sample."""
    for category, count in CATEGORIES.items():
        yield from ((f"{category}-{number}", category, number) for number in range(1, count + 1))


def sentence_count(model: str, sample_id: str) -> int:
    """How many of the six sentences the model's answer tells."""
    skill = normal(sample_id, SKILL[model], 1.4)  # some samples are hard for both models
    return min(6, max(0, round(skill + normal(f"{model} {sample_id}", 0, 0.9))))


def question(category: str, number: int) -> list[dict[str, str | None]]:
    """A picture and a request, in the official form."""
    picture = STORIES[category][0]
    return [
        {"text": f"Number {number}. Tell this in six sentences.", "image": f"images/{picture}.png"}
    ]


def answer(category: str, count: int) -> list[dict[str, str | None]]:
    """The first sentences; with a picture if there are four or more."""
    text = ". ".join(sentences(category)[:count])
    picture = f"images/{STORIES[category][1]}.png" if count >= 4 else None
    return [{"text": f"{text}." if text else "I cannot tell.", "image": picture}]


def rows() -> list[dict[str, Any]]:
    """The samples, with the keys of the dataset, which spells ``catagory`` so."""
    labels = {
        "SA": "Situational analysis",
        "PBL": "Project-based learning",
        "MSR": "Multi-step reasoning",
    }
    return [
        {
            "id": sample_id,
            "catagory": labels[category],
            "field": "Education",
            "subfield": "",
            "conversations": [
                {"from": "human", "content": question(category, number)},
                {"from": "gpt", "content": answer(category, 6)},
            ],
        }
        for sample_id, category, number in samples()
    ]


def judge_points(judge: str, sample_id: str, count: int) -> int:
    """A judge's points for an answer."""
    level = 2.4 + 0.55 * count + normal(f"judge {sample_id} {count}", 0, 0.8)
    if judge == OLD_JUDGE:
        level = 0.5 + 0.85 * count + normal(f"{judge} {sample_id} {count}", 0, 0.7)
    return min(range(7), key=lambda points: abs(points - level))


def replies(out: Path, judge: str) -> Iterator[str]:
    """The lines of a judge's recording: the reply to both answers of each sample."""
    from mmie_tasks.benchmarks.mmie.data import dataset
    from mmie_tasks.benchmarks.mmie.request import build_request
    from mmie_tasks.benchmarks.mmie.sample import Sample
    from mmie_tasks.benchmarks.mmie.settings import MmieSettings
    from mmie_tasks.benchmarks.model_answers import add_answer_folder
    from mmie_tasks.extend import JudgeReply
    from mmie_tasks.judges.cache_export import export_line
    from mmie_tasks.judges.cache_store import CachedReply
    from mmie_tasks.judges.content import content_key

    add_answer_folder(out / "answers-a")
    settings = MmieSettings(prompts=EXAMPLES / "mmie" / "prompts.json")
    for doc in dataset("all", {"MMIE_DATA": str(out / "data")}):
        sample = Sample.from_doc(doc)
        for count in {sentence_count(model, sample.id) for model in SKILL}:
            given = [answer(sample.category, count)]
            request = build_request(sample, given, "mmie", settings).request
            if request is None:
                raise ValueError(f"{sample.id} is not judged")
            points = judge_points(judge, sample.id, count)
            text = f"### Feedback\nIt tells a part of the story.\n### Score\n{points}"
            reply = JudgeReply(text=text, model=judge)
            signature = f"judge:made_up|model:{judge}"
            yield export_line(CachedReply(signature, content_key(request), reply, 0))


def write_run_inputs(out: Path) -> None:
    """Write data, answers and replies, with the pictures of `examples/mmie`."""
    sys.path.insert(0, str(EXAMPLES / "mmie"))  # for the imports of its script
    write = runpy.run_path(str(EXAMPLES / "mmie" / "make.py"))["write"]
    write(out / "data" / "data.json", rows())
    for model in SKILL:
        answers = [
            {"id": id_, "answer": answer(category, sentence_count(model, id_))}
            for id_, category, _ in samples()
        ]
        write(out / f"answers-{model}" / "answers.json", answers)
    for name, judge in (("replies", JUDGE), ("old_replies", OLD_JUDGE)):
        (out / f"{name}.jsonl").write_text("".join(replies(out, judge)), encoding="utf-8")


def fill_in(out: Path, plan: Path) -> None:
    """Write ``people.csv``: the plan, scored by two people."""
    from mmie_tasks.extend import LoggedSample, Scored, Segment
    from mmie_tasks.results.labels import answer_digest

    def digest(category: str, count: int) -> str:
        segments = tuple(
            Segment(text=segment["text"] or "", image=segment["image"])
            for segment in answer(category, count)
        )
        return answer_digest(
            LoggedSample(id="", official=Scored(0), robust=Scored(0), groups={}, answer=segments)
        )

    count_of = {
        (category, digest(category, count)): count for category in CATEGORIES for count in range(7)
    }
    with plan.open(encoding="utf-8", newline="") as file:
        planned = list(csv.DictReader(file))
    with (out / "people.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(
            file, fieldnames=["id", "answer", "seed", "rater", "score"], lineterminator="\n"
        )
        writer.writeheader()
        for row in planned:
            count = count_of[row["id"].partition("-")[0], row["answer"]]
            for rater in ("Ada", "Ben"):
                error = normal(f"{rater} {row['id']} {row['answer']}", 0, 0.7)
                writer.writerow(
                    {**row, "rater": rater, "score": min(6, max(0, round(count + error)))}
                )


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if len(sys.argv) > 2:
        fill_in(folder, Path(sys.argv[2]))
    else:
        write_run_inputs(folder)
