"""``doctor --model``: models are imported in a process of their own, by the runner's registry."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.runner import PACKAGE, TESTS, Workplace, write

from mmie_tasks.preflight.doctor import run
from mmie_tasks.preflight.findings import Finding
from mmie_tasks.runner.model_check import check_model

MANIFESTS = """
from lmms_eval.models.registry_v2 import ModelManifest

NAMES = {names!r}
MANIFESTS = [
    ModelManifest(model_id=name, chat_class_path=f"models_for_tests.{{name}}.Model")
    for name in NAMES
]
"""

MODULES = {
    "without_decord": 'raise ModuleNotFoundError("No module named \'decord\'", name="decord")',
    "without_unknown": "import missing_for_tests",
    "with_fallback": """
print("some noise")
try:
    import missing_for_tests
    import decord
except ImportError:
    missing_for_tests = None
from support.stub_model import StubChat as Model
""",
    "other_release": "from packaging import not_in_this_release",
    "hanging": "import time; time.sleep(600)",
    "crashing": "import os; os.abort()",
    "raising": "raise RuntimeError('of a library')",
}


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment with the models of `MODULES`, and with ``absent``, which has no module."""
    workplace = Workplace(folder=tmp_path)
    package = workplace.plugins / "models_for_tests"
    write(package / "__init__.py", MANIFESTS.format(names=[*MODULES, "absent"]))
    for name, code in MODULES.items():
        write(package / f"{name}.py", code)
    workplace.install_entry_point("lmms_eval.models", "models", "models_for_tests:MANIFESTS")
    write(
        tmp_path / "here" / "missing_for_tests.py", ""
    )  # in the working directory, which the runner does not search
    monkeypatch.chdir(tmp_path / "here")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (workplace.plugins, TESTS, PACKAGE))),
        "HF_HUB_OFFLINE": "1",
    }


def test_doctor_reports_what_each_named_model_lacks(environment: dict[str, str]) -> None:
    models = "without_decord,with_fallback,qwen25_vl"
    report = run(["--model", models, "--tasks", "milebench"], environment, check_model)
    assert report.status == 1
    findings = [finding for finding in report.findings if finding.subject.startswith("model ")]
    assert [(finding.subject, finding.status) for finding in findings] == [
        ("model without_decord", "problem"),
        ("model with_fallback", "ok"),
        ("model with_fallback", "warning"),
        ("model qwen25_vl", "problem"),
    ]
    assert "needs the module `decord`, which is not installed" in findings[0].message
    assert findings[0].hint.endswith("`pip install decord`")
    assert findings[1].message == "`models_for_tests.with_fallback.Model` can be imported"
    assert "its code imports `missing_for_tests`" in findings[2].message
    assert "similar names: `qwen2_5_vl`" in findings[3].hint


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        pytest.param(
            "without_unknown",
            "needs the module `missing_for_tests`",
            "pip install missing_for_tests",
            id="module",
        ),
        pytest.param(
            "other_release",
            "does not fit the installed `packaging` ",
            "to see the error",
            id="release",
        ),
        pytest.param(
            "absent", "`models_for_tests.absent.Model`, which does not exist", "choose", id="class"
        ),
        pytest.param("raising", "importing it fails", "get_model('raising')", id="error"),
        pytest.param("crashing", "importing it fails", "get_model('crashing')", id="crash"),
        pytest.param(
            "hanging", "importing it takes longer than 2 s", "get_model('hanging')", id="hang"
        ),
    ],
)
def test_a_model_that_cannot_be_imported_is_one_problem_with_a_hint(
    environment: dict[str, str], name: str, message: str, hint: str
) -> None:
    (finding,) = check_model(name, environment, timeout_s=2 if name == "hanging" else 300)
    assert finding == Finding("problem", f"model {name}", finding.message, finding.hint)
    assert message in finding.message
    assert hint in finding.hint
