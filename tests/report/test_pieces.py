import base64
import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from madod.report.html import Markup, join, table, tag
from madod.report.pictures import LARGEST, picture, png
from madod.report.results import marked, percent
from madod.report.table import MISSING
from madod.report.verdicts import KINDS, kinds
from madod.report.words import listed

from .synthetic import demo


def test_text_is_escaped_once_and_html_is_kept():
    assert tag("p", "<b>", tag("i", "&"), None, class_='"') == '<p class="&quot;">&lt;b&gt;<i>&amp;</i></p>'
    assert join("<", Markup("<br>")) == "&lt;<br>"


def test_a_table_takes_rows_groups_or_a_frame():
    html = table(["a", "b"], [["x", 1], ["group"], ["<y>", 2]])
    assert html.count("<tbody>") == 2
    assert '<th colspan="2" scope="rowgroup">group</th>' in html
    assert '<th scope="row">&lt;y&gt;</th><td>2</td>' in html
    frame = pd.DataFrame({"a": ["x"], "b": [1]})
    assert table(frame.columns, frame.itertuples(index=False)) == table(["a", "b"], [["x", 1]])


@pytest.mark.parametrize(
    ("values", "higher", "best"),
    [
        ([0.5, 0.6], True, [1]),
        ([0.5, 0.6], False, [0]),
        ([0.50001, 0.50002], True, [0, 1]),
        ([0.6, 0.6, 0.1], True, [0, 1]),
        ([None, 0.6], True, []),
        ([float("nan"), 0.6, 0.7], True, [2]),
        ([0.6], True, []),
        ([0.07, 0.29], True, [1]),
    ],
)
def test_the_best_are_marked_and_all_that_print_alike(values: list[float | None], higher: bool, best: list[int]):
    assert [index for index, value in enumerate(marked(values, higher)) if "best" in str(value)] == best


def test_percent_shows_what_is_missing():
    assert [percent(value) for value in (0.123, None, float("nan"), 1)] == ["12.3", MISSING, MISSING, "100.0"]


def test_lists_read_as_prose():
    assert [listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "nothing",
        "a",
        "a and b",
        "a, b and c",
    ]


def test_pictures_keep_their_pixels_unless_large():
    image = np.random.default_rng(0).integers(0, 256, (32, 20, 3), dtype=np.uint8)
    html = picture(image, 'a "b"')
    encoded = html.split("base64,")[1].split('"')[0]
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(encoded)))), image)
    assert 'alt="a &quot;b&quot;"' in html
    wide = Image.open(io.BytesIO(png(np.zeros((10, 500, 3), dtype=np.uint8))))
    assert wide.size[0] == LARGEST
    with pytest.raises(ValueError, match="uint8"):
        png(np.zeros((8, 8, 3)))


def test_outcomes_agree_with_a_plain_loop():
    cell = demo().cells[1]
    for i, kind in enumerate(kinds(cell, "energy")):
        flagged = cell.scores["energy"][i] > cell.threshold["energy"]
        if cell.y[i] < 0:
            expected = "caught" if flagged else "missed"
        elif flagged:
            expected = "false alarm"
        else:
            expected = "right label" if cell.predicted[i] == cell.y[i] else "wrong label"
        assert KINDS[kind].name == expected
