"""Connections that cannot be kept open for nothing."""

import asyncio
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from madod.serve.answers import problem
from madod.serve.limits import Limits

LINGER = 1.0
"""Seconds for which a connection is kept open behind a refusal that closes it."""


def guarded(limits: Limits) -> type[asyncio.Protocol]:
    """Return the class of connections that keep to limits: a server makes them itself."""
    return type("Guarded", (Connection,), {"limits": limits})


class Connection(H11Protocol):
    """A connection that is closed when its client is slow to send a head or a refused body, or to read."""

    limits: ClassVar[Limits]

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.alarms: dict[str, asyncio.TimerHandle] = {}
        self.refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base
        """Wait for a head, or refuse where too many connections are open."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self.refuse(429, "too many connections are open: come back in a second", (b"retry-after", b"1"))
        else:
            self.expect("sending")

    def data_received(self, data: bytes) -> None:
        """Take what came; a head has come whole when a request is being answered."""
        if self.refused:
            return
        if self.idle() and "sending" not in self.alarms:
            self.expect("sending")
        super().data_received(data)
        if not self.idle() or (self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]):
            self.done("sending")

    def on_response_complete(self) -> None:
        """Wait for the rest of a body that was answered before it had come whole."""
        if self.conn.their_state is h11.SEND_BODY:  # what is left is thrown away, so that the answer is read
            self.expect("sending")
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read what fills the buffer."""
        self.expect("reading")
        super().pause_writing()

    def resume_writing(self) -> None:
        """Go on: it read."""
        self.done("reading")
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        for what in tuple(self.alarms):
            self.done(what)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request."""
        size = f"{self.limits.head_bytes // 1024} KiB"
        self.refuse(400, f"this is no request that can be read, or its head has more than {size}: send another")

    def refuse(self, status: int, sentence: str, *headers: tuple[bytes, bytes]) -> None:
        """Answer with a sentence, where an answer can still be sent, and close the connection soon."""
        head = [(b"content-type", b"application/json"), (b"connection", b"close"), *headers]
        start = h11.Response(status_code=status, headers=head, reason=STATUS_PHRASES[status])
        try:
            for event in (start, h11.Data(data=problem(sentence)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.write_eof()
            if not self.idle():  # broken off in its body; to whoever answers it, the client has left
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            self.refused = True  # closed at once, what is still on its way would drive the answer out
            self.expect("leaving", LINGER)
        except h11.LocalProtocolError:  # an answer is under way already
            self.transport.close()

    def idle(self) -> bool:
        """Tell whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def expect(self, what: str, seconds: float | None = None) -> None:
        """Break the connection off unless it is done in time: the limits' patience, if nothing else is said."""
        self.done(what)
        patience = self.limits.patience if seconds is None else seconds
        self.alarms[what] = self.loop.call_later(patience, self.transport.abort)

    def done(self, what: str) -> None:
        """Stop waiting."""
        if alarm := self.alarms.pop(what, None):
            alarm.cancel()
