"""The judge's instructions: MMIE's own, or, where asked for by name, others.

Our files hold none of them. The official file is read as data, with `ast`, and never run; what is
read is compared with the hashes below.
"""

from __future__ import annotations

import ast
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from loguru import logger

from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.core.files import atomic_write
from mmie_tasks.core.paths import cache_dir

if TYPE_CHECKING:
    import httpx


# The official file with MMIE's judge prompts, byte for byte: local, kept, or fetched once.
#
# Whatever the way, the bytes are held to a size and a SHA-256 that are written here; nothing else is
# ever given. Below `mmie_tasks.core.paths.cache_dir` there is ``mmie/prompts-eb0fd6e.py``, which is data:
# nobody runs it.

COMMIT = "eb0fd6ecf14576760b5c3deb95c47579cf0cc36e"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What a file must be, and where it is to be had."""

    url: str
    size_bytes: int
    sha256: str

    def holds(self, content: bytes) -> bool:
        """Whether these are its bytes."""
        return hashlib.sha256(content).hexdigest() == self.sha256


OFFICIAL = Pin(
    url=f"https://raw.githubusercontent.com/Lillianwei-h/MMIE/{COMMIT}/prompts.py",
    size_bytes=8204,
    sha256="ed1e1a14a4e356755c249eebbab53c6c2ff27850c3a741639eff06c1c57cfb0b",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long the address is tried."""

    tries: int = 3
    backoff_s: float = 1.0  # before the second try; doubled before each further one
    timeout_s: float = 20.0  # to connect, and between bytes
    whole_s: float = 60.0  # for one try


_OFFLINE = {"1", "ON", "YES", "TRUE"}  # as huggingface_hub reads it
_REDIRECTS = 5
_AGAIN = {408, 425, 429}


class _NotHad(Exception):
    """One try failed; `again` says whether another may not."""

    def __init__(self, found: str, *, again: bool) -> None:
        super().__init__(found)
        self.again = again


def prompts_file(
    environment: Mapping[str, str], pin: Pin = OFFICIAL, patience: Patience | None = None
) -> bytes:
    """The bytes of the official file.

    Args:
        environment: ``MMIE_PROMPTS`` (a local copy) is taken first, then the file that is kept, and
            otherwise it is fetched from ``MMIE_PROMPTS_URL`` or the pinned address. With
            ``HF_HUB_OFFLINE`` nothing is fetched.
        pin: What the file must be.
        patience: How long an address is tried.

    Raises:
        DataBroken: The local copy is another file.
        DataMissing: There is no local copy where one should be, or the file cannot be fetched.
        SettingWrong: ``MMIE_PROMPTS_URL`` is no address.
    """
    if local := environment.get("MMIE_PROMPTS"):
        return _local(Path(local).expanduser(), pin)
    if (content := kept(environment, pin)) is not None:
        return content
    content = _fetched(environment, pin, patience or Patience())
    try:
        with atomic_write(_place(environment)) as part:
            part.write_bytes(content)
    except OSError as error:
        logger.warning(f"MMIE's official prompts are not kept for the next run: {error}.")
    return content


def kept(environment: Mapping[str, str], pin: Pin = OFFICIAL) -> bytes | None:
    """The bytes that an earlier call fetched; None where there are none, or others."""
    return _kept(_place(environment), pin)


def _place(environment: Mapping[str, str]) -> Path:
    return cache_dir(environment) / "mmie" / f"prompts-{COMMIT[:7]}.py"


def _local(path: Path, pin: Pin) -> bytes:
    hint = f"copy {pin.url} there, byte for byte, or unset `MMIE_PROMPTS`"
    try:
        content = _bounded(path, pin)
    except OSError as error:
        raise DataMissing(
            f"`MMIE_PROMPTS` is `{path}`, which cannot be read: {error.strerror}.", hint=hint
        ) from error
    if pin.holds(content):
        return content
    what = "the official one"
    if pin.holds(content.replace(b"\r\n", b"\n")):
        what += ", whose lines end in LF and not in CR LF"
    raise DataBroken(
        f"`MMIE_PROMPTS` is `{path}`, which is not MMIE's official `prompts.py`: its SHA-256 is "
        f"{hashlib.sha256(content).hexdigest()[:12]}…, and {pin.sha256[:12]}… is {what}.",
        hint=f"{hint}; for other words there is `MMIE_OTHER_PROMPTS`",
    )


