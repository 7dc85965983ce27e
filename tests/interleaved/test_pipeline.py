"""Pictures of diffusers' pipelines: the model's files, what is refused, the same bytes every
time.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from loguru import logger
from PIL import Image
from support.hub_server import COMMIT, ask
from support.model_hub import ModelHub
from support.tiny_pipeline import MAX_TOKENS, quietly, write_tiny_pipeline, write_tiny_sd3

from mmie_tasks.interleaved import base
from mmie_tasks.interleaved.base import (
    Drawer,
    DrawerMisconfigured,
    DrawerRefused,
    DrawerUnavailable,
    Picture,
    PictureRequest,
    PictureUnusable,
)
from mmie_tasks.interleaved.pipeline import PipelineDrawer, choose_device, open_drawer


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_pipeline(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def sd3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_sd3(tmp_path_factory.mktemp("models") / "sd3")


@pytest.fixture
def model(tiny: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(tiny, tmp_path / "tiny"))


def drawer(model: Path | str, **options: Any) -> PipelineDrawer:
    return open_drawer(environment={}, model=str(model), **{"steps": 2, "device": "cpu", **options})


def requests(*prompts: str) -> list[PictureRequest]:
    """Each prompt with its place as seed."""
    return [PictureRequest(prompt=prompt, seed=seed) for seed, prompt in enumerate(prompts)]


def drawn(drawer: Drawer, wanted: list[PictureRequest]) -> list[Any]:
    """Outcomes in the order of the requests: bytes of a picture, or an error."""
    with quietly():
        outcomes = dict(drawer.draw(wanted))
    assert len(outcomes) == len(wanted)
    ordered = [outcomes[index] for index in range(len(wanted))]
    return [outcome.content if isinstance(outcome, Picture) else outcome for outcome in ordered]


@contextmanager
def warnings_logged() -> Iterator[list[str]]:
    lines: list[str] = []
    handler = logger.add(lambda line: lines.append(str(line)), level="WARNING")
    yield lines
    logger.remove(handler)


def edit_index(model: Path, **entries: object) -> None:
    """Change entries; None removes one."""
    path = model / "model_index.json"
    index = json.loads(path.read_text()) | entries
    path.write_text(json.dumps({name: entry for name, entry in index.items() if entry is not None}))


def test_a_picture_is_a_png_that_depends_on_prompt_and_seed(tiny: Path) -> None:
    wanted = [
        PictureRequest(prompt=prompt, seed=seed)
        for prompt, seed in [("a cat", 1), ("a dog", 1), ("a cat", 2)]
    ]
    pictures = drawn(drawer(tiny), wanted)
    assert len({*pictures}) == 3
    image = Image.open(BytesIO(pictures[0]))
    assert (image.format, image.size) == ("PNG", (32, 32))


def test_a_picture_has_the_size_that_is_drawn_and_is_stored_smaller(tiny: Path) -> None:
    (content,) = drawn(drawer(tiny, size="64x32", max_side_px=48), requests("a cat"))
    assert Image.open(BytesIO(content)).size == (48, 24)


@pytest.mark.parametrize("family", ["tiny", "sd3"])
def test_a_picture_does_not_depend_on_its_batch(
    family: str, request: pytest.FixtureRequest
) -> None:
    """Nor on its neighbours, its place, or the number of pictures in the batch."""
    folder = request.getfixturevalue(family)
    wanted = requests("a cat", "a red house with many windows", "", "dog", "snow")
    whole = drawn(drawer(folder, batch_size=3), wanted)
    assert len({*whole}) == 5
    two = drawer(folder, batch_size=2)
    assert drawn(two, wanted) == whole
    assert drawn(two, wanted[::-1]) == whole[::-1]
    assert drawn(two, [wanted[4], wanted[1], wanted[3]]) == [
        whole[4],
        whole[1],
        whole[3],
    ]  # the rest of a killed run


def test_a_negative_prompt_and_guidance_change_the_picture(tiny: Path) -> None:
    options: list[dict[str, Any]] = [
        {},
        {"guidance": 2.0},
        {"negative_prompt": "blue", "batch_size": 2},
    ]
    assert len({drawn(drawer(tiny, **option), requests("a cat"))[0] for option in options}) == 3


def test_a_closed_drawer_loads_again_and_draws_the_same(tiny: Path) -> None:
    reopened = drawer(tiny)
    before = drawn(reopened, requests("a cat"))
    reopened.close()
    assert drawn(reopened, requests("a cat")) == before


def test_nothing_is_loaded_for_no_requests(tmp_path: Path) -> None:
    assert drawn(drawer(tmp_path / "missing"), []) == []


def test_the_registry_opens_it_with_options_as_text(tiny: Path) -> None:
    opened = base.open_drawer(
        f"diffusers:model={tiny},steps=2,guidance=1.5,size=32x32,device=cpu", {}
    )
    expected = drawer(tiny, guidance=1.5, size="32x32")
    assert opened.signature == expected.signature
    assert drawn(opened, requests("a cat")) == drawn(expected, requests("a cat"))


def test_a_prompt_with_half_a_character_is_drawn(tiny: Path) -> None:
    (content,) = drawn(drawer(tiny), requests("a \ud83d cat"))
    assert isinstance(content, bytes)


# What the signature says


def test_the_signature_names_all_that_changes_a_picture_and_no_path(tiny: Path) -> None:
    options = {"size": "64x32", "guidance": 2.5, "negative_prompt": "a, b | c"}
    signature = drawer(tiny, **options).signature
    parts = dict(part.split("=") for part in signature.removeprefix("diffusers,").split(","))
    assert "|" not in signature
    assert str(tiny.parent) not in signature
    assert parts.pop("model").startswith("tiny@")
    assert parts.keys() == {
        *(
            "size",
            "steps",
            "guidance",
            "negative_prompt",
            "dtype",
            "stored",
            "diffusers",
            "torch",
            "device",
        )
    }
    assert (parts["size"], parts["steps"], parts["stored"]) == ("64x32", "2", "512px")
    batches = drawer(tiny, **options, batch_size=4).signature
    assert batches == signature.replace(",dtype", ",batch=4,dtype")


def test_the_signature_of_a_folder_follows_its_content(model: Path) -> None:
    before = drawer(model).signature
    (model / "README.md").write_text("not loaded")
    (model / "unet" / "old.bin").write_text("not loaded")
    assert drawer(model).signature == before
    assert drawer(model.rename(model.with_name("a,b|c"))).signature == before.replace(
        "model=tiny", "model=a-b-c"
    )
    config = model.with_name("a,b|c") / "scheduler" / "scheduler_config.json"
    config.write_text(config.read_text() + " ")
    assert before.split("@")[1] not in drawer(model.with_name("a,b|c")).signature


# What is refused before anything is drawn

ATTACK = "from pathlib import Path\nPath({flag!r}).touch()\nclass Own: ...\n"


def custom_pipeline(model: Path) -> None:
    edit_index(model, _class_name=["pipeline", "Own"])


def custom_component(model: Path) -> None:
    edit_index(model, unet=["pipeline", "Own"])


def component_beside_diffusers(model: Path) -> None:
    shutil.copy(model / "pipeline.py", model / "unet" / "diffusers.py")


def file_named_none(model: Path) -> None:
    shutil.copy(model / "pipeline.py", model / "None.py")


def automatic_class_with_code(model: Path) -> None:
    edit_index(model, tokenizer=["transformers", "AutoTokenizer"])
    path = model / "tokenizer" / "tokenizer_config.json"
    path.write_text(
        json.dumps(
            json.loads(path.read_text()) | {"auto_map": {"AutoTokenizer": ["pipeline.Own", None]}}
        )
    )


@pytest.mark.parametrize(
    "attack",
    [
        custom_pipeline,
        custom_component,
        component_beside_diffusers,
        file_named_none,
        automatic_class_with_code,
    ],
)
def test_code_of_a_model_is_refused_and_not_run(
    model: Path, tmp_path: Path, attack: Callable[[Path], None]
) -> None:
    flag = tmp_path / "was_run"
    for folder in (model, model / "unet", model / "tokenizer"):
        (folder / "pipeline.py").write_text(ATTACK.format(flag=str(flag)))
    attack(model)
    (error,) = drawn(drawer(model), requests("a cat"))
    assert isinstance(error, DrawerMisconfigured)
    assert not flag.exists()


def test_code_that_a_model_does_not_name_is_not_run(model: Path, tmp_path: Path) -> None:
    flag = tmp_path / "was_run"
    (model / "pipeline.py").write_text(ATTACK.format(flag=str(flag)))
    assert isinstance(drawn(drawer(model), requests("a cat"))[0], bytes)
    assert not flag.exists()


def only_pickles(model: Path) -> None:
    weights = model / "unet" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(only_pickles, "`unet` has no weights as safetensors", id="pickles"),
        pytest.param(
            lambda model: shutil.rmtree(model / "tokenizer"),
            "`tokenizer` could not be loaded",
            id="folder",
        ),
        pytest.param(
            lambda model: edit_index(model, unet=["antigravity", "Own"]),
            "`unet` is of `antigravity`",
            id="library",
        ),
        pytest.param(
            lambda model: (model / "model_index.json").unlink(),
            "no `model_index.json`",
            id="no-index",
        ),
        pytest.param(
            lambda model: (model / "model_index.json").write_text("[1]"),
            "is no JSON object",
            id="index",
        ),
        pytest.param(
            lambda model: (model / "model_index.json").write_text("{"),
            "no `model_index.json`",
            id="half",
        ),
        pytest.param(
            lambda model: edit_index(model, _class_name="StableDiffusionImg2ImgPipeline"),
            "`StableDiffusionImg2ImgPipeline` is no text-to-image pipeline of diffusers 0",
            id="image-to-image",
        ),
        pytest.param(
            lambda model: edit_index(model, _class_name="FluxTenPipeline"),
            "is not in diffusers 0",
            id="future",
        ),
        pytest.param(
            lambda model: edit_index(model, _class_name="utils"),
            "is no text-to-image",
            id="no-class",
        ),
        pytest.param(
            lambda model: edit_index(model, scheduler=["diffusers", "DPMSolverSDEScheduler"]),
            "`scheduler` could not be loaded: DPMSolverSDEScheduler requires the torchsde library",
            id="package",
        ),
    ],
)
def test_a_model_that_cannot_draw_is_refused_before_drawing(
    model: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(model)
    with quietly(), pytest.raises(DrawerMisconfigured, match=message) as refused:
        drawer(model).check()
    assert refused.value.hint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            (pytest.param({"size": size}, f"`size={size}`", id=size))
            for size in ("512", "0x64", "500x500", "9999x9984")
        ),
        pytest.param({"device": "tpu"}, "`device=tpu` is not a device", id="device"),
        pytest.param({"device": "cuda:99"}, "`cuda:99` was to draw", id="gpu"),
        pytest.param({"revision": "../main"}, "`revision=../main` is no branch", id="revision"),
        pytest.param(
            {"revision": "main"}, "`revision=main` was set for a folder", id="revision-of-a-folder"
        ),
        pytest.param({"variant": "fp16"}, "no weights `variant=fp16`", id="variant"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    tiny: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DrawerMisconfigured, match=message):
        drawer(tiny, **options).check()


def test_an_option_that_the_pipeline_does_not_have_is_refused(model: Path) -> None:
    drawer(model, negative_prompt="blue").check()
    edit_index(model, _class_name="LatentConsistencyModelPipeline")
    with pytest.raises(
        DrawerMisconfigured, match="a LatentConsistencyModelPipeline takes no negative_prompt"
    ):
        drawer(model, negative_prompt="blue").check()


def test_a_diffusers_that_may_run_code_of_a_model_is_refused(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmie_tasks.interleaved.pipeline.version", lambda _: "0.37.1")
    with pytest.raises(DrawerMisconfigured, match=r"diffusers 0\.37\.1[\s\S]*diffusers>=0\.38"):
        drawer(tiny).check()


def test_without_diffusers_the_extra_is_named(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(DrawerMisconfigured, match=r"mmie-tasks\[diffusers\]"):
        drawer(tiny).check()


@pytest.mark.parametrize(
    ("option", "gpus", "rank", "device"),
    [
        pytest.param("", 0, None, "cpu", id="no-gpu"),
        pytest.param("", 3, None, "cuda:0", id="one-process-takes-the-first"),
        pytest.param("", 2, "1", "cuda:1", id="of-several-each-its-own"),
        pytest.param("", 1, "1", "cuda:0", id="its-only-visible-one"),
        pytest.param("cuda:1", 2, "0", "cuda:1", id="chosen"),
        pytest.param("cpu", 2, None, "cpu", id="cpu"),
    ],
)
def test_the_device_of_a_process(option: str, gpus: int, rank: str | None, device: str) -> None:
    environment = {"WORLD_SIZE": "2", "LOCAL_RANK": rank} if rank else {}
    assert choose_device(option, gpus, environment) == device


# What goes wrong while drawing


def test_a_picture_that_the_safety_checker_blackens_is_refused(tmp_path: Path) -> None:
    model = write_tiny_pipeline(tmp_path / "strict", flags_everything=True)
    outcomes = drawn(drawer(model, batch_size=2), requests("a", "b", "c"))
    assert [type(outcome) for outcome in outcomes] == [DrawerRefused] * 3


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param(float("nan"), "no numbers", id="nan"),
        pytest.param(9.0, "one colour", id="white"),
    ],
)
def test_a_decoder_that_overflows_makes_no_picture(model: Path, value: float, message: str) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    path = model / "vae" / "diffusion_pytorch_model.safetensors"
    weights = load_file(path)
    weights["decoder.conv_out.weight"].zero_()
    weights["decoder.conv_out.bias"] = torch.full_like(weights["decoder.conv_out.bias"], value)
    save_file(weights, path, metadata={"format": "pt"})
    (outcome,) = drawn(drawer(model), requests("a cat"))
    assert isinstance(outcome, PictureUnusable)
    assert message in str(outcome)


def test_prompts_that_are_cut_are_counted_and_logged_once(
    tiny: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = drawer(tiny)
    with warnings_logged() as lines:
        drawn(long, requests("x" * (MAX_TOKENS - 2), "x" * (MAX_TOKENS - 1), "short"))
    assert long.cut_prompts == 1
    (line,) = lines
    assert not [
        record for record in caplog.records if "diffusers" in record.name
    ]  # it would repeat the end of every prompt
    assert "1 of 3 prompts are longer than the 77 tokens that `tiny` reads" in line


def test_weights_that_are_missing_are_the_same_every_time_and_logged(
    sd3: Path, tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    model = Path(shutil.copytree(sd3, tmp_path / "sd3"))
    path = model / "text_encoder" / "model.safetensors"
    weights = load_file(path)
    del weights["text_projection.weight"]
    save_file(weights, path, metadata={"format": "pt"})
    with warnings_logged() as lines:
        first = drawn(drawer(model), requests("a cat"))
        torch.rand(1)
        assert drawn(drawer(model), requests("a cat")) == first
        assert drawn(drawer(model), requests("a cat")) != drawn(drawer(sd3), requests("a cat"))
    assert sum("Some weights of `sd3` are random" in line for line in lines) == 3


def fail_on(
    monkeypatch: pytest.MonkeyPatch, failure: Callable[[int, list[str]], Exception | None]
) -> Counter[str]:
    """Let the pipeline fail; `failure` gets the number of the call and its prompts. Returns how
    often it is called.
    """
    from diffusers import StableDiffusionPipeline

    calls: Counter[str] = Counter()
    draw = StableDiffusionPipeline.__call__

    def call(self: Any, prompt: list[str], **options: Any) -> Any:
        calls["all"] += 1
        if error := failure(calls["all"], prompt):
            raise error
        return draw(self, prompt=prompt, **options)

    monkeypatch.setattr(StableDiffusionPipeline, "__call__", call)
    return calls


def ready(model: Path, **options: Any) -> PipelineDrawer:
    """Checked, before its pipeline is made to fail."""
    checked = drawer(model, **options)
    checked.check()
    return checked


def test_a_batch_that_fails_costs_no_other(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = ready(tiny, batch_size=2)
    fail_on(monkeypatch, lambda _, prompts: ValueError("bad prompt") if "bad" in prompts else None)
    outcomes = drawn(checked, requests("a", "b", "bad", "c", "d"))
    assert [isinstance(outcome, bytes) for outcome in outcomes] == [True, True, False, False, True]
    assert isinstance(outcomes[2], DrawerUnavailable)
    assert str(outcomes[2]) == "the pipeline failed: bad prompt"


def test_a_first_batch_that_fails_twice_alike_ends_the_drawing(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = ready(tiny)
    calls = fail_on(monkeypatch, lambda _call, _prompts: RuntimeError("no kernel"))
    outcomes = drawn(checked, requests(*"abcdef"))
    assert {str(outcome) for outcome in outcomes} == {"the pipeline failed: no kernel"}
    assert calls["all"] == 2


def test_a_first_batch_that_fails_once_is_drawn(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = ready(tiny)
    fail_on(monkeypatch, lambda call, _: RuntimeError("busy") if call == 1 else None)
    assert [type(outcome) for outcome in drawn(checked, requests("a", "b"))] == [bytes, bytes]


def test_a_device_without_memory_draws_nothing_more(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    checked = ready(tiny, batch_size=2)
    calls = fail_on(
        monkeypatch, lambda call, _: torch.cuda.OutOfMemoryError("12 GiB") if call == 2 else None
    )
    outcomes = drawn(checked, requests(*"abcdefg"))
    assert [isinstance(outcome, bytes) for outcome in outcomes] == [True] * 2 + [False] * 5
    assert all(isinstance(outcome, DrawerUnavailable) for outcome in outcomes[2:])
    assert all("`batch_size=1`" in str(outcome) for outcome in outcomes[2:])
    assert calls["all"] == 2


def test_every_batch_has_the_same_shape(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU computes other bits for other shapes."""
    checked = ready(tiny, batch_size=3, negative_prompt="blue")
    batches: list[list[str]] = []
    fail_on(monkeypatch, lambda _, prompts: batches.append(prompts))
    drawn(checked, requests(*"abcde"))
    assert batches == [["a", "b", "c"], ["d", "e", "e"]]


