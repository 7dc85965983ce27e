from __future__ import annotations

import pytest

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges.choice import with_launcher_args


@pytest.mark.parametrize(
    ("words", "launcher_args"),
    [
        ("--judge openai", "name=openai"),
        ("--judge=openai:gpt-4o", "name=openai,model=gpt-4o"),
        ("--judge openai --judge_args timeout=60", "name=openai,timeout=60"),
        ("--judge-args=timeout=60 --judge openai:m", "name=openai,model=m,timeout=60"),
        ("--judge replay:path=f.jsonl", "name=replay,path=f.jsonl"),
    ],
)
def test_a_judge_in_words_is_a_launcher_of_the_runner(words: str, launcher_args: str) -> None:
    line = ["eval", *words.split(), "--tasks", "x"]
    assert with_launcher_args(line) == ["eval", "--tasks", "x", "--launcher_args", launcher_args]


def test_a_line_without_a_judge_stays_as_it_is() -> None:
    line = ["eval", "--launcher_args", "name=sglang", "--judgement"]
    assert with_launcher_args(line) == line


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("--judge opnai:x", "There is no judge `opnai`"),
        ("--judge openai:x --judge_args tiemout=60", "no option `tiemout`"),
        ("--judge openai:x --judge_args timeout=soon", "`timeout=soon`"),
        ("--judge openai:x --judge_args api_key=sk-1234567", "takes no `api_key=`"),
        ("--judge openai:x --judge_args oops", "invalid form"),
        ("--judge", "`--judge` has no value"),
        ("--judge openai --judge openai", "given twice"),
        ("--judge_args a=b", "needs `--judge`"),
        ("--judge openai:x --launcher_args name=sglang", "both given"),
    ],
)
def test_what_cannot_be_obeyed_is_said_at_once(words: str, found: str) -> None:
    with pytest.raises(SettingWrong) as error:
        with_launcher_args(words.split())
    assert found in str(error.value)
    assert "1234567" not in str(error.value)
