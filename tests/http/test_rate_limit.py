"""The waits that servers demand in headers, fields and words."""

import json
import time
from datetime import datetime, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.http.rate_limit import (
    demand_text,
    duration_s,
    local_time,
    quota_reset_s,
    retry_after_s,
    wait_in_body_s,
)

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
        pytest.param({"retry-after": "20s"}, 20.0, id="with-a-unit"),
        pytest.param({"retry-after": "2026-11-21T12:00:30.5Z"}, 30.0, id="iso-date"),
        pytest.param({"retry-after": "2026-11-21T13:00:30+01:00"}, 30.0, id="iso-date-with-zone"),
    ],
)
def test_a_retry_after_is_read_in_every_form(headers, seconds):
    assert retry_after_s(headers, NOW.timestamp()) == seconds


@given(st.text())
def test_any_header_is_read_or_ignored(text):
    headers = {"retry-after": text, "retry-after-ms": text}
    assert (retry_after_s(headers, 0.0) or 0) >= 0
    assert (duration_s(text, 0.0) or 0) >= 0
    assert (wait_in_body_s(f"Try again in {text}".encode(errors="replace"), 0.0) or 0) >= 0


DETAILS = [
    {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaValue": "20"}]},
    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"},
]
GEMINI = [{"error": {"code": 429, "message": "Quota. Please retry in 36.9s.", "details": DETAILS}}]
QUOTED = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{NOW_S + 90}000"}
OPENROUTER = {"error": {"message": "free-models-per-day", "metadata": {"headers": QUOTED}}}


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        pytest.param(GEMINI, 37.0, id="retry-delay"),
        pytest.param({"error": {"message": json.dumps(GEMINI)}}, 37.0, id="retry-delay-quoted"),
        pytest.param(OPENROUTER, 90.0, id="quoted-headers"),
        pytest.param({"message": "Slow down.", "retry_after": 1.5}, 1.5, id="retry-after"),
        pytest.param({"error": {"retry_after_ms": 250}}, 0.25, id="retry-after-ms"),
        pytest.param({"retryAfterSeconds": 9}, 9.0, id="camel-case"),
        pytest.param("Please try again in 6m0s. Visit x", 360.0, id="openai"),
        pytest.param("Please try again in 120ms.", 0.12, id="milliseconds"),
        pytest.param("Please try again in 2m59.56s.", 179.56, id="groq"),
        pytest.param({"error": {"message": "Quota.\ntry again in 5s"}}, 5.0, id="new-line"),
        pytest.param("Please retry in 16h59m40s.", 61180.0, id="hours"),
        pytest.param("Please retry after 6 seconds.", 6.0, id="azure"),
        pytest.param("Rate limit is exceeded. Try again in 20 seconds.", 20.0, id="gateway"),
        pytest.param("Quota will be replenished in 04:12:33.", 15153.0, id="clock"),
        pytest.param("Quota will be replenished in 2.5 days.", 216000.0, id="days"),
        pytest.param("Please wait 33333 seconds before retrying.", 33333.0, id="wait"),
        pytest.param("Slow down, wait 30s", 30.0, id="wait-without-please"),
        pytest.param({"message": "Retry after 10."}, 10.0, id="no-unit"),
        pytest.param("Available in 5 regions; retry in 2 regions.", None, id="no-time"),
        pytest.param("Your quota will reset after 21h9m20s.", 76160.0, id="reset"),
        pytest.param("Limit resets at: 2026-11-21 12:10:00 UTC", 600.0, id="moment"),
        pytest.param("try again in 1 hour, 2 minutes and 3 seconds", 3723.0, id="spelled"),
        pytest.param("Try again in about an hour.", 3600.0, id="an-hour"),
        pytest.param("Please try again later.", None, id="later"),
        pytest.param("We retry 3 times; 5 minutes of patience", None, id="other-numbers"),
        pytest.param("Limit 30000 per 60 s, used 29000", None, id="the-limit-itself"),
        pytest.param("Limit resets at: 2026-11-21 11:00:00 UTC", None, id="past"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_wait_is_read_in_a_body(body, seconds):
    sent = body if isinstance(body, str) else json.dumps(body)
    assert wait_in_body_s(sent.encode(), NOW.timestamp()) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["retry ", "retry in 1s", "x-ratelimit-", "retry in " + "1" * 99, "1", "\\", "a "]
)
def test_a_hostile_body_costs_little_time(text):
    begun = time.process_time()
    wait_in_body_s(text.encode() * 10**6, 0.0)
    assert time.process_time() - begun < 10


def test_a_demand_names_time_and_length_and_what_it_is_longer_than():
    text = demand_text(22320.0, 900.0)
    assert "UTC (6 h 12 min), longer than `patience=900`" in text.replace(time.tzname[0], "UTC")
    assert "longer" not in demand_text(40.0, 900.0)
    assert "(40 s)" in demand_text(40.0, 900.0)
    assert "(15 min)" in demand_text(900.0, 900.0)
    assert "(3 days)" in demand_text(3 * 86400.0, 900.0)


@pytest.mark.parametrize(
    ("wait_s", "text"),
    [
        pytest.param(3600.0, f"13:00 {time.tzname[0]}", id="today"),
        pytest.param(86400.0, f"2026-11-22 12:00 {time.tzname[0]}", id="tomorrow"),
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
        pytest.param(
            {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW_S + 7}000"}, 7.0, id="one"
        ),
        pytest.param(
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-11-21T12:01:00Z",
                "anthropic-ratelimit-requests-remaining": "49",
                "anthropic-ratelimit-requests-reset": "2026-11-21T18:00:00Z",
            },
            60.0,
            id="anthropic",
        ),
        pytest.param(exhausted(f"{NOW_S + 7}"), 7.0, id="unix-time"),
        pytest.param(exhausted(f"{NOW_S + 7}250"), 7.25, id="unix-time-in-milliseconds"),
    ],
)
def test_the_remaining_quota_is_read(headers, seconds):
    assert quota_reset_s(headers, NOW.timestamp()) == seconds
