"""The judge's instructions: from a server on the loopback interface, a file, or nowhere else."""

import hashlib
import json
import os
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from loguru import logger

from mmie_tasks.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.sources import mmie_prompts
from mmie_tasks.sources.mmie_prompts import FINGERPRINTS, check, parse, templates
from mmie_tasks.sources.mmie_prompts_file import OFFICIAL, Patience, Pin, prompts_file

OTHERS = {
    "SA": "Grade this story.\n{question}|{answer}",
    "PBL": "Grade this method.\n{question}|{answer}",
    "MSR": "Grade this solution.\n{question}|{answer}|{gt_answer}",
}
SOURCE = '''
STORY = """Judge '### Score\\n' by
its {feeling}."""
METHOD = "Judge the method."
SUM = 'Judge the sum.'

def get_prompt(data_id):
    if "SA" in data_id:
        return STORY + "Q {question} A {answer}"
    elif "PBL" in data_id:
        return METHOD + "Q {question} A {answer}"
    elif "MSR" in data_id:
        return SUM + "Q {question} A {answer} R {gt_answer}"
    else:
        print("?")
'''
SWAPPED = SOURCE.replace('"SA"', "?").replace('"PBL"', '"SA"').replace("?", '"PBL"', 1)
CONTENT = SOURCE.encode()
QUICK = Patience(tries=3, backoff_s=0.0, timeout_s=0.3, whole_s=5.0)


def pin(content=CONTENT):
    digest = hashlib.sha256(content).hexdigest()
    return Pin(url="http://127.0.0.1:9/prompts.py", size_bytes=len(content), sha256=digest)


class Server:
    """Gives the answers it is told, in order, the last one again and again."""

    def __init__(self):
        self.answers, self.paths, self.headers, self.stop = [], [], [], threading.Event()

    def gives(self, *answers):
        self.answers = list(answers)

    def handle(self, request):
        self.paths.append(request.path)
        self.headers.append(dict(request.headers))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        answer(self, request)


class Quiet(ThreadingHTTPServer):
    def handle_error(self, *_):
        """A client that hangs up in the middle is part of the play."""


def sends(content, status=200, length=None, **headers):
    def answer(_, request):
        request.send_response(status)
        request.send_header("Content-Length", str(len(content) if length is None else length))
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(content)

    return answer


def hangs(server, _):
    server.stop.wait(5)


def hangs_up(_, request):
    request.close_connection = True


def forwards(where):
    return sends(b"", 302, Location=where)


@contextmanager
def serving():
    told = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            told.handle(self)

        def log_message(self, *_):
            pass

    with Quiet(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        told.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield told
        finally:
            told.stop.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    with serving() as told:
        told.gives(sends(CONTENT))
        yield told


@pytest.fixture
def home(server, tmp_path):
    return {"MMIE_TASKS_CACHE": str(tmp_path / "cache"), "MMIE_PROMPTS_URL": f"{server.url}/p"}


@pytest.fixture
def log():
    lines = []
    number = logger.add(lambda message: lines.append(str(message)), level="WARNING")
    yield lines
    logger.remove(number)


def fetch(home, wanted=None):
    return prompts_file(home, wanted or pin(), QUICK)


def kept(tmp_path):
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


# The file.


def test_it_is_fetched_once_and_then_read_from_the_cache(server, home, tmp_path):
    assert fetch(home) == fetch(home) == CONTENT
    assert fetch({**home, "HF_HUB_OFFLINE": "1"}) == CONTENT
    assert server.paths == ["/p"]
    assert [path.read_bytes() for path in kept(tmp_path)] == [CONTENT]


def test_a_damaged_file_in_the_cache_is_fetched_anew(server, home, tmp_path, log):
    fetch(home)
    (file,) = kept(tmp_path)
    file.write_bytes(CONTENT.replace(b"STORY", b"SORRY"))
    assert fetch(home) == CONTENT
    assert "damaged" in "".join(log)
    assert (len(server.paths), file.read_bytes()) == (2, CONTENT)


def test_a_cache_that_cannot_be_written_stops_nobody(home, tmp_path, log):
    (tmp_path / "cache").write_text("not a folder")
    assert fetch(home) == CONTENT
    assert "not kept" in "".join(log)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(sends(b"busy", 503), id="503"),
        pytest.param(sends(b"slowly", 429), id="429"),
        pytest.param(hangs, id="hangs"),
        pytest.param(hangs_up, id="hangs-up"),
        pytest.param(sends(CONTENT[:50], length=len(CONTENT)), id="truncated"),
    ],
)
def test_what_may_pass_is_tried_again_and_not_for_ever(server, home, trouble):
    server.gives(trouble, sends(CONTENT))
    assert fetch(home) == CONTENT
    assert len(server.paths) == 2


