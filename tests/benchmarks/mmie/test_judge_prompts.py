"""The judge's templates: the official file, parsed and never run, or others by name."""

import hashlib
import json
import math
from dataclasses import replace
from functools import partial

import pytest
from support.loopback import HANG, HANG_UP, LoopbackServer, Sent
from support.mmie_replies import JUDGE_PROMPTS as SOURCE

from mmie_tasks.benchmarks.mmie import judge_prompts
from mmie_tasks.benchmarks.mmie.judge_prompts import OFFICIAL, judge_templates, parse, prompts_file
from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.hub import pinned_file

CONTENT = SOURCE.encode()
OTHERS = {
    "SA": "Grade this story.\n{question}|{answer}",
    "PBL": "Grade this method.\n{question}|{answer} {{json}}",
    "MSR": "Grade this solution.\n{question}|{answer}|{gt_answer}",
}


# The official file, from a server in the place of its address


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr("time.sleep", lambda _: None)  # between tries
    with LoopbackServer({"/p": CONTENT}) as file_server:
        yield file_server


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def fetch(server, cache):
    digest = hashlib.sha256(CONTENT).hexdigest()
    pin = replace(OFFICIAL, url=f"{server.url}/p", size_bytes=len(CONTENT), sha256=digest)
    return lambda copy=None, **environment: prompts_file(
        {"MMIE_TASKS_CACHE": str(cache), **environment}, copy, pin
    )


def test_it_is_fetched_once_and_again_only_if_it_is_damaged(server, fetch, cache):
    assert fetch() == fetch() == fetch(HF_HUB_OFFLINE="1") == CONTENT
    (file,) = (path for path in cache.rglob("*") if path.is_file())
    assert (server.count("GET"), file.read_bytes()) == (1, CONTENT)
    file.write_bytes(CONTENT.replace(b"STORY", b"SORRY"))
    assert fetch() == CONTENT
    assert (len(server.log), file.read_bytes()) == (2, CONTENT)


def test_a_download_that_breaks_off_or_hangs_is_tried_again(server, fetch, monkeypatch):
    monkeypatch.setattr(pinned_file, "TIMEOUT_S", 0.5)
    server.then(Sent(CONTENT, cut_after=50))
    server.then(HANG)
    assert fetch() == CONTENT
    assert len(server.log) == 3


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(Sent(b"no", 404), "404 Client Error", id="404"),
        pytest.param(HANG_UP, "without response", id="hangs-up-for-ever"),
        pytest.param(Sent(CONTENT[:-1] + b"x"), "not the official", id="another-byte"),
    ],
)
def test_anything_else_is_missing_with_two_ways_out(server, fetch, cache, answer, message):
    server.then(answer, math.inf)
    with pytest.raises(DataMissing, match=rf"{message}[\s\S]*prompts=FILE\.py"):
        fetch()
    assert len(server.log) == 3
    assert not any(path.is_file() for path in cache.rglob("*"))


def test_offline_or_with_a_local_copy_nothing_is_requested(server, fetch, cache, tmp_path):
    for offline in ("1", "yes"):
        with pytest.raises(DataMissing, match="HF_HUB_OFFLINE"):
            fetch(HF_HUB_OFFLINE=offline)
    copy = tmp_path / "copy.py"
    copy.write_bytes(CONTENT)
    assert fetch(copy) == CONTENT
    copy.write_bytes(CONTENT + b"#")
    with pytest.raises(DataBroken, match="SHA-256"):
        fetch(copy)
    assert (server.log, cache.exists()) == ([], False)


@pytest.mark.usefixtures("cache")
def test_no_other_text_is_ever_taken_for_the_official_one(server, monkeypatch):
    official = partial(prompts_file, pin=replace(OFFICIAL, url=f"{server.url}/p"))
    monkeypatch.setattr(judge_prompts, "prompts_file", official)
    with pytest.raises(DataMissing):
        judge_templates(None)  # the server gives ours
    assert {request.path for request in server.log} == {"/p"}


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


# Other prompts


def test_other_words_are_taken_and_marked(tmp_path, logs):
    path = tmp_path / "others.json"
    path.write_text(json.dumps(OTHERS))
    templates = judge_templates(path)
    assert (dict(templates.texts), templates.official) == (OTHERS, False)
    digest = hashlib.sha256(json.dumps(OTHERS, sort_keys=True).encode()).hexdigest()
    assert templates.name == f"other:{digest[:12]}"
    (warning,) = logs
    assert templates.name in warning
    judge_prompts._templates.cache_clear()
    path.write_text(json.dumps(dict(reversed(OTHERS.items()))))
    assert judge_templates(path).name == templates.name


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("{", id="no-json"),
        pytest.param(json.dumps({"SA": OTHERS["SA"]}), id="keys-missing"),
        *(
            pytest.param(json.dumps(OTHERS | {"SA": template}), id=template)
            for template in (OTHERS["MSR"], "{question.x}{answer}", "{question!r}{answer}")
        ),
    ],
)
def test_other_words_that_cannot_be_used_are_a_wrong_setting(tmp_path, content, logs):
    (tmp_path / "others.json").write_text(content)
    with pytest.raises(SettingWrong, match=r"prompts.*others\.json"):
        judge_templates(tmp_path / "others.json")
    assert logs == []
