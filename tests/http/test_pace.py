from datetime import datetime, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.http.rate_limit import Pace, duration_s, quota_reset_s, retry_after_s

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_a_wait_is_never_longer_than_the_cap(tries, fraction):
    assert 0 <= Pace(fraction=lambda: fraction).wait_s(tries) <= 30


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"retry-after": "1.5"}, 1.5, id="seconds"),
        pytest.param({"retry-after-ms": "250", "retry-after": "1"}, 0.25, id="milliseconds-first"),
        pytest.param({"retry-after": format_datetime(NOW.replace(minute=2))}, 120.0, id="date"),
        pytest.param({"retry-after": format_datetime(NOW.replace(hour=2))}, 0.0, id="past"),
        pytest.param({"retry-after": "soon"}, None, id="word"),
        pytest.param({"retry-after": "-3"}, None, id="negative"),
        pytest.param({"retry-after": "nan"}, None, id="nan"),
        pytest.param({"retry-after": "inf"}, None, id="inf"),
        pytest.param({"retry-after": ""}, None, id="empty"),
    ],
)
def test_a_retry_after_is_read_in_every_form(headers, seconds):
    assert retry_after_s(headers, NOW.timestamp()) == seconds


@given(st.text())
def test_any_header_is_read_or_ignored(text):
    headers = {"retry-after": text, "retry-after-ms": text}
    assert (retry_after_s(headers, 0.0) or 0) >= 0
    assert (duration_s(text) or 0) >= 0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="none"),
        pytest.param(
            {"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "1s"},
            None,
            id="one-remains",
        ),
        pytest.param(
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30.5s"},
            90.5,
            id="requests",
        ),
        pytest.param(
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "120ms",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "2s",
            },
            2.0,
            id="the-longer",
        ),
        pytest.param({"x-ratelimit-remaining-tokens": "0"}, None, id="no-reset"),
    ],
)
def test_what_remains_is_read(headers, seconds):
    assert quota_reset_s(headers) == seconds
