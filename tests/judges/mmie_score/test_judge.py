"""The judge as the rest of the package uses it: options, signature, replies, release of memory."""

import json
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from support import scripted_checkpoint
from support.internvl_golden import CHECKPOINT, IMAGES, cases
from support.judge_asking import ask, create
from support.transformers_5 import needs_transformers_5

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest, RequestBroken, RequestUnfit
from mmie_tasks.judges.mmie_score import judge as judge_module
from mmie_tasks.judges.mmie_score import serve, transformers_engine
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge, check_libraries
from mmie_tasks.preflight.checks import asset_findings
from mmie_tasks.record.reply import JudgeReply

pytestmark = needs_transformers_5

TRANSFORMERS = f"transformers {version('transformers')}"


def judge_with(model: Path = CHECKPOINT, **options: str):
    return create("mmie_score", {"model": str(model), "device": "cpu", **options}, {})


def request(*parts: str | Path, max_tokens: int = 40) -> JudgeRequest:
    return JudgeRequest(parts=parts, max_tokens=max_tokens)


@pytest.fixture(scope="module")
def judge():
    return judge_with()


def test_all_golden_cases_in_one_call_have_the_official_replies(judge) -> None:
    requests = [request(*case.parts, max_tokens=case.max_new_tokens) for case in cases()]
    for reply, case in zip(ask(judge, requests), cases(), strict=True):
        assert isinstance(reply, JudgeReply)
        assert reply.text == case.response
        assert reply.finish == ("stop" if case.ended else "length")
        usage = (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cost_usd)
        assert usage == (len(case.input_ids), len(case.output_ids), 0.0)


def test_an_unusable_request_does_not_affect_the_others(judge) -> None:
    missing, unfit = request(Path("none.png")), request(IMAGES / "rgba.png", " <IMG_CONTEXT>")
    kinds = [type(outcome) for outcome in ask(judge, [missing, unfit, request("Why?")])]
    assert kinds == [RequestBroken, RequestUnfit, JudgeReply]


def test_control_strings_are_read_as_official_and_counted(tmp_path: Path, logs) -> None:
    folder = scripted_checkpoint.write(tmp_path / "judge", reply="### Score: 4")
    (reply,) = ask(judge_with(folder), [request("He wrote <|end|> and <image>.")])
    assert reply.text == "### Score: 4"
    assert "`<image>` in 1, `<|end|>` in 1" in "".join(logs)


def test_the_signature_depends_on_content_and_not_on_the_folder(tmp_path: Path, judge) -> None:
    shutil.copytree(CHECKPOINT, tmp_path / "copy")
    copied = judge_with(tmp_path / "copy").storage_signature
    assert copied == judge.storage_signature
    assert str(tmp_path) not in copied
    assert copied.endswith(f"|dtype:float32|device:cpu|engine:{TRANSFORMERS}|stop:end")
    (tmp_path / "copy" / "generation_config.json").unlink()  # the judge does not read it
    assert judge_with(tmp_path / "copy").signature == judge.signature


@pytest.mark.parametrize(("name", "value"), [("max_rows", "0"), ("dtype", "bf16")])
def test_an_unusable_option_is_an_error_at_once(name, value) -> None:
    with pytest.raises(MmieTasksError, match=f"{name}={value}"):
        judge_with(**{name: value})


def test_transformers_4_is_refused_with_a_hint(monkeypatch) -> None:
    monkeypatch.setattr(judge_module, "version", lambda _: "5.0.0rc1")
    check_libraries()
    monkeypatch.setattr(judge_module, "version", lambda _: "4.57.1")
    with pytest.raises(JudgeMisconfigured, match=r"transformers 5 .* 4\.57\.1") as refused:
        check_libraries()
    assert "install -U" not in str(refused.value)  # it would break the tested model


def test_the_machine_that_computed_is_known_after_the_run_and_not_in_the_signature(judge) -> None:
    fresh = judge_with()
    assert fresh.machine() is None
    list(fresh.ask([request("Why?")]))
    assert fresh.machine() == f"CPU, torch {torch.__version__}"
    assert torch.__version__ not in fresh.storage_signature
    assert fresh.signature == judge.signature


