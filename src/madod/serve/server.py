"""The server in its process: a socket, and an orderly end."""

import ipaddress
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import FrameType

import uvicorn

from madod.errors import InputError
from madod.predict import Model
from madod.serve.app import application
from madod.serve.connection import guarded
from madod.serve.front import LOOPBACK, Front
from madod.serve.limits import Limits

GRACE = 30
"""Seconds that requests under way have left when the server is asked to end."""


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