def _kept(path: Path, pin: Pin) -> bytes | None:
    try:
        content = _bounded(path, pin)
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.warning(f"`{path}` cannot be read ({error.strerror}).")
        return None
    if pin.holds(content):
        return content
    logger.warning(f"`{path}` is damaged: it is not used.")
    return None


def _bounded(path: Path, pin: Pin) -> bytes:
    """A file's bytes; of a longer one than wanted, enough to show that it is another."""
    with path.open("rb") as file:
        return file.read(2 * pin.size_bytes)


def _fetched(environment: Mapping[str, str], pin: Pin, patience: Patience) -> bytes:
    url = environment.get("MMIE_PROMPTS_URL") or pin.url
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise SettingWrong(
            f"`MMIE_PROMPTS_URL` is {_shown(url)!r}, which is no web address.",
            hint=f"give one that serves the bytes of {pin.url}, or unset it",
        )
    if environment.get("HF_HUB_OFFLINE", "").upper() in _OFFLINE:
        raise _missing("downloads are switched off (`HF_HUB_OFFLINE`)", pin)
    failure = _NotHad("it was not tried", again=False)
    for attempt in range(patience.tries):
        if attempt:
            logger.info(f"MMIE's official prompts: {failure}; trying again.")
            time.sleep(patience.backoff_s * 2 ** (attempt - 1))
        outcome = _attempt(url, pin, patience)
        if isinstance(outcome, bytes):
            logger.info(f"MMIE's official prompts were fetched from {_shown(url)}.")
            return outcome
        failure = outcome
        if not failure.again:
            break
    raise _missing(f"{_shown(url)}: {failure}", pin) from failure


def _attempt(url: str, pin: Pin, patience: Patience) -> bytes | _NotHad:
    try:
        return _try(url, pin, patience)
    except _NotHad as failure:
        return failure


def _try(url: str, pin: Pin, patience: Patience) -> bytes:
    """One try, through redirects.

    Raises:
        _NotHad: It failed.
    """
    import httpx

    deadline = time.monotonic() + patience.whole_s
    plain = {"Accept-Encoding": "identity"}  # the hash is of the file's own bytes
    try:
        with httpx.Client(timeout=patience.timeout_s, headers=plain) as client:
            for _ in range(_REDIRECTS + 1):
                with client.stream("GET", url, follow_redirects=False) as response:
                    if not response.has_redirect_location:
                        return _content(response, pin, deadline)
                    url = _next(response)
    except httpx.InvalidURL as error:
        raise _NotHad("it is no web address", again=False) from error
    except httpx.HTTPError as error:
        said = (str(error).splitlines() or [""])[0]
        raise _NotHad(f"{type(error).__name__} ({said})", again=True) from error
    raise _NotHad("it forwards without end", again=False)


def _next(response: httpx.Response) -> str:
    """Where a response forwards to: only to https, or from this machine to itself."""
    target = response.url.join(response.headers["location"])
    at_home = _is_loopback(response.url.host) and _is_loopback(target.host)
    if target.scheme == "https" or (target.scheme == "http" and at_home):
        return str(target)
    raise _NotHad(f"it forwards to {_shown(str(target))}, which is not https", again=False)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _content(response: httpx.Response, pin: Pin, deadline: float) -> bytes:
    status = response.status_code
    if status != HTTPStatus.OK:
        again = status in _AGAIN or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        raise _NotHad(f"it answered HTTP {status}", again=again)
    content = bytearray()
    for chunk in response.iter_raw():
        content += chunk
        if len(content) > pin.size_bytes:
            raise _NotHad(f"it sent more than the {pin.size_bytes:,} bytes wanted", again=False)
        if time.monotonic() > deadline:
            raise _NotHad("it takes too long", again=True)
    if pin.holds(bytes(content)):
        return bytes(content)
    raise _NotHad(f"it sent {len(content):,} bytes, and not the official ones", again=False)


