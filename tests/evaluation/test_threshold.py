import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from madod.errors import InputError
from madod.evaluation.threshold import threshold


@pytest.mark.parametrize(
    ("scores", "keep", "expected"),
    [
        (range(1, 21), 0.95, 19.0),
        (range(1, 20), 0.95, 19.0),  # 18 of 19 would be 94.7 %
        (range(100), 0.07, 6.0),  # 0.07 * 100 > 7 in floating point
        ([3.0, 1.0, 2.0], 1.0, 3.0),
        ([1.0, 1.0, 1.0, 2.0], 0.5, 1.0),
        ([5.0], 0.95, 5.0),
    ],
)
def test_hand_computed(scores, keep, expected):
    assert threshold(list(scores), keep) == expected


numbers = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=60)


@given(numbers, st.integers(1, 100))
def test_is_the_smallest_score_that_keeps_enough(scores, percent):
    scores, keep = np.array(scores), percent / 100
    at = threshold(scores, keep)
    assert at in scores
    assert (scores <= at).mean() >= keep
    assert (scores < at).mean() < keep


@pytest.mark.parametrize(
    ("scores", "keep", "words"),
    [
        ([], 0.95, "no held-out image"),
        ([1.0, float("nan")], 0.95, "1 of 2 scores"),
        ([1.0], 1.5, "share of 1.5"),
        ([1.0], 0, "share of 0"),
    ],
)
def test_refuses_what_has_no_threshold(scores, keep, words):
    with pytest.raises(InputError, match=words):
        threshold(scores, keep)