@pytest.mark.parametrize(
    ("answer", "says", "tries"),
    [
        pytest.param(sends(b"no", 404), "HTTP 404", 1, id="404"),
        pytest.param(sends(b"no", 403), "HTTP 403", 1, id="403"),
        pytest.param(sends(b"busy", 503), "HTTP 503", 3, id="503-for-ever"),
        pytest.param(hangs_up, "Error", 3, id="hangs-up-for-ever"),
        pytest.param(sends(b"<html>log in</html>"), "19 bytes", 1, id="html"),
        pytest.param(sends(CONTENT[:-1]), "not the official", 1, id="cut"),
        pytest.param(sends(CONTENT[:-1] + b"x"), "not the official", 1, id="another-byte"),
        pytest.param(sends(CONTENT * 9000), "more than", 1, id="huge"),
        pytest.param(sends(b""), "0 bytes", 1, id="empty"),
        pytest.param(forwards("/again"), "without end", 6, id="redirects-for-ever"),
        pytest.param(forwards("http://192.0.2.1/p"), "not https", 1, id="redirect-to-http"),
        pytest.param(forwards("file:///etc/passwd"), "not https", 1, id="redirect-to-a-file"),
        pytest.param(forwards("http://[oops"), "", 1, id="redirect-to-nowhere"),
    ],
)
def test_anything_else_is_missing_with_two_ways_out(server, home, tmp_path, answer, says, tries):
    server.gives(answer)
    with pytest.raises(DataMissing) as error:
        fetch(home)
    assert says in str(error.value)
    assert "run again" in str(error.value)
    assert "`MMIE_PROMPTS`" in str(error.value)
    assert (len(server.paths), kept(tmp_path)) == (tries, [])


def test_a_redirect_on_this_machine_is_followed(server, home):
    server.gives(forwards("/elsewhere"), sends(CONTENT))
    assert fetch(home) == CONTENT
    assert server.paths == ["/p", "/elsewhere"]


def test_the_bytes_are_asked_for_as_they_are(server, home):
    fetch(home)
    assert server.headers[0]["Accept-Encoding"] == "identity"


def test_an_address_never_shows_its_password(server, home):
    server.gives(sends(b"no", 404))
    secret = home["MMIE_PROMPTS_URL"].replace("//", "//me:hush@") + "?token=hush"
    with pytest.raises(DataMissing) as error:
        fetch({**home, "MMIE_PROMPTS_URL": secret})
    assert "hush" not in str(error.value)


def test_nothing_listening_is_missing(home):
    with pytest.raises(DataMissing, match="ConnectError"):
        fetch({**home, "MMIE_PROMPTS_URL": "http://127.0.0.1:9/p"})


@pytest.mark.parametrize("offline", ["1", "true", "ON", "yes"])
def test_offline_nobody_is_asked(server, home, offline):
    with pytest.raises(DataMissing, match="HF_HUB_OFFLINE"):
        fetch({**home, "HF_HUB_OFFLINE": offline})
    assert server.paths == []


@pytest.mark.parametrize("url", ["ftp://x/p", "prompts.py", "https://", "file:///p"])
def test_what_is_no_web_address_is_a_wrong_setting(home, url):
    with pytest.raises(SettingWrong, match="MMIE_PROMPTS_URL"):
        fetch({**home, "MMIE_PROMPTS_URL": url})


def test_a_local_copy_comes_before_everything_else(server, home, tmp_path):
    (tmp_path / "copy.py").write_bytes(CONTENT)
    assert fetch({**home, "MMIE_PROMPTS": str(tmp_path / "copy.py")}) == CONTENT
    assert (server.paths, kept(tmp_path)) == ([], [])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(CONTENT + b"#", "not MMIE's official", id="another-byte"),
        pytest.param(CONTENT[:-1], "not MMIE's official", id="cut"),
        pytest.param(b"", "not MMIE's official", id="empty"),
        pytest.param(CONTENT * 3, "not MMIE's official", id="longer"),
        pytest.param(CONTENT.replace(b"\n", b"\r\n"), "not in CR LF", id="windows"),
    ],
)
def test_a_local_copy_that_is_another_file_is_an_error(server, home, tmp_path, content, says):
    (tmp_path / "copy.py").write_bytes(content)
    with pytest.raises(DataBroken, match=says):
        fetch({**home, "MMIE_PROMPTS": str(tmp_path / "copy.py")})
    assert server.paths == []


