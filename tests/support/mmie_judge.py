"""A judge of MMIE for the loopback server, and judge prompts of our own."""

import base64
import json
import os
import re
from typing import Any

from mmie_tasks.benchmarks import model_answers
from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK
from mmie_tasks.benchmarks.mmie.settings import MmieSettings

Body = dict[str, Any]

WORDS = {
    "SA": "Rate the tale.### Question\n{question}\n### Answer\n{answer}\n### Feedback\n",
    "PBL": "Rate the steps.### Question\n{question}\n### Answer\n{answer}\n### Feedback\n",
    "MSR": "Rate the sum.### Question\n{question}\n### Answer\n{answer}\n"
    "### Correct Answer\nIt is {gt_answer}\n### Feedback\n",
}
"""Templates in the official form, for the setting ``prompts``."""


def words(path):
    path.write_text(json.dumps(WORDS), encoding="utf-8")
    return path


def surround(monkeypatch, folder):
    """Make a folder the working folder, with judge prompts and a cache, and no setting of MMIE."""
    monkeypatch.chdir(folder)
    for name in (name for name in os.environ if name.startswith(("MMIE_", "OPENAI_"))):
        monkeypatch.delenv(name)
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(folder / "cache"))
    settings = MmieSettings(prompts=words(folder / "words.json"))
    monkeypatch.setattr(BENCHMARK, "settings", settings)
    monkeypatch.setattr(model_answers, "_answer_folders", {})


def content_of(body):
    """Texts and image bytes of a request, in their order."""
    content = body["messages"][0]["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [
        part["text"]
        if part["type"] == "text"
        else base64.b64decode(part["image_url"]["url"].partition(",")[2])
        for part in parts
    ]


def text_of(body):
    """The text of a request, with ``<image>`` for each image."""
    return "".join(part if isinstance(part, str) else "<image>" for part in content_of(body))


def gives(points):
    """A verdict as the judge of the paper writes it."""
    return f"### Feedback\nIt follows.\n### Score\n{points}"


def by_category(body):
    """3 for a tale, 4 for steps, 6 for a sum."""
    first = re.match("Rate the (tale|steps|sum)", text_of(body))
    return gives({"tale": 3, "steps": 4, "sum": 6}[first[1]] if first else 0)
