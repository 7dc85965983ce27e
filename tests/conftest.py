"""Fixtures of all tests, and which tests are slow: ``make quick`` leaves those out."""

import gc
import os
import signal
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from loguru import logger

import mmie_tasks

# No test needs a certificate. Every client would read those of the machine, which takes 30 ms.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

# As in an activated environment: then messages have commands without the path of their program.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

# A shell's background job ignores Ctrl-C, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No time limit for an example: on a busy machine any of them may take long.
settings.register_profile("all", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)

TESTS = Path(__file__).resolve().parent
SLOW = (  # imports torch or the runner, starts processes, or computes for long
    "gpu",
    "hub/test_dataset.py",
    "drawing/test_pipeline.py",
    "judges/mmie_score/test_checkpoint.py",
    "judges/mmie_score/test_devices.py",
    "judges/mmie_score/test_exact.py",
    "judges/mmie_score/test_judge.py",
    "judges/mmie_score/test_serve.py",
    "judges/mmie_score/test_source.py",
    "judges/mmie_score/test_server.py",
    "judges/mmie_score/test_transformers_engine.py",
    "judges/mmie_score/test_vllm.py",
    "parity",
    "preflight/test_doctor.py",
    "preflight/test_prefetch.py",
    "runner/test_answer_files.py",
    "runner/test_chat_images.py",
    "runner/test_check_before_model.py",
    "runner/test_hooks.py",
    "runner/test_model_memory.py",
    "runner/test_names.py",
    "runner/test_predictions.py",
    "seam",
    "test_import_cost.py",
    "test_packaging.py",
)
SLOW_EXAMPLES = (  # files of the package that import torch or the runner
    "judges/mmie_score/native_model.py",
    "judges/mmie_score/transformers_engine.py",
    "runner/*",
)
BROWSER = "browser"
"""Tests with this fixture are slow, too."""


@pytest.fixture
def logs():
    """The messages that are logged while a test runs; each has its level in ``record["level"]``."""
    messages = []
    sink = logger.add(messages.append, format="{message}")
    yield messages
    logger.remove(sink)


@pytest.fixture(autouse=True)
def _no_open_judges():
    """No judge that another test has opened outside a run, and no sample that waits for one."""
    if session := sys.modules.get("mmie_tasks.judges.session"):
        session.session_without_run.cache_clear()


def pytest_configure(config):
    """For ``make quick``, property tests try fewer examples, and slow examples are left out."""
    is_quick = config.option.markexpr == "not slow"
    settings.load_profile("quick" if is_quick else "all")
    if is_quick:
        package = Path(mmie_tasks.__file__).parent
        config.option.ignore_glob += [str(package / name) for name in SLOW_EXAMPLES]


def pytest_ignore_collect(collection_path, config):
    """For ``make quick``, do not even import the slow files, and those without a test."""
    is_quick = config.option.markexpr == "not slow"
    return True if is_quick and (_is_slow(collection_path) or _is_help(collection_path)) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the slow tests, and put their files first: ``--dist loadfile`` hands the files out in
    this order, and many short ones at the end keep all processes busy.
    """
    for item in items:
        if BROWSER in getattr(item, "fixturenames", ()) or _is_slow(item.path):
            item.add_marker("slow")
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish():
    """Exempt what collecting has imported from garbage collections, each of which would take half a
    second.
    """
    gc.collect()
    gc.freeze()


def pytest_sessionfinish():
    """Libraries report what is never deleted as leaked."""
    gc.unfreeze()


@cache
def _is_slow(path):
    return any(path.is_relative_to(TESTS / name) for name in SLOW)


def _is_help(path):
    """Whether a file only helps tests: it is no file of tests, and has no examples."""
    is_module = path.suffix == ".py" and not path.name.startswith(("test_", "conftest"))
    return is_module and ">>>" not in path.read_text(encoding="utf-8")
