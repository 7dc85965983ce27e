"""The judge's instructions: read from the official form, or others by name."""

import hashlib
import json

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
        pytest.param({"SA": OTHERS["SA"]}, id="keys-missing"),
        pytest.param({**OTHERS, "SA": OTHERS["MSR"]}, id="a-reference-that-is-not-given"),
        pytest.param({**OTHERS, "SA": "{question.x}{answer}"}, id="an-attribute"),
        pytest.param({**OTHERS, "SA": "{question!r}{answer}"}, id="a-conversion"),
    ],
)
def test_other_words_that_cannot_be_used_are_a_wrong_setting(tmp_path, content, logs):
    with pytest.raises(SettingWrong, match=r"prompts.*others\.json"):
        judge_templates(other_prompts(tmp_path, content))
    assert logs == []


# The official file itself, where somebody has it.
