"""Pictures of diffusers' pipelines: what is refused, the same bytes every time, failures."""

from __future__ import annotations

import errno
import json
import shutil
import sys
from contextlib import closing
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from huggingface_hub.errors import OfflineModeIsEnabled
from PIL import Image
from support.hub_process import ask
from support.hub_server import COMMIT, HubServer
from support.tiny_pipeline import MAX_TOKENS, quietly, write_tiny_pipeline, write_tiny_sd3

from mmie_tasks.core.choice import Choice
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.interleaved.drawer import (
    DrawerMisconfigured,
    DrawerRefused,
    DrawerUnavailable,
    Picture,
    PictureRequest,
    PictureUnusable,
)
from mmie_tasks.interleaved.registry import open_drawer

LEAF = np.arange(48, dtype="uint8").reshape(4, 4, 3)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_tiny_pipeline(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def sd3(tmp_path_factory):
    return write_tiny_sd3(tmp_path_factory.mktemp("models") / "sd3")


@pytest.fixture
def model(tiny, tmp_path):
    """A copy that a test may change."""
    return Path(shutil.copytree(tiny, tmp_path / "tiny"))


def drawer(model, environment=None, **options):
    texts = {"model": model, "steps": 2, "device": "cpu", **options}
    choice = Choice(name="diffusers", options={key: str(value) for key, value in texts.items()})
    return open_drawer(choice, environment or {})


def requests(*prompts):
    """Each prompt with its place as seed."""
    return [PictureRequest(prompt=prompt, seed=seed) for seed, prompt in enumerate(prompts)]


def drawn(drawer, wanted):
    """Outcomes in the order of the requests: bytes of a picture, or an error."""
    with quietly():
        outcomes = dict(drawer.draw(wanted))
    assert sorted(outcomes) == list(range(len(wanted)))
    ordered = [outcomes[index] for index in range(len(wanted))]
    return [outcome.content if isinstance(outcome, Picture) else outcome for outcome in ordered]


def edit_json(path, **entries):
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def edit_weights(path, edit):
    from safetensors.torch import load_file, save_file

    weights = load_file(path)
    edit(weights)
    save_file(weights, path, metadata={"format": "pt"})


def test_a_picture_is_a_png_that_depends_on_prompt_seed_and_options(tiny):
    wanted = [PictureRequest(prompt="a cat", seed=seed) for seed in (1, 2)]
    wanted += requests("a dog", "a \ud83d cat")  # half a character
    pictures = drawn(drawer(tiny), wanted)
    pictures += drawn(drawer(tiny, guidance=2.0), wanted[:1])
    pictures += drawn(drawer(tiny, negative_prompt="blue", batch_size=2), wanted[:1])
    assert len({*pictures}) == 6
    image = Image.open(BytesIO(pictures[0]))
    assert (image.format, image.size) == ("PNG", (32, 32))
    (wide,) = drawn(drawer(tiny, size="64x32", max_side_px=48), wanted[:1])
    assert Image.open(BytesIO(wide)).size == (48, 24)


@pytest.mark.parametrize("family", ["tiny", "sd3"])
def test_a_picture_does_not_depend_on_its_batch(family, request):
    """Nor on its neighbours, its place, or the number of pictures in the batch."""
    wanted = requests("a cat", "a red house with many windows", "", "dog", "snow")
    one = drawer(request.getfixturevalue(family), batch_size=2)
    whole = drawn(one, wanted)
    assert len({*whole}) == 5
    assert drawn(one, wanted[::-1]) == whole[::-1]
    one.close()
    rest = [wanted[4], wanted[1], wanted[3]]  # of a killed run
    assert drawn(one, rest) == [whole[4], whole[1], whole[3]]


def test_nothing_is_loaded_for_no_requests(tmp_path):
    assert drawn(drawer(tmp_path / "missing"), []) == []


def test_the_signature_names_all_that_changes_a_picture_and_no_path(tiny):
    options = {"size": "64x32", "guidance": 2.5, "negative_prompt": "a, b | c"}
    signature = drawer(tiny, **options).signature
    name, *parts = signature.split(",")
    assert (name, parts[0].partition("@")[0]) == ("diffusers", "model=tiny")
    assert parts[1:5] == ["steps=2", "guidance=2.5", "negative_prompt=1a2e34388191", "size=64x32"]
    assert parts[5:7] == ["dtype=float32", "stored=512px"]
    assert [part.partition("=")[0] for part in parts[7:]] == ["diffusers", "torch", "device"]
    batches = drawer(tiny, **options, batch_size=4).signature
    assert batches == signature.replace(",dtype", ",batch=4,dtype")


def test_the_signature_of_a_folder_follows_its_content(model):
    before = drawer(model).signature
    (model / "README.md").write_text("not loaded")
    (model / "unet" / "old.bin").write_text("not loaded")
    renamed = model.rename(model.with_name("a,b|c"))
    assert drawer(renamed).signature == before.replace("model=tiny", "model=a-b-c")
    edit_json(renamed / "scheduler" / "scheduler_config.json", changed=1)
    assert before.split("@")[1] not in drawer(renamed).signature


# What is refused


def name_code(entry):
    def attack(model):
        edit_json(model / "model_index.json", **{entry: ["pipeline", "Own"]})

    attack.__name__ = entry
    return attack


def component_beside_diffusers(model):
    shutil.copy(model / "pipeline.py", model / "unet" / "diffusers.py")


def file_named_none(model):
    shutil.copy(model / "pipeline.py", model / "None.py")


def automatic_class_with_code(model):
    edit_json(model / "model_index.json", tokenizer=["transformers", "AutoTokenizer"])
    auto_map = {"AutoTokenizer": ["pipeline.Own", None]}
    edit_json(model / "tokenizer" / "tokenizer_config.json", auto_map=auto_map)


@pytest.mark.parametrize(
    "attack",
    [
        name_code("_class_name"),
        name_code("unet"),
        component_beside_diffusers,
        file_named_none,
        automatic_class_with_code,
    ],
    ids=lambda attack: attack.__name__,
)
def test_code_of_a_model_is_refused_and_not_run(model, tmp_path, attack):
    flag = tmp_path / "was_run"
    for folder in (model, model / "unet", model / "tokenizer"):
        code = f"from pathlib import Path\nPath({str(flag)!r}).touch()\nclass Own: ...\n"
        (folder / "pipeline.py").write_text(code)
    assert isinstance(drawn(drawer(model), requests("a cat"))[0], bytes)  # no one names the code
    attack(model)
    (error,) = drawn(drawer(model), requests("a cat"))
    assert isinstance(error, DrawerMisconfigured)
    assert not flag.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no `model_index.json`"),
        ("[1]", "no `model_index.json`"),
        ("{", "no `model_index.json`"),
        ('{"_class_name": "StableDiffusionImg2ImgPipeline"}', "StableDiffusionImg2ImgPipeline"),
        ('{"_class_name": "FluxTenPipeline"}', "`FluxTenPipeline` is not a text-to-image"),
    ],
)
def test_a_model_that_draws_nothing_from_texts_is_refused_before_the_run(tmp_path, content, words):
    if content:
        (tmp_path / "model_index.json").write_text(content)
    with pytest.raises(DrawerMisconfigured) as refused:
        drawer(tmp_path).check()
    assert words in str(refused.value)
    assert refused.value.hint


