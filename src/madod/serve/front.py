"""What every request passes first: whom it asks, how long its head is, where it ends, and how long the answer took."""

import time
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from madod.serve.answers import problem
from madod.serve.limits import Limits
from madod.serve.metrics import Metrics

PATHS = ("/", "/predict", "/health", "/metrics", "/model", "/openapi.json")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
]


class Front:
    """Counts and times answers, adds the headers that all have, and refuses long heads and requests for other hosts.

    Without the last a page from elsewhere could have its own name point to this machine, and read the answers. Where a
    request says its length in two ways, a proxy may see another end of it, and what follows would pass it unseen.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, limits: Limits, hosts: Sequence[str] | None) -> None:
        self.app, self.metrics, self.limits = app, metrics, limits
        self.hosts = None if hosts is None else {host.lower().encode() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, path = time.perf_counter(), label(scope["path"])

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
                self.metrics.answered(path, message["status"], time.perf_counter() - start)
            await send(message)

        if length(scope) > self.limits.head_bytes:
            sentence = f"the request's head has more than {self.limits.head_bytes // 1024} KiB: send a shorter one"
            return await refuse(watched, 431, sentence)
        if {b"content-length", b"transfer-encoding"} <= dict(scope["headers"]).keys():  # RFC 9112, 6.1
            sentence = "the request has both Content-Length and Transfer-Encoding: send one of them"
            return await refuse(watched, 400, sentence, (b"connection", b"close"))
        if self.hosts is not None and host(scope) not in self.hosts:
            sentence = "this server answers on this machine only: start it with --host to answer to other names"
            return await refuse(watched, 421, sentence)
        asked = "GET" if scope["method"] == "HEAD" else scope["method"]  # of its answer the server leaves out the body
        return await self.app({**scope, "method": asked}, receive, watched)


def label(path: str) -> str:
    """Return an address under which answers are counted; there are only a few."""
    return path if path in PATHS else "/similar" if path.startswith("/similar/") else "other"


def host(scope: Scope) -> bytes:
    """Return the host that a request names, without its port."""
    named = dict(scope["headers"]).get(b"host", b"").lower()
    return named[: named.index(b"]") + 1] if b"]" in named else named.partition(b":")[0]


def length(scope: Scope) -> int:
    """Return the bytes of a request's head."""
    headers = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    return headers + len(scope["raw_path"]) + len(scope["query_string"])


async def refuse(send: Send, status: int, sentence: str, *more: tuple[bytes, bytes]) -> None:
    """Answer with a sentence."""
    content = problem(sentence)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
