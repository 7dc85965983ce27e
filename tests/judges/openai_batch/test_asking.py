import base64
import json
import logging
import stat
from dataclasses import replace

import pytest
from support.batch_asking import KEY, MODEL, outcome_text, request
from support.judge_server import completion

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges.content import content_key
from mmie_tasks.judges.openai.batch import BatchJudge
from mmie_tasks.judges.openai.batch_files import Limits
from mmie_tasks.judges.openai.chat_request import chat_body
from mmie_tasks.judges.openai.dialect import PLAIN
from mmie_tasks.record.reply import JudgeReply

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


def test_a_reply_names_its_model_and_costs_half_the_listed_price(asking):
    (reply,) = asking.outcomes(request("a"))
    assert isinstance(reply, JudgeReply)
    assert reply.model == MODEL
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 10)
    assert reply.usage.cost_usd == pytest.approx((2.5 * 100 + 10 * 10) / 1e6 / 2)


def test_a_line_is_what_the_online_judge_would_send(server, asking, tmp_path):
    image = tmp_path / "a.png"
    image.write_bytes(PNG)
    judge_request = request("Look:", image)
    how = {"temperature": None, "max_tokens": 7, "detail": "low"}
    asking.outcomes(judge_request, **how)
    (line,) = server.batch.lines()
    assert line["custom_id"] == content_key(judge_request)
    assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
    assert line["body"] == chat_body(judge_request, asking.settings(**how), PLAIN)
    assert (line["body"]["model"], line["body"]["max_tokens"]) == (MODEL, 7)
    assert "temperature" not in line["body"]
    url = line["body"]["messages"][0]["content"][1]["image_url"]["url"]
    assert base64.b64decode(url.partition("base64,")[2]) == PNG


def test_any_text_is_sent_and_received_unchanged(server, asking):
    server.says(lambda body: body["messages"][0]["content"][0]["text"])
    texts = ["a\nb\r\u2028\u2029\x85", "äß漢字😀", '"}{\\', "next"]
    assert asking.texts(*texts) == texts
    assert server.count("create") == 1


def test_equal_requests_are_sent_once(server, asking):
    assert asking.texts("a", "b", "a") == ["A", "B", "A"]
    assert len(server.batch.lines()) == 2


def test_an_unreadable_image_concerns_only_its_request(asking, tmp_path):
    broken, fine = asking.outcomes(request("a", tmp_path / "none.png"), request("b"))
    assert outcome_text(broken).startswith("RequestBroken: the image")
    assert outcome_text(fine) == "B"


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(Limits(requests=2), id="by-number"),
        pytest.param(Limits(size_bytes=7000), id="by-bytes"),
    ],
)
def test_requests_are_split_into_files_within_the_limits(server, asking, tmp_path, limits):
    server.batch.max_requests, server.batch.max_bytes = limits.requests, limits.size_bytes
    image = tmp_path / "a.png"
    image.write_bytes(PNG)
    outcomes = asking.outcomes(*(request(text, image) for text in "abcde"), limits=limits)
    assert [outcome_text(outcome) for outcome in outcomes] == list("ABCDE")
    files = [server.batch.files[batch["input_file_id"]] for batch in server.batch.batches.values()]
    assert [len(file.splitlines()) for file in files] == [2, 2, 1]
    assert all(len(file) <= limits.size_bytes for file in files)


def test_a_request_larger_than_a_file_cannot_be_sent(asking):
    outcomes = asking.texts("a", "b" * 500, "c", limits=Limits(size_bytes=500))
    assert [outcomes[0], outcomes[2]] == ["A", "C"]
    assert outcomes[1].startswith("RequestBroken: the request is too large for a batch")


def test_a_query_in_the_address_is_sent_with_every_request_and_written_nowhere(
    server, asking, caplog
):
    server.loses(1, "create")  # so that the batches are listed too
    judge = replace(asking, url=f"{server.url}?code=hush-hush")
    with caplog.at_level(logging.DEBUG):
        assert judge.texts("a") == ["A"]
    assert {request.route for request in server.log} == {
        "upload",
        "create",
        "list",
        "retrieve",
        "content",
    }
    assert {request.query.partition("&")[0] for request in server.log} == {"code=hush-hush"}
    assert "hush-hush" not in caplog.text
    assert not [path for path in asking.folder.rglob("*.json") if "hush" in path.read_text()]


def test_the_folder_is_only_its_owners_and_holds_no_request_while_a_batch_runs(server, asking):
    seen = []
    server.before["retrieve"] = lambda: seen.extend(asking.remaining_suffixes())
    asking.texts("a")
    folder = asking.folder / "judge" / "batches"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert set(seen) == {".json"}


def test_nothing_is_sent_without_a_required_key(asking):
    outcomes = asking.texts("a", api_key=None, base_url="https://api.openai.com/v1")
    assert outcomes[0].startswith("JudgeMisconfigured: ")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        pytest.param({"api_type": "azure"}, "Azure", id="azure"),
        pytest.param({"max_cost_usd": 1.0}, "`max_cost` cannot be kept", id="max-cost"),
    ],
)
def test_an_unsupported_setting_is_rejected(asking, wrong, words):
    with pytest.raises(SettingWrong, match=words):
        BatchJudge(asking.settings(**wrong))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(completion(None), "JudgeRefused: the reply has no text", id="no-text"),
        pytest.param(
            completion("a", finish_reason="content_filter"), "JudgeRefused: ", id="withheld"
        ),
        pytest.param({"choices": []}, "JudgeUnavailable: ", id="no-choices"),
    ],
)
def test_a_finished_line_is_read_as_the_online_judge_reads_it(server, asking, answer, words):
    server.says(answer)
    (outcome,) = asking.texts("a")
    assert outcome.startswith(words)


def test_the_key_goes_to_the_server_and_nowhere_else(server, asking, capfd):
    server.key = KEY
    judge = asking.judge()
    assert [outcome_text(outcome) for _, outcome in judge.ask([request("a")])] == ["A"]
    state = [path.read_text() for path in asking.folder.rglob("*") if path.is_file()]
    everything = json.dumps(server.batch.lines()) + "".join(
        [*capfd.readouterr(), *state, repr(judge)]
    )
    assert KEY not in everything