@pytest.mark.parametrize(
    ("options", "gpu_count", "release", "is_served", "reason"),
    [
        pytest.param({}, 1, "0.33.1", True, "vLLM is installed", id="vLLM and a GPU"),
        pytest.param({}, 0, "0.33.1", False, "`cpu` is not a GPU", id="no GPU"),
        pytest.param({}, 1, "", False, "vLLM is not installed", id="no vLLM"),
        pytest.param({}, 1, "0.34.0", False, "needs 0.32 to before 0.34", id="a newer vLLM"),
        pytest.param({}, 1, "0.31.2", False, "needs 0.32 to before 0.34", id="an older vLLM"),
        pytest.param({}, 1, "0.32.0+cpu", False, "on CPUs only", id="vLLM for CPUs"),
        pytest.param({"serve": "no"}, 1, "0.33.1", False, "`serve=no`", id="no"),
        pytest.param({"serve": sys.executable}, 0, "", True, "`serve=", id="a program"),
    ],
)
def test_option_gpu_and_vllm_choose_the_way(
    monkeypatch, gpus, options, gpu_count, release, is_served, reason
):
    gpus(gpu_count)
    monkeypatch.setattr(serve, "_release", lambda name: release if name == "vllm" else "")
    judge = create("mmie_score", {"model": str(CHECKPOINT), **options}, {})
    assert isinstance(judge, MmieScoreJudge)
    assert bool(judge.way.program) == is_served
    assert reason in judge.way.reason
    digest = judge.checkpoint.digest
    device = "device:cuda" if gpu_count else "device:cpu"
    if is_served:
        assert judge.storage_signature == f"judge:mmie_score|model:MMIE-Score@{digest}|engine:vllm"
    else:
        assert judge.storage_signature.endswith(f"|{device}|engine:{TRANSFORMERS}|stop:end")


def test_a_program_that_does_not_serve_leaves_samples_unscored_with_its_words(tmp_path) -> None:
    program = tmp_path / "mmie-tasks"
    program.write_text("#!/bin/sh\necho no room on the GPU; exit 3\n", encoding="utf-8")
    program.chmod(0o755)
    freed: list[str] = []
    judge = judge_with(serve=str(program))
    judge.before_loading(lambda: freed.append("freed"))
    (outcome,) = ask(judge, [request("Why?")])
    assert freed == ["freed"]
    assert isinstance(outcome, JudgeMisconfigured)
    assert "no room on the GPU" in str(outcome)


def test_a_device_without_memory_leaves_samples_unscored_with_a_hint(monkeypatch) -> None:
    def failing(*_: object, **__: object) -> object:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(transformers_engine, "load_model", failing)
    (outcome,) = ask(judge_with(), [request("Why?")])
    assert isinstance(outcome, JudgeMisconfigured)
    assert "`cpu` ran out of memory" in str(outcome)


def findings_of(**options):
    """The doctor's findings by subject, without the judge's name."""
    findings = asset_findings(judge_with(**options).assets())
    return {finding.subject.removeprefix("mmie_score: "): finding for finding in findings}


def test_a_good_checkpoint_is_described_and_its_message_is_not_shown() -> None:
    findings = findings_of()
    assert not any(finding.hint for finding in findings.values())
    message = json.loads((CHECKPOINT / "config.json").read_bytes())["system_message"]
    assert f"{len(message)} characters in `config.json`" in findings["files"].message
    assert not any(message in finding.message for finding in findings.values())
    assert f"in this process on cpu, by {TRANSFORMERS}" in findings["device"].message


@pytest.mark.parametrize("options", [{"device": "cuda:99"}, {"serve": "/no/mmie-tasks"}])
def test_a_device_or_program_that_is_not_there_is_named(options: dict[str, str]) -> None:
    findings = findings_of(**options)
    assert {subject for subject, one in findings.items() if one.hint} == {"packages", "device"}
    assert next(iter(options.values())) in findings["device"].message
