"""A real browser, where there is one."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")


@contextmanager
def opened(address: str, *, width: int = 1280, dark: bool = False) -> Iterator[tuple[Any, list[str]]]:
    """Give a page and what its console said, errors of the page among it; requests to anywhere else fail the test."""
    from playwright.sync_api import sync_playwright

    said: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        scheme = "dark" if dark else "light"
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "request",
            lambda request: said.append(request.url) if not request.url.startswith(("file:", "data:")) else None,
        )
        page.goto(address)
        yield page, said
        browser.close()