def only_pickles(model):
    weights = model / "unet" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))


def package_is_missing(model):
    scheduler = ["diffusers", "DPMSolverSDEScheduler"]
    edit_json(model / "model_index.json", scheduler=scheduler)


def half_precision(model):
    weights = model / "unet" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".fp16.safetensors"))


@pytest.mark.parametrize(
    ("damage", "words", "variant"),
    [
        (only_pickles, "`unet` has no weights as safetensors", None),
        (half_precision, "`unet` has no weights as safetensors", None),
        (half_precision, "`unet` has no weights as safetensors with `variant=fp8`", "fp8"),
        (lambda _: None, "no such modeling files", "fp16"),
        (package_is_missing, "DPMSolverSDEScheduler requires the torchsde library", None),
    ],
)
def test_files_and_packages_are_checked_before_the_run(model, damage, words, variant):
    damage(model)
    options = {"variant": variant} if variant else {}
    with pytest.raises(DrawerMisconfigured) as refused:
        drawer(model, **options).check()
    assert words in str(refused.value)


def test_a_variant_is_drawn_with_the_other_parts_that_have_none(model):
    half_precision(model)
    edit_json(model / "model_index.json", safety_checker=[None, None])  # whose folder may be there
    (model / "safety_checker").mkdir()
    (model / "safety_checker" / "pytorch_model.bin").write_text("pickle")
    assert isinstance(drawn(drawer(model, variant="fp16"), requests("a"))[0], bytes)


