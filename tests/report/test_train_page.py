"""The page of a training says what it was given, and says so where there is nothing."""

import re

import numpy as np
import pytest

from madod.report.train_page import Flagging, Training, Unseen, train_page


def training(classes: int = 3, **changes: object) -> Training:
    counts = np.diag(np.arange(5, 5 + classes))
    counts[0, 1] = 4
    plain = Training(
        name="<my> pictures",
        survey=["12 pictures", "! nearly empty: <fox>"],
        reasons=["size 32 px"],
        warnings=["do not rely on <it>"],
        check="short",
        classes=[f"class {k}" for k in range(classes)],
        domains=["day", "night"],
        pictures=120,
        accuracy=0.875,
        confusion=counts,
        unseen=[Unseen("day", 60, 0.5, "class 2", 0.75), Unseen("night", 0, None, "", None, "too few <pictures>")],
        mistaken=[("class 0", "class 2", 9)],
        detector="energy",
        threshold=1.5,
        flagging=[Flagging(0.9, 1.0, 0.1, 0.2, 0.3, None), Flagging(0.95, 1.5, 0.05, 0.125, 0.25, 0.5)],
        held_scores=np.linspace(0, 2, 40),
        stranger_scores=np.zeros(0),
        stranger_folder="",
        history=[{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}],
        seconds={"training": 3.25},
        versions={"torch": "2"},
    )
    return plain._replace(**changes)


def plain_text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page.partition("<body>")[2]).split())


def test_everything_is_said_and_escaped():
    page = train_page(training())
    assert "<my>" not in page
    assert "<fox>" not in page
    said = plain_text(page)
    for words in (
        "&lt;my&gt; pictures",
        "87.5 %",
        "not checked: too few &lt;pictures&gt;",
        "day 60 50.0 % class 2 75.0 %",
        "class 0 class 2 9",
        "95% 1.5 5.0 % 12.5 % 25.0 % 50.0 %",
        "training 3.2",
        "for a quarter of the steps",
        "Warning : do not rely on &lt;it&gt;.",
    ):
        assert words in said, words
    assert "<b>95%</b>" in page
    assert "<b>90%</b>" not in page


@pytest.mark.parametrize(("check", "words"), [("full", "as long as the model's"), ("none", "never saw this domain")])
def test_it_says_how_the_domains_were_held_out(check, words):
    assert words in plain_text(train_page(training(check=check))).replace("&#x27;", "'")


def test_without_a_check_it_claims_nothing():
    said = plain_text(train_page(training(unseen=[], check="none", warnings=[])))
    assert "Warning" not in said
    assert "nothing here says how it does elsewhere" in said
    assert "AUROC" not in said


def test_many_classes_are_shown_by_their_commonest_mistakes():
    said = plain_text(train_page(training(classes=40)))
    assert "class 0 class 1 4" in said
    assert "class 39" not in said


def test_unknowns_of_ones_own_are_drawn():
    page = train_page(training(stranger_scores=np.linspace(1, 3, 7), stranger_folder="odd ones"))
    assert "unknown (7)" in page
    assert "odd ones" in page
