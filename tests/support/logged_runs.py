"""Sample logs as lmms-eval writes them, of any number of samples, with the benchmarks' own rows.

`skill` moves the points; `answers` names the tested model, and `judge` the judge, so that two logs
can be two models, or two judges of one model.
"""

import json
import pickle
import random
from collections import Counter
from functools import cache, partial
from typing import Any

from mmie_tasks.benchmarks.mia_bench import metrics as mia_metrics
from mmie_tasks.benchmarks.mia_bench import sample as mia
from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK as MIA_BENCH
from mmie_tasks.benchmarks.milebench import sample as mile
from mmie_tasks.benchmarks.milebench.benchmark import BENCHMARK as MILEBENCH
from mmie_tasks.benchmarks.milebench.benchmark import scored_fields
from mmie_tasks.benchmarks.mmie import metrics as mmie_metrics
from mmie_tasks.benchmarks.mmie import sample as mmie
from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK, grade
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.record import NOT_JUDGED, Record
from mmie_tasks.record.reply import JudgeReply, JudgeResult, Usage
from mmie_tasks.record.segment import Segment
from support.signatures import signature_from

JUDGE = "judge:made_up|model:made-up"
DATE = "20261121_120000"

Line = dict[str, Any]

_READER, _DATA = "reader:official+robust", "data:sha256:1|pkg:0.1.0"
_FIELDS = ("Literature", "Education", "Finance", "Health", "EECS", "Art")
_WORDS = "the picture shows a red kite over green hills while rain falls on an old stone bridge"


def _made_once(lines):
    """Make the lines for the same arguments once; each call gets a copy that it may change."""
    pickled = cache(lambda *args, **options: pickle.dumps([*lines(*args, **options)]))
    return lambda *args, **options: iter(pickle.loads(pickled(*args, **options)))  # noqa: S301


@_made_once
def mmie_lines(
    count, skill=0.6, judge=JUDGE, answers="model-a", unscored=0.02, image=None, in_proportion=False
):
    """A share of `unscored` has a reply without a score; categories take turns, or are in MMIE's
    own proportions.
    """
    quality, noise, taken = _lots(answers), _lots(answers, judge), Counter()
    for index in range(count):
        category = mmie.CATEGORIES[index % 3]
        if in_proportion:  # the one that lacks most of its share
            sizes = BENCHMARK.stratum_sizes
            shares = {c: (index + 1) * size / sum(sizes.values()) for c, size in sizes.items()}
            category = max(mmie.CATEGORIES, key=lambda c: shares[c] - taken[c])
        taken[category] += 1
        question = (Segment(text=_words(index, 40), image=image),)
        gold = (Segment(text=_words(index + 1, 30)), Segment(image=image))
        sample = mmie.MmieSample(
            id=f"{category}-{index}",
            index=index,
            row=index,
            category=category,
            field=_FIELDS[index % len(_FIELDS)],
            question=question,
            gold=gold,
        )
        points = min(6, max(0, round(quality.gauss(6 * skill, 1.5) + noise.gauss(0, 0.7))))
        ending = "no verdict" if noise.random() < unscored else f"### Score\n{points}"
        reply = _reply(f"### Feedback\n{_words(index, 60)}\n{ending}")
        answer = f"{answers}: {_words(index + 2, 50)}"
        signature = f"{judge}|paper_judge:no|prompt:other:1|{_READER}|task:mmie@1-A|{_DATA}"
        shown = (Segment(text=answer), Segment(image=image))
        record = Record(
            id=sample.id,
            groups=_tuples(mmie_metrics.groups(sample)),
            question=question,
            gold=gold,
            answer=shown,
            verdicts=NOT_JUDGED,
            facts={"shown_images": 1, "shape": "text"},
            signature=signature_from(signature),
        )
        line = _line(index, answer, f"{question[0].text}\n<image>", gold[0].text or "")
        yield _judged(record, reply, grade, judge).line(line, BENCHMARK.scale.full_marks)


def _judged(record, reply, grade, judge):
    result = JudgeResult(reply=reply)
    judgement = Judgement(judge=signature_from(judge), result=result, verdicts=grade(result))
    return record.judged([judgement])


def _tuples(groups):
    return {kind: (of,) if isinstance(of, str) else of for kind, of in groups.items()}


