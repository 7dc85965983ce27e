"""Tiny tasks: some as ours in a copy of our package, some as the runner's own are written."""

import json
import shutil

from support.runner import TESTS, Workplace, write

SAMPLES = [
    {"id": "q0", "question": "The colour of blood?", "answer": "red"},
    {"id": "q1", "question": "The colour of grass?", "answer": "green"},
    {"id": "q2", "question": "The colour of snow?", "answer": "white"},
    {"id": "q3", "question": "The colour of a ripe tomato?", "answer": "red"},
]
OURS = "mmie_tasks.benchmarks.sketch.task"

_TASK = """\
task: {name}
task_alias: {alias}
tag: sketches
dataset_path: json
dataset_kwargs:
  data_files:
    test: samples.json
test_split: test
output_type: generate_until
process_docs: !function {module}.process_docs
doc_to_visual: !function {module}.doc_to_visual
doc_to_text: !function {module}.doc_to_text
doc_to_target: answer
process_results: !function {module}.process_results
generation_kwargs:
  max_new_tokens: 8
  until: []
  do_sample: false
metric_list:
  - metric: {metric}
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1.0
"""

_UTILS = """\
def process_docs(docs):
    return docs


def doc_to_visual(doc):
    return []


def doc_to_text(doc):
    return doc["question"]


def process_results(doc, results):
    return {"local_acc": float(results[0] == doc["answer"])}
"""


def add_ours(workplace, **tasks):
    """Add tasks (name to alias), all with the tag ``sketches``, to the copy of our package."""
    room = workplace.plugins / "mmie_tasks" / "benchmarks" / "sketch"
    write(room / "__init__.py", '"""Only in tests."""\n')
    shutil.copy(TESTS / "support" / "sketch_task.py", room / "task.py")
    (room / "benchmark.py").write_text(f"from {OURS} import BENCHMARK\n")
    folder = workplace.task_dir / "sketch"
    write(folder / "samples.json", json.dumps(SAMPLES))
    for name, alias in tasks.items():
        text = _TASK.format(name=name, alias=alias, module=OURS, metric="sketch_acc")
        write(folder / f"{name}.yaml", text)


def write_users(folder, **tasks):
    """Write tasks (name to alias) of a user, with the functions beside them as in the runner."""
    write(folder / "samples.json", json.dumps(SAMPLES))
    write(folder / "utils.py", _UTILS)
    for name, alias in tasks.items():
        text = _TASK.format(name=name, alias=alias, module="utils", metric="local_acc")
        write(folder / f"{name}.yaml", text)
    return folder


def sketched(folder):
    """A workplace with the stub model, and with ``sketch`` and an ``mme`` as tasks of ours."""
    workplace = Workplace(folder=folder)
    workplace.copy_our_package()
    workplace.install_stub_model()
    add_ours(workplace, sketch="A sketch", mme="MME as a sketch")
    return workplace
