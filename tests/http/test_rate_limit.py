"""The waits that servers demand in their headers."""

from datetime import datetime, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.http.rate_limit import duration_s, local_time, quota_reset_s, retry_after_s

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
NOW_S = int(NOW.timestamp())


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"retry-after": "1.5"}, 1.5, id="seconds"),
        pytest.param({"retry-after-ms": "250", "retry-after": "1"}, 0.25, id="milliseconds-first"),
        pytest.param({"retry-after": format_datetime(NOW.replace(minute=2))}, 120.0, id="date"),
        pytest.param({"retry-after": format_datetime(NOW.replace(hour=2))}, None, id="past"),
        pytest.param({"retry-after": f"{NOW_S + 20}"}, 20.0, id="unix-time"),
        pytest.param({"retry-after": f"{NOW_S + 20}000"}, 20.0, id="unix-time-in-milliseconds"),
        pytest.param({"retry-after": f"{NOW_S - 20}"}, None, id="past-unix-time"),
        pytest.param({"retry-after-ms": "2000000"}, 2000.0, id="milliseconds-are-no-unix-time"),
        pytest.param({"retry-after": "-3"}, None, id="negative"),
        pytest.param({"retry-after": "inf"}, None, id="inf"),
    ],
)
def test_a_retry_after_is_read_in_every_form(headers, seconds):
    assert retry_after_s(headers, NOW.timestamp()) == seconds


@given(st.text())
def test_any_header_is_read_or_ignored(text):
    headers = {"retry-after": text, "retry-after-ms": text}
    assert (retry_after_s(headers, 0.0) or 0) >= 0
    assert (duration_s(text, 0.0) or 0) >= 0


@pytest.mark.parametrize(
    ("wait_s", "text"),
    [
        pytest.param(3600.0, "13:00", id="today"),
        pytest.param(86400.0, "2026-11-22 12:00", id="tomorrow"),
        pytest.param(1e300, "after the year 9999", id="never"),
    ],
)
def test_a_time_in_a_message_is_local_and_has_a_date_on_another_day(monkeypatch, wait_s, text):
    class Calendar(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2026, 11, 21, 12, 0).astimezone(tz)

    monkeypatch.setattr("mmie_tasks.http.rate_limit.datetime", Calendar)
    assert local_time(wait_s) == text


def exhausted(reset):
    return {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": reset}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="none"),
        pytest.param(
            {**exhausted("1s"), "x-ratelimit-remaining-requests": "1"}, None, id="one-remains"
        ),
        pytest.param(exhausted("1m30.5s"), 90.5, id="requests"),
        pytest.param(
            {
                **exhausted("120ms"),
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "2s",
            },
            2.0,
            id="the-longer",
        ),
        pytest.param({"x-ratelimit-remaining-tokens": "0"}, None, id="no-reset"),
        pytest.param(exhausted(f"{NOW_S + 7}"), 7.0, id="unix-time"),
        pytest.param(exhausted(f"{NOW_S + 7}250"), 7.25, id="unix-time-in-milliseconds"),
    ],
)
def test_the_remaining_quota_is_read(headers, seconds):
    assert quota_reset_s(headers, NOW.timestamp()) == seconds
