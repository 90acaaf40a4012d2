"""Asking a server, with deadlines and repetitions: an answer comes back, or the reason why there is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import final

import httpx2 as httpx

from posttrain.errors import InputError

REFUSED = {
    401: "it wants another token: put the right one into the variable that token_variable names",
    403: "it does not let this client in: check the token",
    404: "nothing answers there: check the address, and that the server offers what is asked",
    405: "something else answers there: check the address",
}
"""Answers that no repetition changes, and what to do about them."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0


class NoAnswer(Exception):
    """Why a request has no answer; `too_long` where the answer exceeded its cap."""

    def __init__(self, why: str, *, too_long: bool = False) -> None:
        super().__init__(why)
        self.why, self.too_long = why, too_long


@final
class Connection:
    """A server's address with connections to it; calls block and may come from any thread."""

    def __init__(self, url: str, token: str, concurrency: int) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
        self.url = url.rstrip("/")
        self._client = httpx.Client(headers=headers, limits=limits, follow_redirects=False)

    def ask(self, method: str, path: str, body: bytes, seconds: float, max_bytes: int) -> bytes:
        """Return the body of the answer, at most `max_bytes` long, got within `seconds`.

        Raises NoAnswer where a repetition may help, InputError where it can't.
        """
        deadline = time.monotonic() + seconds
        timeout = httpx.Timeout(seconds, connect=min(seconds, 5.0))
        headers = {"content-type": "application/json"}
        try:
            with self._client.stream(
                method, self.url + path, content=body, headers=headers, timeout=timeout
            ) as answer:
                if answer.status_code in REFUSED:
                    raise InputError(
                        f"{self.url}{path} answers {answer.status_code}: {REFUSED[answer.status_code]}"
                    )
                content = _read(answer, deadline, max_bytes)
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise InputError(
                f"{self.url!r} is no address ({error}): write it like http://host:8080"
            ) from error
        except httpx.TransportError as error:
            raise NoAnswer(f"{self.url}{path}: {type(error).__name__}: {error}") from error
        if answer.status_code >= 400:
            raise NoAnswer(f"{self.url}{path} answers {answer.status_code}: {content[:200]!r}")
        return content

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


def _read(answer: httpx.Response, deadline: float, max_bytes: int) -> bytes:
    content = bytearray()
    for piece in answer.iter_bytes():
        content += piece
        if len(content) > max_bytes:
            raise NoAnswer(f"an answer of more than {max_bytes} bytes", too_long=True)
        if time.monotonic() > deadline:
            raise NoAnswer("an answer that came too slowly")
    return bytes(content)


def repeated(ask: Callable[[], bytes], retries: int) -> bytes:
    """Return what `ask` returns; after a NoAnswer ask again, `retries` times, with growing pauses."""
    pause = FIRST_PAUSE_SECONDS
    for _ in range(retries):
        try:
            return ask()
        except NoAnswer as failure:
            if failure.too_long:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
    return ask()
