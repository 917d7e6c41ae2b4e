"""A person's own unknowns: how many are flagged, and how well they are told from held-out pictures."""

import pytest

from madod.fitting.strangers import scored, told_apart
from tests.predict.toy import files, toy_model


def test_scores_are_told_apart_by_hand():
    assert told_apart([1.0, 2.0], [3.0, 1.5]) == pytest.approx(3 / 4)
    assert told_apart([], [3.0]) is None
    assert told_apart([1.0], []) is None


def test_every_picture_of_a_folder_is_scored_and_the_bad_are_named(tmp_path):
    model = toy_model()
    paths = files(tmp_path / "odd" / "deeper", 6)
    paths[2].write_text("no picture", encoding="utf-8")
    found = scored(model, tmp_path / "odd")
    own = [answer.score for answer in model.predict(paths[:2] + paths[3:])]
    assert found.scores == own
    assert found.auroc == told_apart(model.held_scores.tolist(), own)
    assert found.flagged(sorted(own)[1]) == pytest.approx(3 / 5)
    (bad,) = found.unreadable
    assert str(paths[2]) in bad
