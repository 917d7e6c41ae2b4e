import dataclasses
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from madod.report.html import VOID
from madod.report.inputs import Page, Samples
from madod.report.page import demo_page
from madod.report.table import MISSING

from .synthetic import demo

HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=y>",
    "数字 ‮ é",
    "$\\frac{",
    "_a&amp;",
    "a\nb",
    "--><!--",
    "",
    " ",
)


class Reader(HTMLParser):
    """Checks that what opens closes, in order, and keeps what a test wants to look at."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def judged(reader: Reader) -> list[int]:
    """Return the numbers of the target pictures that stand with their verdicts, as often as they do."""
    texts = [attributes.get("alt") or "" for tag, attributes in reader.tags if tag == "img"]
    return [int(found[1]) for text in texts if (found := re.match(r"Target picture (\d+):", text))]


@pytest.fixture(scope="module")
def page() -> Page:
    return demo(60)


@pytest.fixture(scope="module")
def html(page: Page) -> str:
    return demo_page(page)


def test_loads_nothing_from_elsewhere(html: str):
    tags = read(html).tags
    assert not re.search(r"https?://|//\w+\.|@import|javascript:", html)
    assert {tag for tag, _ in tags}.isdisjoint({"script", "iframe", "object", "embed", "base", "form"})
    for _, attributes in tags:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "srcset", "xlink:href"):
                assert (value or "").startswith(("data:", "#"))
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", html))


def test_is_small(html: str):
    assert len(html.encode()) < 1_500_000


def test_tells_the_whole_story(html: str):
    reader = read(html)
    headings = [tag for tag, _ in reader.tags if re.fullmatch(r"h[1-6]", tag)]
    assert headings[0] == "h1"
    assert headings.count("h1") == 1
    assert headings.count("h2") == 8
    levels = [int(heading[1]) for heading in headings]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert next(attributes for tag, attributes in reader.tags if tag == "html")["lang"] == "en"
    assert all(attributes["alt"] for tag, attributes in reader.tags if tag == "img")
    assert all(attributes["aria-label"] for tag, attributes in reader.tags if tag == "svg")
    assert "results/digits" in " ".join(reader.words)


def test_ids_are_unique_and_references_meet_them(html: str):
    ids = [attributes["id"] for _, attributes in read(html).tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', html)) <= set(ids)


def test_is_the_same_each_time(page: Page, html: str):
    assert demo_page(page) == html


def test_hostile_names_are_text(page: Page, html: str):
    script, picture, *_ = HOSTILE
    labels = [*HOSTILE[:5], script * 2, *HOSTILE[5:]]
    changed = dataclasses.replace(
        page,
        title=script,
        dataset=picture,
        test_domain=picture,
        sources=(script, *HOSTILE[2:]),
        unknown=(script * 2,),
        classes=HOSTILE,
        samples={name: Samples(page.samples["paper"].images, labels) for name in HOSTILE},
        cells=(
            dataclasses.replace(page.cells[0], algorithm=picture),
            dataclasses.replace(page.cells[1], algorithm=script),
        ),
        command=script,
        versions={script: picture},
        seconds={script: {picture: 1.0}},
        note=script,
    )
    reader = read(demo_page(changed))
    assert {tag for tag, _ in reader.tags} == {tag for tag, _ in read(html).tags}
    for name in HOSTILE:
        assert any(name in words for words in reader.words)
    assert not any(attribute.startswith("on") for _, attributes in reader.tags for attribute in attributes)


def test_one_algorithm_is_enough_and_none_is_better_than_itself(page: Page):
    html = demo_page(dataclasses.replace(page, cells=page.cells[1:], grid_png=None))
    read(html)
    assert 'class="best"' not in html
    assert "Old pictures in new looks" not in html


def test_a_detector_may_be_missing(page: Page):
    first, second = page.cells
    without = dataclasses.replace(
        first,
        metrics={key: value for key, value in first.metrics.items() if key != "energy"},
        scores={key: value for key, value in first.scores.items() if key != "energy"},
    )
    words = " ".join(read(demo_page(dataclasses.replace(page, cells=(without, second)))).words)
    assert "MADOD: most unknown by MSP" in words
    assert "ERM: most unknown by Energy" in words
    assert MISSING in words


def test_no_detector_at_all_leaves_the_rest(page: Page):
    bare = dataclasses.replace(page.cells[0], metrics={"accuracy": 0.5}, scores={}, history=())
    reader = read(demo_page(dataclasses.replace(page, cells=(bare,))))
    for rest in ("What training saw, and what it never saw", "The result", "50.0", "Where the network puts them"):
        assert rest in reader.words
    assert "Telling the unknown from the known" not in reader.words
    assert "The pictures themselves" not in reader.words
    assert judged(reader) == []


@pytest.mark.parametrize("n", [1, 3, 12])
def test_few_pictures_are_enough(n: int):
    few = demo(60)
    cells = tuple(
        dataclasses.replace(
            cell,
            **{key: getattr(cell, key)[:n] for key in ("y", "predicted", "confidence", "features")},
            scores={key: value[:n] for key, value in cell.scores.items()},
        )
        for cell in few.cells
    )
    reader = read(demo_page(dataclasses.replace(few, cells=cells, images=few.images[:n])))
    # both algorithms show every picture among their most and among their least unknown ones
    assert sorted(judged(reader)) == sorted([*range(n)] * 2 * len(cells))
    for rest in ("The result", "Telling the unknown from the known", "Where the network puts them"):
        assert rest in reader.words


def test_nothing_wrong_and_nothing_unknown(page: Page):
    y = np.abs(page.cells[0].y)
    right = dataclasses.replace(page.cells[0], y=y, predicted=y, threshold={"energy": np.inf})
    html = demo_page(dataclasses.replace(page, cells=(right,)))
    read(html)
    assert 'class="wrong"' not in html


def test_arrays_must_speak_of_the_same_images(page: Page):
    with pytest.raises(ValueError, match="59 predicted for 60 labels"):
        dataclasses.replace(page.cells[0], predicted=page.cells[0].predicted[1:])
    with pytest.raises(ValueError, match="60 labels for 59 images"):
        dataclasses.replace(page, images=page.images[1:])
    with pytest.raises(ValueError, match="at least one algorithm"):
        dataclasses.replace(page, cells=())
    with pytest.raises(ValueError, match="name of its own"):
        dataclasses.replace(page, cells=(page.cells[0], page.cells[0]))


def test_the_room_does_not_need_torch():
    code = (
        f"import sys; from {demo.__module__} import demo; from madod.report.page import demo_page;"
        "demo_page(demo(20)); assert 'torch' not in sys.modules; assert 'matplotlib.pyplot' not in sys.modules"
    )
    path = [entry for entry in sys.path if entry]
    subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"], check=True, timeout=120)