@pytest.mark.parametrize("name", ["nowhere.py", "."])
def test_a_local_copy_that_cannot_be_read_is_missing(home, tmp_path, name):
    with pytest.raises(DataMissing, match="cannot be read"):
        fetch({**home, "MMIE_PROMPTS": str(tmp_path / name)})


def test_the_pinned_file_is_that_of_the_last_official_commit():
    assert OFFICIAL.url.startswith("https://raw.githubusercontent.com/Lillianwei-h/MMIE/eb0fd6e")
    assert (OFFICIAL.size_bytes, OFFICIAL.sha256[:8]) == (8204, "ed1e1a14")


def test_no_other_text_is_ever_taken_for_the_official_one(server, home):
    with pytest.raises(DataMissing):
        templates(home)  # the server gives ours
    assert server.paths == ["/p"]


# Reading it.


def test_a_file_of_the_official_form_is_read_with_real_line_ends():
    found = parse(SOURCE)
    assert list(found) == ["SA", "PBL", "MSR"]
    assert found["SA"].rubric == "Judge '### Score\n' by\nits {feeling}."
    assert found["MSR"].template == "Judge the sum.Q {question} A {answer} R {gt_answer}"


def test_what_is_read_gives_what_running_it_would():
    space = {}
    exec(SOURCE, space)  # noqa: S102 - ours, and the only file that is run
    for category, parts in parse(SOURCE).items():
        assert parts.template == space["get_prompt"](f"{category}-1")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("", id="empty"),
        pytest.param("def (", id="no-python"),
        pytest.param("\0", id="a-nul"),
        pytest.param("(" * 5000, id="nested-without-end"),
        pytest.param(SOURCE.replace("STORY =", "TALE ="), id="no-such-name"),
        pytest.param(SOURCE.replace('"Judge the method."', "open('x')"), id="a-call"),
        pytest.param(SOURCE.replace('"Judge the method."', 'f"{1}"'), id="an-f-string"),
        pytest.param(SOURCE.replace('"PBL" in', '"PBL" not in'), id="another-test"),
        pytest.param(SOURCE.replace("METHOD +", "METHOD %"), id="another-operator"),
        pytest.param(SOURCE.replace('"MSR"', '"SA"'), id="a-token-twice"),
        pytest.param(SOURCE.replace('"MSR"', '"XYZ"'), id="another-token"),
        pytest.param(SOURCE.replace("get_prompt", "give_prompt"), id="another-function"),
        pytest.param(SOURCE.replace('"Judge the method."', "3"), id="a-number"),
        pytest.param(SWAPPED, id="another-order"),
        pytest.param(f"{SOURCE}\n{SOURCE}", id="two-functions"),
    ],
)
def test_another_form_is_an_error(source):
    with pytest.raises(DataBroken, match="not those of eb0fd6e"):
        parse(source)


def test_what_is_read_is_never_run(tmp_path):
    trap = f"open({str(tmp_path / 'ran')!r}, 'w')"
    source = f"{trap}\n{SOURCE.replace('(data_id)', f'(data_id={trap})')}\n{trap}"
    assert parse(source) == parse(SOURCE)
    assert not (tmp_path / "ran").exists()


def test_words_that_are_not_the_official_ones_are_found_out(monkeypatch):
    with pytest.raises(DataBroken, match="SA"):
        check(parse(SOURCE))
    monkeypatch.setattr(mmie_prompts, "prompts_file", lambda _: CONTENT)  # a hash that failed us
    with pytest.raises(DataBroken, match="SA"):
        templates({})


# Other words, by name.


def others(tmp_path, content):
    path = tmp_path / "others.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return {"MMIE_OTHER_PROMPTS": str(path)}


def test_other_words_are_taken_and_marked_at_every_load(tmp_path, log):
    environment = others(tmp_path, OTHERS)
    first, second = templates(environment), templates(environment)
    assert (dict(first.texts), first.official) == (OTHERS, False)
    assert first.name == second.name
    assert (first.name[:6], len(first.name)) == ("other:", 18)
    assert len(log) == 2
    assert first.name in log[0]