def test_weights_that_cannot_be_loaded_are_the_outcome_of_every_picture(model):
    (model / "unet" / "diffusion_pytorch_model.safetensors").write_bytes(b"cut off")
    first, second = drawn(drawer(model), requests("a", "b"))
    assert isinstance(first, DrawerMisconfigured)
    assert second is first


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("size", size) for size in ("512", "0x64", "500x500", "9999x9984")),
        *(("device", device) for device in ("tpu", "cuda:", "cuda:99")),
        ("revision", "main"),  # of a folder
    ],
)
def test_an_option_that_makes_no_sense_is_refused(tiny, option, value):
    with pytest.raises((DrawerMisconfigured, SettingWrong)) as refused:
        drawer(tiny, **{option: value}).check()
    assert value in str(refused.value)


def test_an_option_that_the_pipeline_does_not_have_is_refused(model):
    drawer(model, negative_prompt="blue").check()
    edit_json(model / "model_index.json", _class_name="LatentConsistencyModelPipeline")
    with pytest.raises(DrawerMisconfigured, match=r"LatentConsistency.* negative_prompt"):
        drawer(model, negative_prompt="blue").check()


def test_a_diffusers_that_may_run_code_of_a_model_or_is_missing_is_refused(tiny, monkeypatch):
    monkeypatch.setattr("mmie_tasks.interleaved.pipeline_files.version", lambda _: "0.37.1")
    with pytest.raises(DrawerMisconfigured, match=r"diffusers 0\.37\.1 may run code"):
        drawer(tiny).check()
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(DrawerMisconfigured, match=r"mmie-tasks\[diffusers\]"):
        drawer(tiny).check()


@pytest.mark.parametrize(
    ("option", "gpus", "rank", "device"),
    [
        pytest.param("none", 0, "1", "cpu", id="no-gpu"),
        pytest.param("none", 3, "0", "cuda:0", id="one-process-takes-the-first"),
        pytest.param("cuda", 2, "1", "cuda:1", id="of-several-each-its-own"),
        pytest.param("none", 1, "1", "cuda:0", id="its-only-visible-one"),
        pytest.param("cuda:1", 2, "0", "cuda:1", id="chosen"),
        pytest.param("cpu", 2, "0", "cpu", id="cpu"),
    ],
)
def test_the_device_of_a_process(tiny, monkeypatch, option, gpus, rank, device):
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    one = drawer(tiny, {"LOCAL_RANK": rank}, device=option, batch_size=1, dtype="float32")
    assert str(one._device) == device


# What goes wrong while drawing


def test_a_picture_that_the_safety_checker_blackens_is_refused(tmp_path):
    model = write_tiny_pipeline(tmp_path / "strict", flags_everything=True)
    outcomes = drawn(drawer(model, batch_size=2), requests("a", "b", "c"))
    assert [type(outcome) for outcome in outcomes] == [DrawerRefused] * 3


@pytest.mark.parametrize(("value", "words"), [(float("nan"), "one colour"), (9.0, "dtype=float32")])
def test_a_decoder_that_overflows_makes_no_picture(model, value, words):
    def overflow(weights):
        weights["decoder.conv_out.weight"].zero_()
        weights["decoder.conv_out.bias"].fill_(value)

    edit_weights(model / "vae" / "diffusion_pytorch_model.safetensors", overflow)
    (outcome,) = drawn(drawer(model), requests("a cat"))
    assert isinstance(outcome, PictureUnusable)
    assert words in str(outcome)


def test_prompts_that_are_cut_are_counted_in_one_line(tiny, logs, caplog):
    drawn(drawer(tiny), requests("x" * (MAX_TOKENS - 2), "x" * (MAX_TOKENS - 1), "short"))
    (line,) = [line for line in logs if line.record["level"].name == "WARNING"]
    assert line.startswith("1 of 3 prompts are longer than the 77 tokens that `tiny` reads")
    # diffusers would repeat the end of every such prompt.
    assert not [record for record in caplog.records if "diffusers" in record.name]


def test_prompts_are_cut_at_the_default_of_the_call(sd3, tmp_path, logs):
    """SD3 reads 256 tokens, whatever its T5 can read; each letter is one."""
    model = Path(shutil.copytree(sd3, tmp_path / "sd3"))
    edit_json(model / "tokenizer_3" / "tokenizer_config.json", model_max_length=512)
    drawn(drawer(model, steps=1), requests("x" * 254, "x" * 255))
    assert any(line.startswith("1 of 2 prompts are longer than the 256 tokens") for line in logs)