def test_what_a_writer_has_set_for_convolutions_is_undone_while_drawing(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.backends import cudnn

    monkeypatch.setattr(
        cudnn, "benchmark", True
    )  # the fastest kernel of the moment, which may be another next time
    checked = ready(tiny)
    fail_on(
        monkeypatch, lambda _call, _prompts: RuntimeError("benchmark") if cudnn.benchmark else None
    )
    assert isinstance(drawn(checked, requests("a cat"))[0], bytes)
    assert cudnn.benchmark


def test_closing_early_stops_after_the_batch_in_flight(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = ready(tiny)
    calls = fail_on(monkeypatch, lambda _call, _prompts: None)
    with quietly(), closing(checked.draw(requests(*"abcdefghijklmnopqrst"))) as outcomes:
        next(iter(outcomes))
    assert calls["all"] < 10


# The Hub

HUB = """
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.interleaved.base import PictureRequest
from mmie_tasks.interleaved.pipeline import open_drawer
answer = []
for model, revision in {models!r}:
    drawer = open_drawer(environment={{}}, model=model, revision=revision, steps=1, device="cpu")
    try:
        drawer.check()
        drawn = drawer.draw([PictureRequest(prompt="a", seed=1)])
        outcomes = [type(outcome).__name__ for _, outcome in drawn]
        answer.append([drawer.signature, *outcomes])
    except MmieTasksError as error:
        answer.append(str(error))
"""


def test_a_model_of_the_hub_is_downloaded_by_the_check(tiny: Path, tmp_path: Path) -> None:
    with ModelHub() as hub:
        for path in tiny.rglob("*.*"):
            hub.holds("owner/tiny", path.relative_to(tiny).as_posix(), path.read_bytes())
            if path.suffix == ".safetensors":
                hub.holds(
                    "owner/pickles",
                    path.with_suffix(".bin").relative_to(tiny).as_posix(),
                    b"pickle",
                )
            else:
                hub.holds("owner/pickles", path.relative_to(tiny).as_posix(), path.read_bytes())
        hub.holds("owner/tiny", "unet/diffusion_pytorch_model.bin", b"pickle")
        hub.holds("owner/tiny", "pipeline.py", b"raise SystemExit")
        hub.holds("owner/text", "config.json", b"{}")
        models = [
            ("owner/tiny", None),
            ("owner/none", None),
            ("owner/tiny", "v9"),
            ("owner/text", None),
        ]
        drawn, *refused = ask(
            hub.url, tmp_path, HUB.format(models=[*models, ("owner/pickles", None)])
        )
        files = hub.requested_files()
        hub.answers(403, "GatedRepo")
        (gated,) = ask(hub.url, tmp_path, HUB.format(models=[("owner/gated", None)]))
    (unreachable,) = ask(hub.url, tmp_path, HUB.format(models=[("owner/gated", None)]))
    assert drawn[0].startswith(f"diffusers,model=owner/tiny@{COMMIT[:12]},")
    assert drawn[1:] == ["Picture"]
    assert not [name for name in files if name.endswith(".bin")]
    for message, expected in zip(
        [*refused, gated, unreachable],
        [
            "no such model",
            "no revision `v9`",
            "no `model_index.json`",
            "safetensors",
            "gated",
            "Connection refused",
        ],
        strict=True,
    ):
        assert expected in message
        assert "hint: " in message
