"""Decoding steps with a fixed number of rows. On a CPU everything runs but the capture itself."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch
from loguru import logger
from support.mmie_engine import CPU, digit_logprobs
from support.paged_kernel import paged_kernel
from support.transformers_5 import needs_transformers_5
from transformers import Phi3Config, Phi3ForCausalLM

from mmie_tasks.judges.mmie_score.engine.attention import PagedAttention, SdpaAttention
from mmie_tasks.judges.mmie_score.engine.decoding import DigitRecorder, StaticDecoder, cuda_capture
from mmie_tasks.judges.mmie_score.engine.model import FlatSteps, TextModel
from mmie_tasks.judges.mmie_score.engine.schedule import LiveRow
from mmie_tasks.judges.mmie_score.generation import JudgePrompt

pytestmark = needs_transformers_5

PAGES, LONG_AFTER = 8, 300


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_log_probabilities_of_digits_are_computed_in_fp32_and_rounded(dtype):
    logits = (torch.randn(3, 50, generator=torch.Generator().manual_seed(1)) * 5).to(dtype)
    before, tokens = logits.clone(), [7, 40, 45]
    rows = [
        LiveRow(prompt=JudgePrompt(key=key, ids=[1]), pages=[], output=[0] * key)
        for key in range(3)
    ]
    digit_ids = [*([digit, digit + 40] for digit in range(9)), [9]]
    DigitRecorder(digit_ids, CPU).record(rows, logits, tokens)
    expected = [[round(value, 4) for value in digit_logprobs(row, digit_ids)] for row in logits]
    assert [list(row.digits) for row in rows] == [[0], [1], [2]]
    for row, logprobs in zip(rows, expected, strict=True):
        [recorded] = row.digits.values()
        assert recorded == pytest.approx(logprobs, abs=1.01e-4, rel=0)
        assert all(value == round(value, 4) for value in recorded)
    assert torch.equal(logits, before)


def test_nothing_is_recorded_where_no_digit_is_generated_and_a_certain_digit_has_no_negative_zero():
    logits = torch.zeros(2, 50)
    logits[1, 4] = 15
    rows = [LiveRow(prompt=JudgePrompt(key=key, ids=[1]), pages=[]) for key in range(2)]
    DigitRecorder([[digit] for digit in range(10)], CPU).record(rows, logits, [20, 4])
    assert rows[0].digits == {}
    assert str(rows[1].digits[0][4]) == "0.0"


@pytest.fixture
def logged():
    messages = []
    handle = logger.add(lambda message: messages.append(str(message)), level="WARNING")
    yield messages
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


def decoder(text, *, rows=5, max_tokens=512, capture=None):
    attention = PagedAttention(kernel=paged_kernel)
    return StaticDecoder(text, attention, rows=rows, max_tokens=max_tokens, capture=capture)


def row(tokens, pages, last=7):
    prompt = JudgePrompt(key=tokens, ids=[3] * tokens)
    return LiveRow(prompt=prompt, pages=pages, stored=tokens, output=[last]).last_token()


def rows():
    """Below the limit of the short rotary factors, on it, above it, and with spare pages."""
    return [row(4, [2], 9), row(299, [5, 1]), row(300, [0, 7], 11), row(255, [4, 3, 6])]


def test_a_fixed_step_equals_a_step_of_the_present_rows(model):
    text, other = text_model(model), text_model(model)
    expected = FlatSteps(other, SdpaAttention(page_tokens=256), image_token_id=-1).step(rows())
    torch.testing.assert_close(decoder(text).step(rows()), expected)
    torch.testing.assert_close(text.keys[:, :PAGES], other.keys[:, :PAGES])
    torch.testing.assert_close(text.values[:, :PAGES], other.values[:, :PAGES])


@pytest.mark.parametrize("index", range(4))
def test_a_row_has_the_same_bits_alone_and_among_others(model, index):
    together = decoder(text_model(model)).step(rows())
    alone = decoder(text_model(model)).step([rows()[index]])
    assert torch.equal(alone[0], together[index])


def test_absent_rows_write_only_to_the_scratch_page(model):
    text = text_model(model)
    before = text.keys.clone()
    decoder(text).step([row(4, [2])])
    changed = (text.keys != before).flatten(2).any(-1).any(0).nonzero().flatten()
    assert changed.tolist() == [2, PAGES]


def test_an_ended_row_leaves_nothing_in_the_next_step(model):
    steps = decoder(text_model(model))
    fresh = decoder(text_model(model))
    steps.step(rows())
    for either in (steps, fresh):
        either.write(rows()[:1])
    for name in ("longs", "lengths", "table"):
        assert torch.equal(getattr(steps, name), getattr(fresh, name))


@pytest.mark.parametrize(
    "too_large",
    [
        pytest.param([row(4, [0])] * 6, id="too many"),
        pytest.param([row(512, [0, 1, 2])], id="too long"),
    ],
)
def test_more_rows_or_longer_rows_than_planned_raise(model, too_large):
    with pytest.raises(ValueError, match="could not broadcast"):
        decoder(text_model(model)).step(too_large)


def fixed_output(compute):
    """Like a graph: the output is at the same address every time."""
    output = compute().clone()

    def replay():
        return output.copy_(compute())

    return replay


def test_replays_equal_steps_and_their_results_are_not_overwritten(model):
    plain, replayed = (
        decoder(text_model(model), capture=capture) for capture in (None, fixed_output)
    )
    first, second = rows(), rows()[1:3]
    expected = [plain.step(first), plain.step(second)]
    results = [replayed.step(first), replayed.step(second)]
    assert replayed.captured
    assert not plain.captured
    replayed.step([row(9, [2])])
    assert all(torch.equal(*pair) for pair in zip(results, expected, strict=True))


def frozen(compute):
    """Like a graph that has kept numbers of the captured step."""
    output = compute().clone()
    return lambda: torch.flip(output, dims=[0])


def raising(_):
    raise RuntimeError("operation not permitted when stream is capturing\nCUDA kernel errors ...")


def broken(compute):
    return lambda: compute() * float("nan")


class FakeCuda:
    """Torch's functions for captures, on a CPU, as in torch before 2.13.

    A capture that raises neither restores the stream nor ends the allocation to its pool.
    """

    def __init__(self, monkeypatch, *, fails_at=None):
        self.stream, self.pools, self.fails_at, self.captures = "usual", [], fails_at, 0
        for name, replacement in {
            "device": lambda _: nullcontext(),
            "current_stream": lambda: SimpleNamespace(name=self.stream, wait_stream=lambda _: None),
            "set_stream": lambda stream: setattr(self, "stream", stream.name),
            "Stream": lambda: SimpleNamespace(
                name="private", device_index=0, wait_stream=lambda _: None
            ),
            "stream": lambda _: nullcontext(),
            "graph_pool_handle": lambda: (0, 7),
            "CUDAGraph": lambda: SimpleNamespace(replay=lambda: None),
            "graph": self.graph,
        }.items():
            monkeypatch.setattr(torch.cuda, name, replacement)
        monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", self.end, raising=False)

    @contextmanager
    def graph(self, _, pool, stream, *, capture_error_mode):
        assert capture_error_mode == "thread_local"
        self.captures += 1
        self.stream = stream.name
        self.pools.append(pool)
        if self.fails_at == "begin":
            self.pools.clear()
            raise RuntimeError("operation not permitted")
        yield
        if self.fails_at == "end":
            raise RuntimeError("CUDA error: operation failed due to a previous error\nmore")
        self.pools.remove(pool)
        self.stream = "usual"

    def end(self, _, pool):
        if pool not in self.pools:
            raise RuntimeError("not being captured")
        self.pools.remove(pool)


@pytest.mark.parametrize("fails_at", ["begin", "compute", "end"])
def test_a_capture_that_fails_inside_leaves_stream_and_memory_as_before(
    model, logged, monkeypatch, fails_at
):
    cuda = FakeCuda(monkeypatch, fails_at=fails_at)
    plain = decoder(text_model(model))
    steps = decoder(text_model(model), capture=cuda_capture(CPU))
    compute = steps.compute

    def read_back():
        if cuda.stream == "private" and fails_at == "compute":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return compute()

    steps.compute = read_back
    for batch in (rows(), rows()[:2]):
        assert torch.equal(steps.step(batch), plain.step(batch))
    assert (cuda.stream, cuda.pools, cuda.captures) == ("usual", [], 1)
    assert not steps.captured
    [message] = logged
    assert "without a CUDA graph" in message


def test_a_capture_that_succeeds_restores_the_stream(monkeypatch):
    cuda = FakeCuda(monkeypatch)
    replay = cuda_capture(CPU)(lambda: torch.ones(2))
    assert torch.equal(replay(), torch.ones(2))
    assert (cuda.stream, cuda.pools) == ("usual", [])


@pytest.mark.parametrize(
    ("capture", "words"),
    [
        pytest.param(frozen, "its results are not", id="other results"),
        pytest.param(broken, "its results are not", id="NaN"),
        pytest.param(raising, "capturing failed: operation not permitted", id="no capture"),
    ],
)
def test_a_replay_that_differs_is_not_used_and_the_log_says_why(model, logged, capture, words):
    plain, other = (decoder(text_model(model), capture=option) for option in (None, capture))
    for batch in (rows(), rows()[:2]):
        assert torch.equal(other.step(batch), plain.step(batch))
    assert not other.captured
    assert len(logged) == 1
    assert words in logged[0]


def test_capture_is_tried_once(model):
    attempts = []

    def capture(compute):
        attempts.append(compute)
        return raising(compute)

    steps = decoder(text_model(model), capture=capture)
    steps.compute = lambda: steps.longs[0].double()
    assert [steps.step([row(2, [1], last=5)]).tolist() for _ in range(3)] == [[5.0]] * 3
    assert len(attempts) == 1


def test_running_out_of_memory_in_the_step_itself_is_raised(model):
    def compute():
        raise torch.OutOfMemoryError("CUDA out of memory")

    steps = decoder(text_model(model), capture=fixed_output)
    steps.compute = compute
    with pytest.raises(torch.OutOfMemoryError):
        steps.step([row(2, [1], last=5)])