def test_a_tokenizer_whose_files_name_no_limit_has_that_of_its_encoder(tiny, model):
    edit_json(model / "tokenizer" / "tokenizer_config.json", model_max_length=10**30)
    assert drawn(drawer(model), requests("x" * 200)) == drawn(drawer(tiny), requests("x" * 200))


def test_weights_that_are_missing_are_the_same_every_time_and_logged(sd3, tmp_path, logs):
    import torch

    model = Path(shutil.copytree(sd3, tmp_path / "sd3"))
    path = model / "text_encoder" / "model.safetensors"
    edit_weights(path, lambda weights: weights.pop("text_projection.weight"))
    first = drawn(drawer(model), requests("a cat"))
    torch.rand(1)
    assert drawn(drawer(model), requests("a cat")) == first
    assert sum("Some weights of `sd3`" in line for line in logs) == 2
    assert drawn(drawer(sd3), requests("a cat")) != first
    assert sum("Some weights of `sd3`" in line for line in logs) == 2


@pytest.fixture
def drawn_with(tiny, monkeypatch):
    """Draws with a pipeline that may fail: `failure` gets the number of the call and its prompts.
    Returns outcomes and the prompts of all calls.
    """
    from diffusers import StableDiffusionPipeline

    calls = []
    draw = StableDiffusionPipeline.__call__

    def draw_with(failure, prompts, **options):
        def call(self, prompt, **arguments):
            calls.append(prompt)
            if error := failure(len(calls), prompt):
                raise error
            return draw(self, prompt=prompt, **arguments)

        checked = drawer(tiny, **options)
        checked.check()  # which looks at the arguments of the true method
        monkeypatch.setattr(StableDiffusionPipeline, "__call__", call)
        return drawn(checked, requests(*prompts)), calls

    return draw_with


def test_a_batch_that_fails_costs_no_other_and_every_batch_has_the_same_shape(drawn_with):
    def fail(_, prompts):
        return ValueError("bad prompt") if "bad" in prompts else None

    outcomes, calls = drawn_with(fail, ["a", "b", "bad", "c", "d"], batch_size=2)
    assert [isinstance(outcome, bytes) for outcome in outcomes] == [True, True, False, False, True]
    assert isinstance(outcomes[2], DrawerUnavailable)
    assert str(outcomes[2]) == "the pipeline failed: bad prompt"
    assert calls == [["a", "b"], ["bad", "c"], ["d", "d"]]


def test_a_first_batch_that_fails_twice_ends_the_drawing(drawn_with):
    outcomes, calls = drawn_with(lambda *_: RuntimeError("no kernel"), "abcdef")
    assert {str(outcome) for outcome in outcomes} == {"the pipeline failed: no kernel"}
    assert len(calls) == 2


def test_a_first_batch_that_fails_once_is_drawn(drawn_with):
    outcomes, _ = drawn_with(lambda call, _: RuntimeError("busy") if call == 1 else None, "ab")
    assert [type(outcome) for outcome in outcomes] == [bytes, bytes]


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        pytest.param({}, DrawerUnavailable, id="no-images"),
        pytest.param({"images": []}, DrawerUnavailable, id="too-few"),
        pytest.param({"images": [LEAF]}, DrawerUnavailable, id="no-picture"),
        pytest.param({"images": [Image.fromarray(LEAF)]}, bytes, id="pil"),
    ],
)
def test_odd_output_of_a_pipeline_is_read_or_an_outcome(tiny, monkeypatch, output, kind):
    from diffusers import StableDiffusionPipeline

    one = drawer(tiny)
    one.check()
    monkeypatch.setattr(
        StableDiffusionPipeline, "__call__", lambda *_, **__: SimpleNamespace(**output)
    )
    (outcome,) = drawn(one, requests("a"))
    assert type(outcome) is kind
    if kind is bytes:
        assert (np.asarray(Image.open(BytesIO(outcome))) == LEAF).all()


def test_a_device_without_memory_draws_nothing_more(drawn_with):
    from torch.cuda import OutOfMemoryError

    outcomes, calls = drawn_with(
        lambda call, _: OutOfMemoryError("12 GiB") if call == 2 else None, "abcdefg", batch_size=2
    )
    assert [isinstance(outcome, bytes) for outcome in outcomes] == [True] * 2 + [False] * 5
    assert all(isinstance(outcome, DrawerUnavailable) for outcome in outcomes[2:])
    assert all("`batch_size=1`" in str(outcome) for outcome in outcomes[2:])
    assert len(calls) == 2


