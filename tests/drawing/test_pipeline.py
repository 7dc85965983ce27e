"""Images of diffusers' pipelines: what is refused, the same bytes every time, failures."""

import json
import shutil
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image
from support.tiny_pipeline import quietly, write_tiny_pipeline

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.drawing.drawer import ImageRequest, NotDrawn
from mmie_tasks.drawing.registry import open_drawer


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_tiny_pipeline(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def model(tiny, tmp_path):
    """A copy that a test may change."""
    return Path(shutil.copytree(tiny, tmp_path / "tiny"))


def drawer(model, environment=None, **options):
    pairs = {"model": model, "steps": 2, "device": "cpu", **options}
    text = ",".join(f"{key}={value}" for key, value in pairs.items())
    return open_drawer(f"diffusers:{text}", environment or {})


def requests(*prompts):
    """Each prompt with its place as seed."""
    return [ImageRequest(prompt=prompt, seed=seed) for seed, prompt in enumerate(prompts)]


def drawn(drawer, wanted):
    """Outcomes in the order of the requests."""
    with quietly():
        outcomes = dict(drawer.draw(wanted))
    return [outcomes[index] for index in range(len(wanted))]


def edit_json(path, **entries):
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def test_an_image_is_a_png_that_depends_on_prompt_seed_and_options(tiny):
    wanted = [ImageRequest(prompt="a cat", seed=seed) for seed in (1, 2)]
    wanted += requests("a dog", "a \ud83d cat")  # half a character
    images = drawn(drawer(tiny), wanted)
    images += drawn(drawer(tiny, guidance=2.0), wanted[:1])
    images += drawn(drawer(tiny, negative_prompt="blue"), wanted[:1])
    assert len({*images}) == 6
    image = Image.open(BytesIO(images[0]))
    assert (image.format, image.size) == ("PNG", (32, 32))
    (wide,) = drawn(drawer(tiny, size="64x32", max_side_px=48), wanted[:1])
    assert Image.open(BytesIO(wide)).size == (48, 24)


def test_an_image_does_not_depend_on_its_neighbours_or_place(tiny):
    wanted = requests("a cat", "a red house with many windows", "", "dog", "snow")
    one = drawer(tiny, batch_size=2)
    whole = drawn(one, wanted)
    assert len({*whole}) == 5
    assert drawn(one, wanted[::-1]) == whole[::-1]
    one.close()
    rest = [wanted[4], wanted[1], wanted[3]]  # of a killed run
    assert drawn(one, rest) == [whole[4], whole[1], whole[3]]


def test_the_signature_of_a_folder_follows_its_files_and_has_no_path(model):
    signature = drawer(model, size="64x32").signature
    name, first, *rest = signature.split(",")
    assert (name, first.partition("@")[0]) == ("diffusers", "model=tiny")
    assert rest[:3] == ["size=64x32", "max_side_px=512", "steps=2"]
    assert rest[3:6] == ["batch_size=4", "dtype=float32", "device=cpu"]
    (model / "README.md").write_text("not loaded")
    assert drawer(model, size="64x32").signature == signature
    edit_json(model / "scheduler" / "scheduler_config.json", changed=1)
    assert drawer(model, size="64x32").signature != signature


def refused(model):
    with pytest.raises(SettingWrong, match="tiny` cannot be used"):
        drawn(drawer(model), requests("a cat"))


@pytest.mark.parametrize(
    "index",
    [
        pytest.param({"_class_name": ["pipeline", "Own"]}, id="pipeline"),
        pytest.param({"unet": ["pipeline", "Own"]}, id="part"),
        pytest.param({"tokenizer": ["transformers", "AutoTokenizer"]}, id="automatic-class"),
    ],
)
def test_code_of_a_model_is_refused_and_not_run(model, tmp_path, index):
    flag = tmp_path / "was_run"
    for folder in (model, model / "unet", model / "tokenizer"):
        code = f"from pathlib import Path\nPath({str(flag)!r}).touch()\nclass Own: ...\n"
        (folder / "pipeline.py").write_text(code)
    auto_map = {"AutoTokenizer": ["pipeline.Own", None]}
    edit_json(model / "tokenizer" / "tokenizer_config.json", auto_map=auto_map)
    edit_json(model / "model_index.json", **index)
    refused(model)
    assert not flag.exists()


def test_a_pipeline_that_cannot_be_loaded_ends_the_run(model):
    weights = model / "unet" / "diffusion_pytorch_model.safetensors"
    whole = weights.rename(weights.with_suffix(".bin"))  # a pickle, by its name
    refused(model)
    weights.write_bytes(b"cut off")
    refused(model)
    whole.rename(weights)
    edit_json(model / "model_index.json", _class_name="StableDiffusionUpscalePipeline")
    refused(model)


def test_what_is_missing_is_found_before_the_run(model, monkeypatch):
    drawer(model).check()
    (model / "model_index.json").unlink()
    with pytest.raises(SettingWrong, match=r"no `model_index\.json`"):
        drawer(model).check()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(SettingWrong, match="`not/here` cannot be used"):
        drawer("not/here").check()
    monkeypatch.setattr("mmie_tasks.drawing.pipeline.version", lambda _: "0.37.1")
    with pytest.raises(SettingWrong, match=r"diffusers 0\.37\.1 may run code"):
        drawer(model).check()


@pytest.mark.parametrize(
    ("option", "gpus", "rank", "device"),
    [
        pytest.param("none", 0, "1", "cpu", id="no-gpu"),
        pytest.param("none", 2, "1", "cuda:1", id="of-several-each-its-own"),
        pytest.param("none", 1, "1", "cuda:0", id="its-only-visible-one"),
        pytest.param("cpu", 2, "0", "cpu", id="chosen"),
    ],
)
def test_the_device_of_a_process(tiny, monkeypatch, option, gpus, rank, device):
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    assert drawer(tiny, {"LOCAL_RANK": rank}, device=option)._device == device


def test_an_image_that_the_safety_checker_blackens_is_refused(tmp_path):
    model = write_tiny_pipeline(tmp_path / "strict", flags_everything=True)
    outcomes = drawn(drawer(model, batch_size=2), requests("a", "b", "c"))
    assert [outcome.reason for outcome in outcomes] == ["refused"] * 3


@contextmanager
def changed_weights(folder):
    from safetensors.torch import load_file, save_file

    (path,) = folder.glob("*.safetensors")
    weights = load_file(path)
    yield weights
    save_file(weights, path, metadata={"format": "pt"})


def test_a_decoder_that_overflows_makes_no_image(model):
    with changed_weights(model / "vae") as weights:
        weights["decoder.conv_out.weight"].zero_()
        weights["decoder.conv_out.bias"].fill_(float("nan"))
    (outcome,) = drawn(drawer(model), requests("a cat"))
    assert outcome == NotDrawn("unusable", "all its pixels have one colour")


def test_a_batch_that_fails_costs_no_other_and_all_have_one_shape(tiny, monkeypatch):
    from diffusers import StableDiffusionPipeline

    draw, batches = StableDiffusionPipeline.__call__, []

    def call(self, prompt, **arguments):
        batches.append((prompt, len(arguments["generator"])))
        if "bad" in prompt:
            raise ValueError("bad prompt")
        return SimpleNamespace(images=draw(self, prompt=prompt, **arguments).images)  # no flags

    monkeypatch.setattr(StableDiffusionPipeline, "__call__", call)
    outcomes = drawn(drawer(tiny, batch_size=2), requests("a", "bad", "b"))
    assert outcomes[:2] == [NotDrawn("unavailable", "the pipeline failed: bad prompt")] * 2
    assert isinstance(outcomes[2], bytes)
    assert batches == [(["a", "bad"], 2), (["b", "b"], 2)]


@pytest.mark.filterwarnings("ignore")
def test_weights_that_are_missing_are_warned_of_or_end_the_run(model, caplog):
    with changed_weights(model / "text_encoder") as weights:
        lost = min(weights)
        del weights[lost]
    dict(drawer(model).draw(requests("a cat")))
    assert lost.removeprefix("text_model.") in caplog.text
    with changed_weights(model / "unet") as weights:
        del weights[min(weights)]
    refused(model)
