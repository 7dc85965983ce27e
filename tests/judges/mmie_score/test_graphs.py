"""Steps of decoding with a fixed number of rows. On the CPU all but the capture itself runs."""

from types import SimpleNamespace

import pytest
import torch
from loguru import logger
from support.paged_kernel import paged_kernel
from transformers import Phi3Config, Phi3ForCausalLM

from mmie_tasks.judges.mmie_score.engine.attention import SdpaAttention
from mmie_tasks.judges.mmie_score.engine.flash import FlashAttention
from mmie_tasks.judges.mmie_score.engine.graphs import DecodeGraph, Next, Static, StaticDecoder
from mmie_tasks.judges.mmie_score.engine.model import Row, TextModel, Work
from mmie_tasks.judges.mmie_score.engine.steps import PlainDecoder

CPU = torch.device("cpu")
PAGES, LONG_AFTER = 8, 300


@pytest.fixture
def logged():
    said = []
    handle = logger.add(lambda message: said.append(str(message)), level="WARNING")
    yield said
    logger.remove(handle)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(5)
    config = Phi3Config(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        original_max_position_embeddings=LONG_AFTER,
        pad_token_id=0,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0] * 4,
            "long_factor": [1.0, 2.0, 4.0, 8.0],
            "original_max_position_embeddings": LONG_AFTER,
            "partial_rotary_factor": 1.0,
        },
    )
    whole = Phi3ForCausalLM(config).eval()
    return SimpleNamespace(model=SimpleNamespace(language_model=whole.model), lm_head=whole.lm_head)


def text_model(model):
    text = TextModel(model, pages=PAGES + 1, page_tokens=256)
    random = torch.Generator().manual_seed(6)
    for pages in (text.keys, text.values):
        pages.copy_(torch.randn(pages.shape, generator=random))
    return text


def decoder(text, *, rows=5, longest_tokens=512, capture=None):
    attention = FlashAttention(kernel=paged_kernel)
    return StaticDecoder(text, attention, rows=rows, longest_tokens=longest_tokens, capture=capture)


def row(tokens, pages, last=7):
    work = Work(key=tokens, ids=[3] * tokens)
    return Row(work=work, pages=pages, stored=tokens, output=[last])


def rows():
    """Below the border of the rotary factors, on it, above it, and with pages to spare."""
    return [row(4, [2], 9), row(299, [5, 1]), row(300, [0, 7], 11), row(255, [4, 3, 6])]


def test_a_step_is_that_of_as_many_rows_as_there_are(model):
    text, other = text_model(model), text_model(model)
    expected = PlainDecoder(other, SdpaAttention(page_tokens=256)).step(rows())
    torch.testing.assert_close(decoder(text).step(rows()), expected)
    torch.testing.assert_close(text.keys[:, :PAGES], other.keys[:, :PAGES])
    torch.testing.assert_close(text.values[:, :PAGES], other.values[:, :PAGES])


@pytest.mark.parametrize("index", range(4))
def test_a_row_comes_out_with_the_same_bits_whoever_is_beside_it(model, index):
    together = decoder(text_model(model)).step(rows())
    alone = decoder(text_model(model)).step([rows()[index]])
    assert torch.equal(alone[0], together[index])


def test_rows_that_are_not_there_touch_only_the_page_that_is_nobodys(model):
    text = text_model(model)
    before = text.keys.clone()
    decoder(text).step([row(4, [2])])
    changed = (text.keys != before).flatten(2).any(-1).any(0).nonzero().flatten()
    assert changed.tolist() == [2, PAGES]


def test_a_row_that_has_ended_leaves_nothing_in_the_next_step(model):
    steps = decoder(text_model(model))
    steps.step(rows())
    fresh = Static.empty(rows=5, width=2, page_tokens=256, scratch_page=PAGES, device=CPU)
    steps.graph.static.write([])
    for name in ("longs", "lengths", "table"):
        assert torch.equal(getattr(steps.graph.static, name), getattr(fresh, name))


@pytest.mark.parametrize(
    "given",
    [
        pytest.param([row(4, [0])] * 6, id="too many"),
        pytest.param([row(512, [0, 1, 2])], id="too long"),
    ],
)
def test_what_there_is_no_room_for_raises(model, given):
    with pytest.raises(ValueError, match="not 5 of 2"):
        decoder(text_model(model)).step(given)


def test_the_last_place_of_the_widest_row_has_room(model):
    assert decoder(text_model(model)).step([row(511, [0, 1])]).shape == (1, 50)


def same_place(compute):
    """As a graph: what it gives lies at the same place each time."""
    output = compute().clone()

    def replay():
        return output.copy_(compute())

    return replay


def test_replays_give_what_steps_give_and_keep_it(model):
    plain, replayed = (decoder(text_model(model), capture=each) for each in (None, same_place))
    first, second = rows(), rows()[1:3]
    expected = [plain.step(first), plain.step(second)]
    found = [replayed.step(first), replayed.step(second)]
    assert replayed.graph.captured
    assert not plain.graph.captured
    replayed.step([row(9, [2])])
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def frozen(compute):
    """What a graph does that holds numbers of the step it was made from."""
    output = compute().clone()
    return lambda: torch.flip(output, dims=[0])


def raising(_):
    raise RuntimeError("operation not permitted when stream is capturing\nCUDA kernel errors ...")


def broken(compute):
    return lambda: compute() * float("nan")


@pytest.mark.parametrize(
    ("capture", "words"),
    [
        pytest.param(frozen, "its results differ", id="other results"),
        pytest.param(broken, "by inf of the largest", id="NaN"),
        pytest.param(raising, "capturing failed: operation not permitted", id="no capture"),
    ],
)
def test_where_a_replay_is_not_the_step_it_goes_on_without_and_says_so(
    model, logged, capture, words
):
    plain, other = (decoder(text_model(model), capture=each) for each in (None, capture))
    for given in (rows(), rows()[:2]):
        assert torch.equal(other.step(given), plain.step(given))
    assert not other.graph.captured
    assert len(logged) == 1
    assert words in logged[0]


def test_capturing_is_tried_once():
    tried = []

    def capture(compute):
        tried.append(compute)
        return raising(compute)

    static = Static.empty(rows=2, width=1, page_tokens=4, scratch_page=3, device=CPU)
    graph = DecodeGraph(lambda static: static.ids.double(), static, capture=capture)
    told = Next(token=5, position=2, is_long=False, slot=6, pages=[1])
    assert [graph.run([told]).tolist() for _ in range(3)] == [[5.0]] * 3
    assert len(tried) == 1


def test_memory_that_runs_out_in_the_step_itself_is_the_callers_business():
    def step(_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    static = Static.empty(rows=2, width=1, page_tokens=4, scratch_page=3, device=CPU)
    graph = DecodeGraph(step, static, capture=same_place)
    with pytest.raises(torch.OutOfMemoryError):
        graph.run([Next(token=5, position=2, is_long=False, slot=6, pages=[1])])
