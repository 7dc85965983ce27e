"""The number of a version changes with the scores: a digest of prompts, settings and readers."""

import hashlib
import json

import pytest
from support.golden import GOLDEN, vectors
from support.opening_data import EXAMPLE, PROMPTS, reply

from mmie_tasks.answers.saved import read_answers
from mmie_tasks.benchmarks.mia_bench import official as mia_official
from mmie_tasks.benchmarks.mia_bench import prompts as mia_prompts
from mmie_tasks.benchmarks.mia_bench import robust as mia_robust
from mmie_tasks.benchmarks.milebench import benchmark as milebench
from mmie_tasks.benchmarks.milebench.prompts import PLACEHOLDER, question_content
from mmie_tasks.benchmarks.milebench.sample import MileSample
from mmie_tasks.benchmarks.mmie import official as mmie_official
from mmie_tasks.benchmarks.mmie import prompts as mmie_prompts
from mmie_tasks.benchmarks.mmie import robust as mmie_robust
from mmie_tasks.benchmarks.mmie.sample import MmieSample
from mmie_tasks.benchmarks.opening import official as opening_official
from mmie_tasks.benchmarks.opening import robust as opening_robust
from mmie_tasks.benchmarks.opening.data import dataset
from mmie_tasks.benchmarks.opening.request import prepared
from mmie_tasks.benchmarks.opening.sample import OpeningSample
from mmie_tasks.benchmarks.opening.settings import OpeningSettings
from mmie_tasks.benchmarks.registry import entry_of_task
from mmie_tasks.core.verdict import SCORE_KINDS, Scored
from mmie_tasks.record.segment import Segment


def settings_of(task):
    return entry_of_task(task).task_files()[task].content["generation_kwargs"]


def shown(verdict):
    return f"{verdict.points:.9f}" if isinstance(verdict, Scored) else verdict.reason


def of_milebench():
    golden = vectors("milebench")
    yield json.dumps(settings_of("milebench"))
    for case in golden["prompts"]:
        if not case["combine_image"]:
            texts = {"rule": "rouge", "instructions": case["task_instruction"]}
            annotation = case["annotation"]
            sample = MileSample.from_annotation(annotation, dataset=case["dataset"], **texts)
            parts = question_content(sample)
            yield "".join(part if isinstance(part, str) else PLACEHOLDER for part in parts)
    rules = {"multi_choice": "choice", "rouge": "rouge", "needle": "needle"}
    for case in golden["cases"]:
        fields = {"rule": rules[case["scorer"]], "gold": case["gt_response"]}
        fields["choices"] = case.get("choice_list") or []
        verdicts = milebench.BENCHMARK.score(fields, case["pred_response"])
        for kind in SCORE_KINDS:
            yield f"{case['id']} {kind} {shown(verdicts.verdict(kind))}"


def of_mia_bench():
    yield json.dumps([settings_of("mia_bench"), mia_prompts.MAX_TOKENS, mia_prompts.SHA256])
    for case in vectors("mia_bench")["cases"]:
        for verdict in (
            mia_official.read_official(case["component_type"], case["reply"]),
            mia_robust.read_robust(case["component_weight"], case["reply"]),
        ):
            yield f"{case['id']} {shown(verdict)}"


def of_mmie():
    yield json.dumps([settings_of("mmie"), mmie_prompts.MAX_TOKENS])
    answer = [Segment("A <image>", image) for image in ("i.png", None, "i.png", None, "i.png")]
    for category, gold in (("SA", "no"), ("MSR", "7")):
        for images in range(4):
            question = (Segment("Q", "i.png"),) * images or (Segment("Q"),)
            fields = {"id": category, "category": category, "gold": (Segment(gold),)}
            sample = MmieSample(**fields, question=question)
            assembled = mmie_prompts.assemble(sample, answer, "{question}|{answer}")
            yield mmie_prompts.query(assembled)
    for case in vectors("mmie_scores")["cases"]:
        for read in (mmie_official.read_official, mmie_robust.read_robust):
            yield f"{case['text']} {shown(read(case['text']))}"


OPENING_REPLIES = (
    *(reply(7), reply(7.5), reply(0, 1, 2, 3, 4, 5, 6), reply(11), reply("8", 6), reply("7/5")),
    *(reply(True, False), reply(7, Charm={"Score": 0}), f"```json\n{reply(7)}\n```", reply(7) * 2),
    *(json.dumps({"scores": json.loads(reply(7))}), reply(7)[:-40], "All metrics: 7/10.", ""),
)


def of_opening():
    yield json.dumps(settings_of("opening"))
    answers = {answer.id: answer.answer for answer in read_answers([EXAMPLE]).answers}
    docs = {doc["id"]: doc for doc in dataset({"OPENING_DATA": str(EXAMPLE / "data")})}
    settings = OpeningSettings(prompts=PROMPTS)
    for sample_id in sorted(docs):
        sample = OpeningSample.from_doc(docs[sample_id])
        if request := prepared(sample, [answers[sample_id]], settings).request:
            parts = [part if isinstance(part, str) else "picture" for part in request.parts]
            yield json.dumps([parts, request.max_tokens, request.system])
    for text in OPENING_REPLIES:
        for read in (opening_official.read_official, opening_robust.read_robust):
            yield f"{text} {shown(read(text))}"


@pytest.mark.parametrize("behaviour", [of_milebench, of_mia_bench, of_mmie, of_opening])
def test_the_number_of_a_version_changes_when_a_score_can(behaviour, monkeypatch, tmp_path):
    """When this fails: raise the number of `version`, in the YAML too, and note the new digest."""
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path))
    name = behaviour.__name__.removeprefix("of_")
    noted = json.loads((GOLDEN / "versions.json").read_text(encoding="utf-8"))[name]
    digest = hashlib.sha256("\n".join(behaviour()).encode()).hexdigest()
    assert noted == {"version": entry_of_task(name).load().version, "behaviour": digest}
