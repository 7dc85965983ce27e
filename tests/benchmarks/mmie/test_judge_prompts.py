"""The judge's instructions: read from the official form, or others by name."""

import hashlib
import json
import os
from pathlib import Path

import pytest
from support.mmie_replies import JUDGE_PROMPTS as SOURCE

from mmie_tasks.benchmarks.mmie import judge_prompts
from mmie_tasks.benchmarks.mmie.judge_prompts import judge_templates, parse
from mmie_tasks.core.errors import SettingWrong

OTHERS = {
    "SA": "Grade this story.\n{question}|{answer}",
    "PBL": "Grade this method.\n{question}|{answer} {{json}}",
    "MSR": "Grade this solution.\n{question}|{answer}|{gt_answer}",
}


def test_what_is_read_gives_what_running_it_would():
    space = {}
    exec(SOURCE, space)  # noqa: S102 - ours, and the only file that is run
    prompts = parse(SOURCE)
    assert prompts == {name: space["get_prompt"](f"{name}-1") for name in ("SA", "PBL", "MSR")}
    assert prompts["SA"].startswith("Judge '### Score\n' by\nits {feeling}.")


def test_what_is_read_is_never_run(tmp_path):
    trap = f"open({str(tmp_path / 'ran')!r}, 'w')"
    source = f"{trap}\n{SOURCE.replace('(data_id)', f'(data_id={trap})')}\n{trap}"
    assert parse(source) == parse(SOURCE)
    assert not (tmp_path / "ran").exists()


def other_prompts(tmp_path, content):
    path = tmp_path / "others.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_other_words_are_taken_and_marked(tmp_path, logs):
    path = other_prompts(tmp_path, OTHERS)
    templates = judge_templates(path)
    assert (dict(templates.texts), templates.official) == (OTHERS, False)
    digest = hashlib.sha256(json.dumps(OTHERS, sort_keys=True).encode()).hexdigest()
    assert templates.name == f"other:{digest[:12]}"
    (warning,) = logs
    assert templates.name in warning
    judge_prompts._templates.cache_clear()
    other_prompts(tmp_path, dict(reversed(OTHERS.items())))
    assert judge_templates(path).name == templates.name


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("{", id="no-json"),
        pytest.param("[" * 100_000, id="nested-without-end"),
        pytest.param({"SA": OTHERS["SA"]}, id="keys-missing"),
        pytest.param({**OTHERS, "ALL": ""}, id="a-key-too-many"),
        pytest.param({**OTHERS, "SA": 1}, id="no-text"),
        pytest.param({**OTHERS, "SA": "{question}"}, id="no-answer"),
        pytest.param({**OTHERS, "SA": OTHERS["MSR"]}, id="a-reference-that-is-not-given"),
        pytest.param({**OTHERS, "SA": "{question.x}{answer}"}, id="an-attribute"),
        pytest.param({**OTHERS, "SA": "{question!r}{answer}"}, id="a-conversion"),
        pytest.param({**OTHERS, "SA": "{question}{answer"}, id="a-brace"),
    ],
)
def test_other_words_that_cannot_be_used_are_a_wrong_setting(tmp_path, content, logs):
    with pytest.raises(SettingWrong, match=r"prompts.*others\.json"):
        judge_templates(other_prompts(tmp_path, content))
    assert logs == []


def test_other_words_that_are_not_there_are_a_wrong_setting(tmp_path):
    with pytest.raises(SettingWrong, match=r"none\.json"):
        judge_templates(tmp_path / "none.json")


# The official file itself, where somebody has it.

TEMPLATES = {
    "SA": "e49cdc6b2562f7c4e3bd991604b58da6ffade636e41475f699dcccf70a54c32e",
    "PBL": "c7d412eea004ba231ec61b9a0ccea9838b1a0d546ef5eb6e6a7fe8133317ead7",
    "MSR": "2af55d36a90e680764061b912ca3fa9f58103b0037b60ee827079a7289d22ddb",
}
FORMATTED = {
    "SA": "3f56befd2afba7a0f6630e6c2f4614d14a36e8fee3c8d5bed02ea943211ec661",
    "PBL": "caacfcc28b65743290ebd8df97f49ac1ad65ea028a81ae718e51ae7c77da0de2",
    "MSR": "5c57ed47c37e6490f55cd44d3ff05e33618709d6b47c4b3865437cb85752c2b3",
}
LENGTHS = {"SA": 3043, "PBL": 2786, "MSR": 2015}
official_file = pytest.mark.skipif(
    not os.environ.get("OFFICIAL_PROMPTS"), reason="`OFFICIAL_PROMPTS` names no copy of the file"
)


@official_file
def test_the_official_file_has_the_known_fingerprints():
    prompts = judge_templates(Path(os.environ["OFFICIAL_PROMPTS"]))
    assert (prompts.name, prompts.official) == ("official@eb0fd6e", True)
    for category, text in prompts.texts.items():
        filled = text.format(question="Q\n", answer="A\n", gt_answer="G")
        assert len(text) == LENGTHS[category]
        assert hashlib.sha256(text.encode()).hexdigest() == TEMPLATES[category]
        assert hashlib.sha256(filled.encode()).hexdigest() == FORMATTED[category]
