"""The page in a real browser: pictures in, verdicts out, and a threshold that moves them."""

import base64
import os
import re
from html.parser import HTMLParser

import httpx
import pytest

from madod.serve.about import about
from madod.serve.limits import Limits
from madod.serve.page import POLICY, page
from tests.report.browser import ARGUMENTS, CHROMIUM, needs_browser

SCREENSHOTS = os.environ.get("MADOD_SCREENSHOTS")


class Reading(HTMLParser):
    """Collects tags, ids, labels and everything that would be loaded."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.fors: list[str] = []
        self.wanted: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.fors += [given["for"]] if "for" in given else []
        self.wanted += [given[name] for name in ("src", "href", "action", "data", "srcset") if given.get(name)]


def test_the_page_asks_nothing_of_other_hosts(client):
    answer = client.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    read = Reading(answer.text)
    assert set(read.wanted) == {"data:,", "openapi.json", "model", "metrics"}
    assert len(read.ids) == len(set(read.ids))
    assert set(read.fors) <= set(read.ids)
    assert not re.search(r"@import|url\(|https?://(?!HOST|www\.w3\.org/2000/svg)", answer.text)


def test_what_a_model_calls_its_classes_cannot_break_out(model):
    facts = about(model, Limits()).model_copy(
        update={"classes": ["</script><script>alert(1)</script>", "<b>", "&amp;"]}
    )
    html = page(facts)
    assert "<script>alert" not in html
    assert html.count("<script") == 2
    many = page(facts.model_copy(update={"classes": [f"class {k}" for k in range(100)]}))
    assert "100 classes" in many


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, server):
    """Open the page in a window of its own; nothing may go wrong in it, and nothing be asked of another host."""
    contexts, complaints, asked = [], [], []

    def open_page(**how):
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}} | how)
        contexts.append(context)
        window = context.new_page()
        window.on("console", lambda message: complaints.append(message.text))
        window.on("pageerror", lambda error: complaints.append(str(error)))
        window.on("request", lambda request: asked.append(request.url))
        window.goto(server.url)
        return window, asked

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert all(url.startswith((server.url, "blob:", "data:")) for url in asked)


@pytest.fixture
def photos(digits):
    return [{"name": f"digit {k}.png", "mimeType": "image/png", "buffer": data} for k, data in enumerate(digits[:9])]


def settled(window, text: str) -> None:
    from playwright.sync_api import expect

    expect(window.locator("#summary")).to_have_text(re.compile(text), timeout=20_000)


def verdicts(window) -> list[str]:
    return window.locator(".card .verdict").all_inner_texts()


def slide(window, share: int) -> None:
    """Move the slider as a script would; `input` is what a person's hand sends too."""
    window.locator("#keep").evaluate(
        "(node, value) => { node.value = value; node.dispatchEvent(new Event('input', {bubbles: true})); }", share
    )


def shot(window, name: str) -> None:
    if SCREENSHOTS:
        window.screenshot(path=f"{SCREENSHOTS}/{name}.png", full_page=True)


@needs_browser
@pytest.mark.parametrize(("kept", "share"), [([0.5] * 90 + [0.7] * 5 + [0.9] * 5, 95), ([0.7] * 100, 100), ([0.8], 1)])
def test_a_threshold_is_shown_with_all_that_it_keeps(browser, model, kept, share):
    """Where held-out pictures are few, one threshold keeps several percents."""
    window = browser.new_page()
    window.set_content(page(about(model, Limits()).model_copy(update={"kept": kept, "threshold": 0.7})))
    assert window.locator("#share").inner_text() == f"{share} %"
    window.close()


@needs_browser
def test_pictures_get_verdicts_and_the_slider_moves_them(visit, photos, server):
    window, asked = visit()
    bad = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"no picture"}
    window.set_input_files("#files", [*photos, bad])
    settled(window, r"^10 pictures: \d known, \d unknown, 1 not read\.$")
    assert window.locator(".card").count() == 10
    assert "not a picture of a known kind" in window.locator(".card.bad").inner_text()
    window.locator(".near img").last.scroll_into_view_if_needed()
    assert window.locator(".card .near img").count() == 9 * 4
    shot(window, "verdicts")

    form = [("files", (photo["name"], photo["buffer"])) for photo in photos]
    scores = {
        entry["name"]: entry["score"] for entry in httpx.post(f"{server.url}/predict", files=form).json()["images"]
    }
    kept = httpx.get(f"{server.url}/model").json()["kept"]
    before = len([url for url in asked if "/predict" in url])
    for share in (1, 50, 100):
        slide(window, share)
        expected = sum(score > kept[share - 1] for score in scores.values())
        settled(window, f"^10 pictures: {9 - expected} known, {expected} unknown, 1 not read")
        assert window.locator(".card.unknown").count() == expected
        assert window.locator("#share").inner_text() == f"{share} %"
    slide(window, 1)
    strict = verdicts(window)
    slide(window, 100)
    assert verdicts(window) != strict
    assert len([url for url in asked if "/predict" in url]) == before
    window.click("#reset")
    assert window.locator("#share").inner_text() == "95 %"

    window.click("#sort")
    shown = [name for name in window.locator(".card .file").all_inner_texts() if name in scores]
    assert shown == sorted(shown, key=lambda name: -scores[name])
    window.click("#clear")
    settled(window, "Nothing to judge yet")
    assert window.locator(".card").count() == 0


@needs_browser
def test_pictures_can_be_dropped_and_pasted(visit, photos):
    window, _ = visit()
    content = base64.b64encode(photos[0]["buffer"]).decode()
    give = """(node, [kind, content]) => {
        const bytes = Uint8Array.from(atob(content), letter => letter.charCodeAt(0));
        const files = new DataTransfer();
        files.items.add(new File([bytes], `${kind}.png`, {type: "image/png"}));
        const event = kind === "paste" ? new ClipboardEvent("paste", {clipboardData: files, bubbles: true})
            : new DragEvent("drop", {dataTransfer: files, bubbles: true, cancelable: true});
        node.dispatchEvent(event);
    }"""
    window.locator("body").evaluate(give, ["drop", content])
    settled(window, "^1 picture: ")
    window.locator("body").evaluate(give, ["paste", content])
    settled(window, "^2 pictures: ")
    assert window.locator(".card .file").all_inner_texts() == ["paste.png", "drop.png"]


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_by_keyboard_and_for_a_screen_reader(visit, photos, scheme):
    window, _ = visit(viewport={"width": 360, "height": 740}, color_scheme=scheme, is_mobile=True, has_touch=True)
    window.set_input_files("#files", photos[:3])
    settled(window, r"^3 pictures: \d known, \d unknown\.$")
    shot(window, f"phone {scheme}")
    assert window.evaluate("() => document.documentElement.scrollWidth") <= 360
    colour = window.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", colour)[:3])) < 200) is (scheme == "dark")
    window.focus("#files")
    window.keyboard.press("Tab")
    assert window.evaluate("() => document.activeElement.id") == "keep"
    window.keyboard.press("ArrowLeft")
    assert window.locator("#share").inner_text() == "94 %"
    assert "94 percent" in window.locator("#keep").get_attribute("aria-valuetext")
    assert window.locator(".gauge").first.get_attribute("aria-label").startswith("score ")
    assert all(
        image.get_attribute("alt").startswith("training picture of") for image in window.locator(".near img").all()
    )
    assert window.locator("#summary").get_attribute("role") == "status"
