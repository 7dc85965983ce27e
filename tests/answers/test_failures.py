"""Texts by which clients, servers and other runners say that there is no answer."""

import pytest

from mmie_tasks.answers.failures import failure_of, null_failure

FAILURES = [
    "Failed to obtain answer via API.",
    "litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached",
    "litellm.Timeout: Connection timed out",
    "Error code: 429 - {'error': {'message': 'Rate limit reached'}}",
    "Error: Error code: 400 - {'error': {'code': 'content_filter'}}",
    "Error calling the API: Error code: 401 - {}",
    "openai.RateLimitError: Error code: 429",
    "RateLimitError('Error code: 429 - x')",
    "google.api_core.exceptions.ResourceExhausted: 429 Resource has been exhausted",
    "429 RESOURCE_EXHAUSTED. {'error': {'code': 429}}",
    "503 UNAVAILABLE. {'error': {'code': 503}}",
    "botocore.exceptions.ClientError: An error occurred",
    "An error occurred (ThrottlingException) when calling the Converse operation",
    "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='a')",
    "HTTPSConnectionPool(host='a', port=443): Max retries exceeded with url: /v1",
    "('Connection aborted.', RemoteDisconnected('Remote end closed connection'))",
    "[Errno 111] Connection refused",
    "httpx.ReadTimeout: The read operation timed out",
    "RetryError[<Future at 0x7f state=finished raised APIError>]",
    "429 Client Error: Too Many Requests for url: https://a",
    "Client error '429 Too Many Requests' for url 'https://a'",
    "HTTP Error 503: Service Unavailable",
    "Request failed with status code 500",
    "Request timed out.",
    "Connection error.",
    "CUDA out of memory. Tried to allocate 2.00 GiB",
    "torch.OutOfMemoryError: CUDA out of memory.",
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "RemoteProtocolError: Server disconnected without sending a response.",
    '{"error": "quota exceeded"}',
    "CUDA error: device-side assert triggered",
    "Output data may contain inappropriate content.",
    "Input text data may contain inappropriate content.",
    "Output blocked by content filtering policy",
    "The response was filtered due to the prompt triggering a content management policy.",
    "**NETWORK ERROR DUE TO HIGH TRAFFIC. PLEASE REGENERATE OR REFRESH THIS PAGE.**",
    "YOUR INPUT VIOLATES OUR CONTENT MODERATION GUIDELINES. PLEASE TRY AGAIN.",
    "$ERROR$",
    "[FAILED_INFER] x",
    "Agent stopped due to iteration limit or time limit.",
    "502 Bad Gateway",
    "Internal Server Error",
    "upstream connect error or disconnect/reset before headers",
    "error code: 1015",
    "<html>\n<head><title>502 Bad Gateway</title></head>\n<body></body></html>",
    '<!DOCTYPE html><html lang="en"><head><title>a.org | 524: A timeout occurred</title>',
    '{"error": {"message": "Overloaded", "type": "overloaded_error"}}',
    '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    '{"object":"error","message":"x"}',
    '{"detail":"Not Found"}',
    'Traceback (most recent call last):\n  File "a.py", line 1\nopenai.APITimeoutError: x',
]
ANSWERS = [
    "The error is ValueError: invalid literal.",
    "ValueError: invalid literal for int() is shown on the screen.",
    "Error code E4 means that the filter is dirty.",
    "Errors in the picture: the cat has five legs.",
    "Error: the man is holding the wrong tool.",
    "Connection errors are shown in red.",
    "<!DOCTYPE html><html><head><title>My page</title></head></html>",
    '{"error": null, "answer": "B"}',
    '{"answer": "error"}',
    "Failed to open the door.",
    "404",
    "HTTP 404 is a status code.",
    "500 client files",
    "client: John",
    "numpy.ndarray: the type of an array",
    "Request timed out is the message on the screen.",
    "Internal Server Error is displayed.",
    'The log says "Failed to obtain answer via API."',
    'Traceback (most recent call last):\n  File "a.py", line 1\nZeroDivisionError: x',
]


@pytest.mark.parametrize("text", FAILURES)
def test_a_failure_of_another_runner_or_server_is_no_answer(text: str) -> None:
    assert failure_of(text)
    assert failure_of(f" \n{text}\n")


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_that_speaks_of_errors_stays_one(text: str) -> None:
    assert failure_of(text) is None


@pytest.mark.parametrize("text", ["nan", "NaN", "None", "<NA>", "null", " nan\n", "ERROR"])
def test_what_a_program_prints_of_a_missing_value_is_no_answer(text: str) -> None:
    assert null_failure(text, ["a cat", None])


@pytest.mark.parametrize(
    ("text", "sample_texts"),
    [
        pytest.param("None", ["None"], id="the gold answer"),
        pytest.param("None", ["a cat", "None of these"], id="part of an option"),
        pytest.param("nan", ["Nan is my grandmother"], id="in other letters"),
        pytest.param("none", ["a cat"], id="a word in small letters"),
        pytest.param("None.", ["a cat"], id="a sentence"),
        pytest.param("None of them", ["a cat"], id="more than that"),
    ],
)
def test_a_word_that_may_be_the_answer_is_one(text: str, sample_texts: list[str]) -> None:
    assert null_failure(text, sample_texts) is None