def test_other_words_have_other_names(tmp_path):
    changed = {**OTHERS, "SA": OTHERS["SA"] + "."}
    name = templates(others(tmp_path, OTHERS)).name
    assert templates(others(tmp_path, changed)).name != name
    assert templates(others(tmp_path, dict(reversed(OTHERS.items())))).name == name


def test_braces_in_other_words_may_be_doubled(tmp_path):
    doubled = {**OTHERS, "SA": "{{json}} {question}{answer}"}
    assert templates(others(tmp_path, doubled)).texts["SA"] == doubled["SA"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("{", id="no-json"),
        pytest.param("[" * 100_000, id="nested-without-end"),
        pytest.param([], id="a-list"),
        pytest.param({"SA": OTHERS["SA"]}, id="keys-missing"),
        pytest.param({**OTHERS, "ALL": ""}, id="a-key-too-many"),
        pytest.param({**OTHERS, "SA": 1}, id="no-text"),
        pytest.param({**OTHERS, "SA": "{question}"}, id="no-answer"),
        pytest.param({**OTHERS, "SA": OTHERS["MSR"]}, id="a-reference-that-is-not-given"),
        pytest.param({**OTHERS, "MSR": OTHERS["SA"]}, id="no-reference"),
        pytest.param({**OTHERS, "SA": "{question}{answer}{0}"}, id="a-number"),
        pytest.param({**OTHERS, "SA": "{question.x}{answer}"}, id="an-attribute"),
        pytest.param({**OTHERS, "SA": "{question!r}{answer}"}, id="a-conversion"),
        pytest.param({**OTHERS, "SA": "{question:>5}{answer}"}, id="a-format"),
        pytest.param({**OTHERS, "SA": "{question}{answer"}, id="a-brace"),
        pytest.param(json.dumps(OTHERS) + " " * 2**20, id="huge"),
    ],
)
def test_other_words_that_cannot_be_used_are_a_wrong_setting(tmp_path, content, log):
    with pytest.raises(SettingWrong, match="MMIE_OTHER_PROMPTS"):
        templates(others(tmp_path, content))
    assert log == []


def test_other_words_that_are_not_there_are_a_wrong_setting(tmp_path):
    with pytest.raises(SettingWrong, match="cannot be read"):
        templates({"MMIE_OTHER_PROMPTS": str(tmp_path / "none.json")})


def test_official_and_other_words_together_are_a_wrong_setting(tmp_path):
    with pytest.raises(SettingWrong, match="both"):
        templates({**others(tmp_path, OTHERS), "MMIE_PROMPTS": str(tmp_path / "p.py")})


# The official file itself, where somebody has it.

FORMATTED = {
    "SA": "3f56befd2afba7a0f6630e6c2f4614d14a36e8fee3c8d5bed02ea943211ec661",
    "PBL": "caacfcc28b65743290ebd8df97f49ac1ad65ea028a81ae718e51ae7c77da0de2",
    "MSR": "5c57ed47c37e6490f55cd44d3ff05e33618709d6b47c4b3865437cb85752c2b3",
}
LENGTHS = {"SA": 3043, "PBL": 2786, "MSR": 2015}
official_file = pytest.mark.skipif(
    not os.environ.get("MMIE_PROMPTS"), reason="`MMIE_PROMPTS` names no copy of the official file"
)


@official_file
def test_the_official_file_has_the_known_fingerprints():
    found = templates(os.environ)
    assert (found.name, found.official) == ("official@eb0fd6e", True)
    for category, text in found.texts.items():
        filled = text.format(question="Q\n", answer="A\n", gt_answer="G")
        assert len(text) == LENGTHS[category]
        assert hashlib.sha256(text.encode()).hexdigest() == FINGERPRINTS[category][2]
        assert hashlib.sha256(filled.encode()).hexdigest() == FORMATTED[category]


@official_file
def test_the_official_file_from_another_address_is_the_official_one(server, home):
    with open(os.environ["MMIE_PROMPTS"], "rb") as file:  # noqa: PTH123 - as it is named
        server.gives(sends(file.read()))
    assert templates(home).official
    assert templates({**home, "HF_HUB_OFFLINE": "1"}).official
    assert server.paths == ["/p"]