@_made_once
def milebench_lines(per_dataset, skill=0.6, answers="model-a", datasets=mile.DATASETS):
    """Samples have 3 images, and every third 18."""
    lots = _lots(answers)
    signature = f"task:milebench@1-A|variant:test|prompt:official|{_READER}|{_DATA}"
    for number in range(per_dataset):
        for position, dataset in enumerate(datasets):
            needle = "Needle" in dataset
            rule = mile.rule_of(dataset, "open-ended" if needle or number % 2 else "multi-choice")
            gold = str(1_000_000 + number) if needle else "a red square"
            many = 18 if number % 3 == 2 else 3
            sample = mile.MileSample(
                dataset=dataset,
                sample_id=str(number),
                rule=rule,
                instruction="Look.",
                context="",
                images=tuple(f"{k}.png" for k in range(many)),
                gold=gold,
                choices=("a red square", "a green bar") if rule == "choice" else (),
            )
            answer = gold if lots.random() < skill else "a green bar"
            fields = scored_fields(sample)
            hidden = f"The number is {gold}. " if needle else ""
            filler = _words(number, 30) * (1 + number % 4)
            prompt = f"{'<image>' * many} {filler} {hidden}{_words(number, 20)} What is it?"
            facts = {"rule": rule, "images": float(many)}
            if needle:
                depth = prompt.index(gold) / len(prompt)
                facts |= {"needle_length": float(many), "needle_depth": depth}
            groups = {"dataset": dataset, "task": mile.TASK_OF[dataset], "level": sample.level}
            record = Record(
                id=sample.id,
                groups=_tuples(groups),
                question=(*(Segment(image=i) for i in sample.images), Segment(prompt)),
                gold=(Segment(gold),),
                answer=(Segment(answer),),
                verdicts=MILEBENCH.score(fields, answer),
                facts=facts,
                sample=fields,
                signature=signature_from(signature),
            )
            line = _line(number * 29 + position, answer, prompt, gold)
            yield record.line(line, MILEBENCH.scale.full_marks)


@_made_once
def mia_lines(count, skill=0.7, judge=JUDGE, answers="model-a"):
    lots = _lots(answers, judge)
    for index in range(count):
        sample = mia.MiaSample(
            id=str(index),
            instruction=_words(index, 30),
            type=mia.TYPES[index % len(mia.TYPES)],
            components=("say what is seen", "in ten words"),
            weights=(6, 4),
            categories=(mia.CATEGORIES[index % 8], mia.CATEGORIES[(index + 3) % 8]),
        )
        first, second = round(6 * min(1, lots.random() + skill / 3)), round(4 * lots.random())
        reply = _reply(
            f"score of component 1: {first}/6, score of component 2: {second}/4, "
            f"total score: {first + second}/10. {_words(index, 25)}"
        )
        fields = {"categories": list(sample.categories), "weights": list(sample.weights)}
        prompt = "paper_judge:no|prompt:official,max_tokens=2000"
        signature = f"{judge}|{prompt}|{_READER}|task:mia_bench@1-A|{_DATA}"
        answer = f"{answers}: {_words(index + 2, 30)}"
        record = Record(
            id=sample.id,
            groups=_tuples(mia_metrics.groups(sample)),
            question=(Segment(sample.instruction),),
            answer=(Segment(answer),),
            verdicts=NOT_JUDGED,
            sample=fields,
            signature=signature_from(signature),
        )
        judged = _judged(record, reply, partial(MIA_BENCH.grade, fields), judge)
        judged = judged.model_copy(update={"facts": mia_metrics.reply_facts(sample, judged)})
        yield judged.line(_line(index, answer, sample.instruction, ""), MIA_BENCH.scale.full_marks)


def write_run(folder, task, lines, date=DATE, results=None):
    """Write a log, and a results file if there are numbers for it; the log's path."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{date}_samples_{task}.jsonl"
    with log.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)
    if results is not None:
        saved = {"results": {task: results}, "model_name": folder.name}
        (folder / f"{date}_results.json").write_text(json.dumps(saved), encoding="utf-8")
    return log


def _reply(text):
    usage = Usage(input_tokens=900, output_tokens=80, cost_usd=0.003)
    return JudgeReply(text=text, model="made-up", usage=usage)


def _line(number, answer, prompt, target):
    return {
        "doc_id": number,
        "target": target,
        "filtered_resps": answer,
        "token_counts": [None],
        "doc_hash": "0",
        "input": prompt,
    }


def _lots(*named):
    return random.Random(str((0, *named)))  # noqa: S311 - as in recorded results


def _words(start, count):
    words = _WORDS.split()
    return " ".join(words[(start + index * 7) % len(words)] for index in range(count))