def test_a_pipeline_that_does_not_fit_into_the_memory_is_loaded_once(tiny, monkeypatch):
    from diffusers import StableDiffusionPipeline
    from torch.cuda import OutOfMemoryError

    def load(*_, **__):
        raise OutOfMemoryError

    one = drawer(tiny)
    one.check()
    monkeypatch.setattr(StableDiffusionPipeline, "from_pretrained", load)
    first, second = drawn(one, requests("a", "b"))
    assert type(first) is DrawerUnavailable
    assert second is first


def test_what_a_writer_has_set_for_convolutions_is_undone_while_drawing(drawn_with, monkeypatch):
    from torch.backends import cudnn

    monkeypatch.setattr(cudnn, "benchmark", True)  # the fastest kernel of the moment
    outcomes, _ = drawn_with(lambda *_: RuntimeError("flag") if cudnn.benchmark else None, "a")
    assert isinstance(outcomes[0], bytes)
    assert cudnn.benchmark


def test_closing_early_stops_after_the_batch_in_flight(tiny):
    one = drawer(tiny)
    with quietly(), closing(one.draw(requests(*"abcdefghij"))) as outcomes:
        assert next(outcomes)[0] == 0
    assert next(outcomes, None) is None


def offline():
    error = OSError("the model is not fully cached")  # of diffusers
    error.__cause__ = OfflineModeIsEnabled("HF_HUB_OFFLINE is set")
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(OSError(errno.ENOSPC, "No space"), "free some space", id="full-disk"),
        pytest.param(OSError(errno.EROFS, "Read-only"), "free some space", id="read-only"),
        pytest.param(offline(), "downloads are switched off", id="offline"),
        pytest.param(OSError("no `safetensors` weights"), "choose another model", id="pickles"),
        pytest.param(ValueError("no variant=fp16"), "choose another model", id="variant"),
        pytest.param(KeyError("x"), "cannot be used: 'x'", id="unknown"),
    ],
)
def test_a_failed_download_has_its_own_reason_and_hint(tiny, monkeypatch, error, words):
    def download(*_, **__):
        raise error

    index = str(tiny / "model_index.json")
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *_, **__: index)
    monkeypatch.setattr("diffusers.DiffusionPipeline.download", download)
    with pytest.raises(DrawerMisconfigured) as refused:
        drawer("owner/tiny").check()
    assert words in str(refused.value)
    assert "cannot be reached" not in str(refused.value)


HUB = """
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.interleaved.drawer import PictureRequest
from mmie_tasks.interleaved.registry import open_drawer
answer = []
for model in {models!r}:
    drawer = open_drawer("diffusers:" + model + ",steps=1,device=cpu", {{}})
    try:
        drawer.check()
        drawn = drawer.draw([PictureRequest(prompt="a", seed=1)])
        answer.append([drawer.signature, *(type(outcome).__name__ for _, outcome in drawn)])
    except MmieTasksError as error:
        answer.append(str(error))
"""


def test_a_model_of_the_hub_is_downloaded_by_the_check(tiny, tmp_path):
    with HubServer() as hub:
        for path in tiny.rglob("*.*"):
            name, content = path.relative_to(tiny).as_posix(), path.read_bytes()
            hub.holds("owner/tiny", name, content)
            hub.holds("owner/pickles", name.replace(".safetensors", ".bin"), content)
        hub.holds("owner/tiny", "unet/diffusion_pytorch_model.bin", b"pickle")
        hub.holds("owner/tiny", "pipeline.py", b"raise SystemExit")
        hub.holds("owner/text", "config.json", b"{}")
        models = ["owner/tiny", "owner/none", "owner/tiny,revision=v9", "owner/text"]
        models += ["owner/pickles"]
        (signature, *outcomes), *refused = ask(hub.url, tmp_path, HUB.format(models=models))
        files = hub.downloads()
    assert signature.startswith(f"diffusers,model=owner/tiny@{COMMIT[:12]},")
    assert outcomes == ["Picture"]
    assert not [name for name in files if name.endswith(".bin")]
    words = ["no such model", "no revision `v9`", "no such file", "safetensors"]
    assert [word in message for word, message in zip(words, refused, strict=True)] == [True] * 4
    assert all("hint: " in message for message in refused)
