"""The server in its process: a socket, connections that cannot be kept open for nothing, and an orderly end."""

import asyncio
import ipaddress
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from madod.errors import InputError
from madod.predict import Model
from madod.serve.answers import Problem
from madod.serve.app import application
from madod.serve.front import LOOPBACK, Front
from madod.serve.limits import Limits

GRACE = 30
"""Seconds that requests under way have left when the server is asked to end."""
LINGER = 1.0
"""Seconds for which a connection is kept open behind a refusal that closes it."""


def serve(model: Model, host: str, port: int, limits: Limits, ready: Callable[[str], None]) -> None:
    """Answer requests until a signal to end; then finish those under way. `ready` gets the address."""
    door = listening(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{door.getsockname()[1]}"
    app = application(model, limits, lambda: ready(address))
    hosts = (*LOOPBACK, shown) if is_loopback(host) else None
    front = Front(app, app.state.service.metrics, limits, hosts)
    config = uvicorn.Config(
        front, http=guarded(limits), ws="none", loop="asyncio", lifespan="off", log_config=None, access_log=False,
        server_header=False, h11_max_incomplete_event_size=limits.head_bytes, timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE,
    )  # fmt: skip
    Server(config, app.router.lifespan_context(app)).run([door])


def is_loopback(host: str) -> bool:
    """Tell whether a host can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens, or refuse in a sentence."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        door = socket.socket(family, kind, protocol)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(place)
        door.listen(1024)
    except (OSError, UnicodeError) as error:  # the latter of a name with an empty part
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(
            f"cannot listen on port {port} of {host} ({reason.lower()}): choose another --port or --host"
        ) from None
    return door


class Server(uvicorn.Server):
    """Ends in order at the first signal, at once at the second, and without raising either again.

    `life` is what starts before the first request and ends after the last; why it cannot start is raised as it is.
    """

    def __init__(self, config: uvicorn.Config, life: AbstractAsyncContextManager[object]) -> None:
        super().__init__(config)
        self.life = life

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to end."""
        with self.capture_signals():
            async with self.life:
                await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note that the server should end."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def guarded(limits: Limits) -> type[asyncio.Protocol]:
    """Return the class of a connection that keeps to limits."""

    class Guarded(H11Protocol):
        """A connection that is closed when its client is slow to send a head or a refused body, or to read."""

        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            self.alarms: dict[str, asyncio.TimerHandle] = {}
            self.refused = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                self.refuse(429, "too many connections are open: come back in a second", (b"retry-after", b"1"))
            else:
                self.expect("sending")

        def data_received(self, data: bytes) -> None:
            if self.refused:
                return
            if self.idle() and "sending" not in self.alarms:
                self.expect("sending")
            super().data_received(data)
            if not self.idle() or (self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]):
                self.done("sending")

        def on_response_complete(self) -> None:
            if self.conn.their_state is h11.SEND_BODY:  # what is left is thrown away, so that the answer is read
                self.expect("sending")
            super().on_response_complete()

        def pause_writing(self) -> None:
            self.expect("reading")
            super().pause_writing()

        def resume_writing(self) -> None:
            self.done("reading")
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            for what in tuple(self.alarms):
                self.done(what)
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            size = f"{limits.head_bytes // 1024} KiB"
            self.refuse(400, f"this is no request that can be read, or its head has more than {size}: send another")

        def refuse(self, status: int, sentence: str, *headers: tuple[bytes, bytes]) -> None:
            """Answer with a sentence, where an answer can still be sent, and close the connection soon."""
            content = Problem(error=sentence).model_dump_json(exclude_defaults=True).encode()
            head = [(b"content-type", b"application/json"), (b"connection", b"close"), *headers]
            start = h11.Response(status_code=status, headers=head, reason=STATUS_PHRASES[status])
            try:
                for event in (start, h11.Data(data=content), h11.EndOfMessage()):
                    self.transport.write(self.conn.send(event) or b"")
                self.transport.write_eof()
                self.refused = True  # closed at once, what is still on its way would drive the answer out
                self.expect("leaving", LINGER)
            except h11.LocalProtocolError:  # an answer is under way already
                self.transport.close()

        def idle(self) -> bool:
            """Tell whether no request is being answered."""
            return self.cycle is None or self.cycle.response_complete

        def expect(self, what: str, seconds: float = limits.patience) -> None:
            """Break the connection off unless it is done in time."""
            self.done(what)
            self.alarms[what] = self.loop.call_later(seconds, self.transport.abort)

        def done(self, what: str) -> None:
            """Stop waiting."""
            if alarm := self.alarms.pop(what, None):
                alarm.cancel()

    return Guarded
