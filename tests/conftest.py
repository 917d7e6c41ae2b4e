"""What every test may rely on."""

import signal


def pytest_configure() -> None:
    """Hear Ctrl-C even where a shell started the tests in the background, deaf to it; programs inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