def _missing(found: str, pin: Pin) -> DataMissing:
    return DataMissing(
        f"MMIE's official judge prompts cannot be had: {found}.",
        hint="connect and run again (once is enough; the file is kept), or set `MMIE_PROMPTS` to a "
        f"copy of {pin.url}",
    )


def _shown(url: str) -> str:
    """An address without user, password and query: they may be keys."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


FIELDS: Mapping[str, frozenset[str]] = {
    "SA": frozenset({"question", "answer"}),
    "PBL": frozenset({"question", "answer"}),
    "MSR": frozenset({"question", "answer", "gt_answer"}),
}
"""Category to the fields of its template; only MSR's judge is shown a reference."""

_MOST_BYTES = 1024 * 1024  # of a file with other words


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """What the judge is told, for each category.

    Attributes:
        texts: ``SA``, ``PBL`` and ``MSR`` to a template with the fields of `FIELDS`.
        official: Whether the words are MMIE's.
        name: For the signature: ``official@eb0fd6e``, or ``other:`` and 12 hex digits of a hash.
    """

    texts: Mapping[str, str]
    official: bool
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A template as the official file has it: instructions, and what follows them."""

    rubric: str
    tail: str

    @property
    def template(self) -> str:
        """Both; nothing stands between them."""
        return self.rubric + self.tail


_OF_TWO = "6c3daf6e020239fc1f8e6ccd92111b9a4560a8b9ba29c585a678afb94e2aef37"

# Category to the SHA-256 of rubric, tail and template.
FINGERPRINTS: Mapping[str, tuple[str, str, str]] = {
    "SA": (
        "9e29bd376367a88051001c1592bd75851fda68326c7ea762bb79170c080331a3",
        _OF_TWO,
        "e49cdc6b2562f7c4e3bd991604b58da6ffade636e41475f699dcccf70a54c32e",
    ),
    "PBL": (
        "b80214d31c9c25c5ed00d62a990bf422cf2bee304bd6dd29c328692b4b889d49",
        _OF_TWO,
        "c7d412eea004ba231ec61b9a0ccea9838b1a0d546ef5eb6e6a7fe8133317ead7",
    ),
    "MSR": (
        "72bc495ec21b8c185bee68c351981dbc9a041aee2ba1c27bd287caa9099a9681",
        "d1570f91279a70dd8bb7778996d30d48221e8aa46527b3ae70704b28533f76e0",
        "2af55d36a90e680764061b912ca3fa9f58103b0037b60ee827079a7289d22ddb",
    ),
}


def templates(environment: Mapping[str, str]) -> Templates:
    """The templates a run judges with.

    Args:
        environment: ``MMIE_OTHER_PROMPTS`` names a JSON file with the keys SA, PBL and MSR whose
            words are taken instead of MMIE's: no number made with them is MMIE's. Without it the
            official ones; see `mmie_tasks.benchmarks.mmie.judge_prompts.prompts_file` for what that
            reads.

    Raises:
        SettingWrong: Two settings contradict each other, or the other words cannot be used.
        DataMissing: The official file cannot be had. Nothing is ever taken in its place.
        DataBroken: A file is not the official one.
    """
    if other := environment.get("MMIE_OTHER_PROMPTS"):
        if environment.get("MMIE_PROMPTS"):
            raise SettingWrong(
                "`MMIE_PROMPTS` and `MMIE_OTHER_PROMPTS` are both set, and only one can be meant.",
                hint="unset `MMIE_OTHER_PROMPTS` to judge with MMIE's own words",
            )
        return _others(Path(other).expanduser())
    found = parse(prompts_file(environment).decode())
    check(found)
    texts = {category: parts.template for category, parts in found.items()}
    return Templates(texts=texts, official=True, name=f"official@{COMMIT[:7]}")


def parse(source: str) -> dict[str, Parts]:
    """Read category to template from Python source of the official form, without running it.

    The form (``prompts.py`` at eb0fd6e): module-level ``NAME = "rubric"``, and ``get_prompt`` with
    one chain of ``if "SA" in data_id: return NAME + "tail"``.

    Raises:
        DataBroken: It has another form.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _not_official(f"it cannot be parsed ({type(error).__name__})") from error
    rubrics = dict(_constants(tree))
    found = {}
    for category, name, tail in _branches(tree):
        if name not in rubrics or category in found:
            raise _not_official(f"`get_prompt` is not as expected at {category!r}")
        found[category] = Parts(rubric=rubrics[name], tail=tail)
    if list(found) != list(FIELDS):
        raise _not_official(f"`get_prompt` knows {', '.join(found) or 'no category'}")
    return found


