"""Writes the example runs to compare; a script of this repository, not an example of use.

``python make.py`` rewrites the files in this folder; the files of the three benchmarks must exist.

``answers/`` has model B's answers to all three, and ``replies.jsonl`` the replies of the judge of
`make demo` to them. For model A's answers to MMIE, ``other_judge.jsonl`` has a second judge's
replies, and ``people.csv`` people's scores.
"""

from __future__ import annotations

import csv
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from made_up import MIA_BENCH, MMIE, OTHER_JUDGE, PEOPLE, Mark

if TYPE_CHECKING:
    from mmie_tasks.extend import JudgeRequest

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent


def names_of(example: str, file: str = "make.py") -> SimpleNamespace:
    """The names that a file of another example defines."""
    folder = str(EXAMPLES / example)
    sys.path.insert(0, folder)  # for its imports
    try:
        return SimpleNamespace(**runpy.run_path(f"{folder}/{file}"))
    finally:
        sys.path.remove(folder)


mmie, mia_bench, milebench = map(names_of, ("mmie", "mia_bench", "milebench"))


def mmie_answers() -> dict[str, Any]:
    """B's answers: a text, or the official form if there is a picture."""
    return {
        sample_id: mmie.as_text(parts)
        if all(isinstance(part, str) for part in parts)
        else mmie.official_form(parts)
        for sample_id, (parts, _) in MMIE.items()
    }


def mia_bench_answers() -> list[dict[str, Any]]:
    """B's answers, with the keys of the official JSONL."""
    return [
        {"question_id": number, "url": row["image"], "text": said[0]}
        for number, (row, said) in enumerate(zip(mia_bench.rows(), MIA_BENCH, strict=True))
    ]


def milebench_answers() -> list[dict[str, Any]]:
    """B's answers: the right letter, or in every second dataset the next option's."""
    given = []
    for number, dataset in enumerate(milebench.DATASETS):
        for i in range(2):
            entry = milebench.sample(dataset, i, (3, 7, 33)[(number + i) % 3])
            gold, choices = entry["response"], entry["task_instance"].get("choice_list")
            text = gold if (number + i) % 3 else "It cannot be seen."
            if choices:
                text = chr(65 + (choices.index(gold) + number % 2) % len(choices))
            given.append({"id": f"{dataset}/{i}", "answer": text})
    return given


def mmie_requests(answers: Mapping[str, Any], images: Path) -> dict[str, JudgeRequest]:
    """The requests for the answers that are judged, by sample id."""
    from mmie_tasks.benchmarks.mmie.data import dataset
    from mmie_tasks.benchmarks.mmie.request import prepared
    from mmie_tasks.benchmarks.mmie.sample import MmieSample
    from mmie_tasks.benchmarks.mmie.settings import MmieSettings
    from mmie_tasks.benchmarks.model_answers import add_answer_folder, answer_folders_of_run

    folder = EXAMPLES / "mmie"
    settings = MmieSettings(prompts=folder / "prompts.json")
    requests = {}
    with answer_folders_of_run():
        add_answer_folder(images)
        for doc in dataset("all", {"MMIE_DATA": str(folder / "data")}):
            asked = prepared(MmieSample.from_doc(doc), [answers[doc["id"]]], settings)
            if asked.request is not None:
                requests[doc["id"]] = asked.request
    return requests


def line(judge: str, request: JudgeRequest, text: str) -> str:
    """One reply of a recording, under the request's own key; `judge` is the judge's model."""
    from mmie_tasks.extend import JudgeReply
    from mmie_tasks.judges.cache_file import CachedReply, export_line
    from mmie_tasks.judges.content import content_key

    reply = JudgeReply(text=text, model=judge)
    signature = f"judge:made_up|model:{judge}"
    return export_line(
        CachedReply(signature=signature, request_key=content_key(request), reply=reply, time_s=0)
    )


def mmie_lines(
    judge: str, requests: Mapping[str, JudgeRequest], marks: Mapping[str, Mark]
) -> list[str]:
    """A judge's replies in the official form; every request has one."""
    reply = names_of("mmie", "content.py").reply
    return [line(judge, request, reply(*marks[name])) for name, request in requests.items()]


def mia_bench_lines() -> list[str]:
    """The first judge's replies to B's answers."""
    from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK
    from mmie_tasks.benchmarks.mia_bench.data import dataset

    samples = dataset({"MIA_BENCH_DATA": str(EXAMPLES / "mia_bench" / "data")})
    docs = sorted(samples, key=lambda doc: int(doc["id"]))
    return [
        line("made-up", request, mia_bench.sentence((marks, f" {total}", reasons)))
        for doc, (answer, marks, total, reasons) in zip(docs, MIA_BENCH, strict=True)
        if (request := BENCHMARK.prepared(doc, [answer]).request) is not None
    ]


def main(folder: Path = HERE) -> None:
    """Write everything."""
    said, answers = mmie_answers(), folder / "answers"
    mmie.write(answers / "mmie.json", [{"id": name, "answer": said[name]} for name in said])
    mia_bench.write_lines(answers / "mia_bench.jsonl", mia_bench_answers())
    mia_bench.write_lines(answers / "milebench.jsonl", milebench_answers())
    of_b = mmie_requests(said, answers)
    marks = {name: mark for name, (_, mark) in MMIE.items() if mark is not None}
    replies = mmie_lines("made-up", of_b, marks) + mia_bench_lines()
    (folder / "replies.jsonl").write_text("".join(replies), encoding="utf-8")
    first = {each["id"]: each["answer"] for each in mmie.answers()}
    of_a = mmie_requests(first, EXAMPLES / "mmie" / "answers")
    others = mmie_lines("somebody", of_a, OTHER_JUDGE)
    (folder / "other_judge.jsonl").write_text("".join(others), encoding="utf-8")
    with (folder / "people.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("id", "score"), *PEOPLE.items()])


if __name__ == "__main__":
    main()
