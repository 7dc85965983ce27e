"""The file with the judge's instructions: from a loopback server, a copy, or nowhere else."""

import hashlib
import math
from dataclasses import replace
from functools import partial

import pytest
from support.loopback import HANG_UP, LoopbackServer, Sent
from support.mmie_replies import JUDGE_PROMPTS

from mmie_tasks.benchmarks.mmie import judge_prompts
from mmie_tasks.benchmarks.mmie.judge_prompts import OFFICIAL, judge_templates, prompts_file
from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.hub import pinned_file

CONTENT = JUDGE_PROMPTS.encode()


def pin(content=CONTENT):
    digest = hashlib.sha256(content).hexdigest()
    return replace(
        OFFICIAL, url="http://127.0.0.1:9/prompts.py", size_bytes=len(content), sha256=digest
    )


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr("time.sleep", lambda _: None)  # between tries
    with LoopbackServer({"/p": CONTENT}) as file_server:
        yield file_server


@pytest.fixture
def home(server, tmp_path):
    return {"MMIE_TASKS_CACHE": str(tmp_path / "cache"), "SERVER": f"{server.url}/p"}


def fetch(home, copy=None):
    return prompts_file(home, copy, replace(pin(), url=home["SERVER"]))


@pytest.fixture
def official_at_server(home, monkeypatch):
    """The official file, downloaded from the test's server instead of its pinned address."""
    official = replace(OFFICIAL, url=home["SERVER"])
    fetch_official = partial(prompts_file, pin=official)
    monkeypatch.setattr(judge_prompts, "prompts_file", fetch_official)


def stored_files(tmp_path):
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_it_is_fetched_once_and_then_read_from_the_cache(server, home, tmp_path):
    assert fetch(home) == fetch(home) == CONTENT
    assert fetch({**home, "HF_HUB_OFFLINE": "1"}) == CONTENT
    assert server.count("GET") == 1
    assert [path.read_bytes() for path in stored_files(tmp_path)] == [CONTENT]


def test_a_damaged_file_in_the_cache_is_fetched_anew(server, home, tmp_path):
    fetch(home)
    (file,) = stored_files(tmp_path)
    file.write_bytes(CONTENT.replace(b"STORY", b"SORRY"))
    assert fetch(home) == CONTENT
    assert (len(server.log), file.read_bytes()) == (2, CONTENT)


@pytest.mark.parametrize("trouble", [pytest.param(Sent(CONTENT, cut_after=50), id="truncated")])
def test_what_may_pass_is_tried_again_and_not_for_ever(server, home, trouble):
    server.then(trouble)
    assert fetch(home) == CONTENT
    assert len(server.log) == 2


def test_a_server_that_says_nothing_is_asked_again(server, home, monkeypatch):
    monkeypatch.setattr(pinned_file, "TIMEOUT_S", 0.5)
    server.hangs()
    assert fetch(home) == CONTENT


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(Sent(b"no", 404), "404 Client Error", id="404"),
        pytest.param(HANG_UP, "without response", id="hangs-up-for-ever"),
        pytest.param(Sent(CONTENT[:-1] + b"x"), "not the official", id="another-byte"),
    ],
)
def test_anything_else_is_missing_with_two_ways_out(server, home, tmp_path, answer, message):
    server.then(answer, math.inf)
    with pytest.raises(DataMissing) as error:
        fetch(home)
    assert message in str(error.value)
    assert "prompts=FILE.py" in str(error.value)
    assert (len(server.log), stored_files(tmp_path)) == (3, [])


@pytest.mark.parametrize("offline", ["1", "yes"])
def test_offline_nobody_is_asked(server, home, offline):
    with pytest.raises(DataMissing, match="HF_HUB_OFFLINE"):
        fetch({**home, "HF_HUB_OFFLINE": offline})
    assert server.log == []


def test_a_local_copy_comes_before_everything_else(server, home, tmp_path):
    (tmp_path / "copy.py").write_bytes(CONTENT)
    assert fetch(home, tmp_path / "copy.py") == CONTENT
    assert (server.log, stored_files(tmp_path)) == ([], [])


@pytest.mark.parametrize("content", [pytest.param(CONTENT + b"#", id="another-byte")])
def test_a_local_copy_that_is_another_file_is_an_error(server, home, tmp_path, content):
    (tmp_path / "copy.py").write_bytes(content)
    with pytest.raises(DataBroken, match="SHA-256"):
        fetch(home, tmp_path / "copy.py")
    assert server.log == []


@pytest.mark.usefixtures("official_at_server")
def test_no_other_text_is_ever_taken_for_the_official_one(server, home, monkeypatch):
    monkeypatch.setenv("MMIE_TASKS_CACHE", home["MMIE_TASKS_CACHE"])
    with pytest.raises(DataMissing):
        judge_templates(None)  # the server gives ours
    assert {request.path for request in server.log} == {"/p"}