def check(found: Mapping[str, Parts]) -> None:
    """Make sure that what was read is official, text by text.

    Raises:
        DataBroken: It is not.
    """
    for category, expected in FINGERPRINTS.items():
        parts = found[category]
        if (_sha256(parts.rubric), _sha256(parts.tail), _sha256(parts.template)) != expected:
            raise _not_official(f"the text for {category} is another")


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, text


def _branches(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Token, name of the rubric and tail of each branch of ``get_prompt``, in order."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name="get_prompt", body=[ast.If() as first]):
                chain: list[ast.stmt] = [first]
                while chain and isinstance(branch := chain[0], ast.If):
                    yield _branch(branch)
                    chain = branch.orelse


def _branch(branch: ast.If) -> tuple[str, str, str]:
    match branch:
        case ast.If(
            test=ast.Compare(left=ast.Constant(value=str(token)), ops=[ast.In()]),
            body=[
                ast.Return(
                    value=ast.BinOp(
                        left=ast.Name(id=name), op=ast.Add(), right=ast.Constant(value=str(tail))
                    )
                )
            ],
        ):
            return token, name, tail
    raise _not_official(f"line {branch.lineno} is not as expected")


def _not_official(what: str) -> DataBroken:
    return DataBroken(
        f"MMIE's judge prompts are not those of {COMMIT[:7]}: {what}.",
        hint=f"take the file from {OFFICIAL.url}",
    )


def _others(path: Path) -> Templates:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        texts = json.loads(content.decode()) if len(content) <= _MOST_BYTES else None
    except OSError as error:
        raise _unusable(path, f"it cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"it is not JSON ({error})") from error
    if not isinstance(texts, dict) or set(texts) != set(FIELDS):
        raise _unusable(path, f"it is no JSON object with the keys {', '.join(FIELDS)}")
    for category, text in texts.items():
        if wrong := _wrong(text, FIELDS[category]):
            raise _unusable(path, f"`{category}` {wrong}")
    digest = _sha256(json.dumps(texts, sort_keys=True))[:12]
    logger.warning(
        f"MMIE is judged with the words of `{path}`, not with its own: no number of this run can be"
        f" compared with the paper's. The signature says `other:{digest}`."
    )
    return Templates(texts=texts, official=False, name=f"other:{digest}")


def _wrong(text: object, fields: frozenset[str]) -> str:
    """What is wrong with a template; empty where nothing is."""
    if not isinstance(text, str):
        return "is not text"
    try:
        placed = [(n, s, c) for _, n, s, c in Formatter().parse(text) if n is not None]
    except ValueError as error:
        return f"is no template: {error}"
    names = {name for name, _, _ in placed}
    if names != fields or any(spec or conversion for _, spec, conversion in placed):
        wanted, found = (", ".join(f"{{{f}}}" for f in sorted(s)) for s in (fields, names))
        return f"must have exactly the fields {wanted}, bare, and has {found or 'none'}"
    return ""


def _unusable(path: Path, why: str) -> SettingWrong:
    return SettingWrong(
        f"`MMIE_OTHER_PROMPTS` is `{path}`: {why}.",
        hint="name a JSON file with one template each for SA, PBL and MSR, or unset it to judge "
        "with MMIE's own words",
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
