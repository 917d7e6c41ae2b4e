import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from madod.errors import InputError
from madod.evaluation.metrics import accuracy, aupr, auroc, base_rate, classification, detection, ece, fpr95, oscr

SCORES = np.array([0.1, 0.4, 0.35, 0.8])
UNKNOWN = np.array([False, False, True, True])


def test_auroc_by_hand():
    assert auroc(SCORES, UNKNOWN) == pytest.approx(3 / 4)
    assert auroc([1.0, 1.0], [False, True]) == pytest.approx(1 / 2)


def test_aupr_by_hand():
    assert aupr(SCORES, UNKNOWN) == pytest.approx(1 / 2 * 1 + 1 / 2 * 2 / 3)


def test_base_rate_by_hand():
    assert base_rate([False, True, False, False]) == 1 / 4


def test_fpr95_by_hand():
    known, unknown = np.arange(20.0), np.array([16.0, 17.0, 18.0, 18.5])
    scores, is_unknown = np.concatenate([known, unknown]), np.arange(24) >= 20
    assert fpr95(scores, is_unknown) == 3 / 4  # 19 of 20 known lie at or below 18


def test_oscr_by_hand():
    scores = [0.1, 0.2, 0.3, 0.4, 0.5]
    y, predicted = [0, -1, 1, 1, -1], [0, 1, 0, 1, 0]
    # known: right, wrong (0.3), right; curve (0, 1/3) -> (1/2, 1/3) -> (1/2, 2/3) -> (1, 2/3)
    assert oscr(scores, y, predicted) == pytest.approx(1 / 2 * 1 / 3 + 1 / 2 * 2 / 3)


def test_oscr_takes_ties_as_one_step():
    assert oscr([0.5, 0.5], [0, -1], [0, 0]) == pytest.approx(1 / 2)
    assert oscr([0.5, 0.5], [-1, 0], [0, 0]) == pytest.approx(1 / 2)


def test_accuracy_looks_at_known_images_only():
    assert accuracy([0, 1, 2, -1], [0, 1, 1, 0]) == pytest.approx(2 / 3)
    with pytest.raises(InputError, match="no image of a known class"):
        accuracy([-1, -1], [0, 1])


def test_ece_by_hand():
    # bins of 1/15: 0.62 and 0.64 share one (mean 0.63, half right), 0.95 stands alone and is right
    assert ece([0.62, 0.64, 0.95], [1, 0, 1]) == pytest.approx(2 / 3 * 0.13 + 1 / 3 * 0.05)
    assert ece([0.5, 0.5], [1, 0], bins=2) == pytest.approx(0)  # 0.5 closes the first bin


def test_classification_by_hand():
    probabilities = [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.5, 0.5]]
    assert classification(probabilities, [0, 1, 1, -1]) == pytest.approx(
        {"accuracy": 2 / 3, "ece": (0.1 + 0.2 + 0.7) / 3}
    )
    assert classification(probabilities, [-1] * 4) == {}


def test_detection_by_hand():
    measured = detection(SCORES, [0, 1, -1, -1], [0, 0, 0, 0])
    # 0.1 is right: (0, 1/2) -> (1/2, 1/2) -> (1/2, 1/2) -> (1, 1/2)
    expected = {"auroc": 3 / 4, "aupr": 5 / 6, "base_rate": 1 / 2, "fpr95": 1 / 2, "oscr": 1 / 2}
    assert measured == pytest.approx(expected)


@pytest.mark.parametrize("y", [[0, 1, 0, 1], [-1, -1, -1, -1]])
def test_detection_invents_nothing_without_known_or_unknown(y):
    assert detection(SCORES, y, [0, 0, 0, 0]) == {}


def test_nan_scores_are_refused():
    for metric in (auroc, aupr, fpr95):
        with pytest.raises(InputError, match="1 of 4 scores are not a number"):
            metric([0.1, np.nan, 0.3, 0.4], UNKNOWN)
    with pytest.raises(InputError, match="1 of 4 scores are not a number"):
        detection([0.1, np.nan, 0.3, 0.4], [0, 0, -1, -1], [0, 0, 0, 0])


def test_infinite_scores_rank_first_and_last():
    assert auroc([-np.inf, 0.0, np.inf], [False, False, True]) == 1


@st.composite
def experiments(draw):
    y = draw(st.lists(st.integers(-1, 2), min_size=2, max_size=40).filter(lambda ys: -1 in ys and max(ys) >= 0))
    scores = draw(st.lists(st.integers(-4, 4).map(float), min_size=len(y), max_size=len(y)))
    predicted = draw(st.lists(st.integers(0, 2), min_size=len(y), max_size=len(y)))
    return np.array(scores), np.array(y), np.array(predicted)


@given(experiments())
def test_auroc_counts_pairs(experiment):
    scores, y, _ = experiment
    pairs = [(u > k) + 0.5 * (u == k) for u in scores[y < 0] for k in scores[y >= 0]]
    assert auroc(scores, y < 0) == pytest.approx(np.mean(pairs))


@given(experiments())
def test_the_areas_are_those_of_scikit_learn(experiment):
    scores, y, _ = experiment
    assert auroc(scores, y < 0) == pytest.approx(roc_auc_score(y < 0, scores))
    assert aupr(scores, y < 0) == pytest.approx(average_precision_score(y < 0, scores))


@given(experiments(), st.randoms())
def test_nothing_depends_on_order_or_scale(experiment, random):
    scores, y, predicted = experiment
    order = random.sample(range(len(y)), len(y))
    moved = detection(np.exp(scores[order] / 7), y[order], predicted[order])
    assert moved == pytest.approx(detection(scores, y, predicted))


@given(experiments())
def test_oscr_counts_pairs_of_right_known_and_unknown(experiment):
    scores, y, predicted = experiment
    right = scores[(y >= 0) & (predicted == y)]
    pairs = [(u > k) + 0.5 * (u == k) for u in scores[y < 0] for k in right]
    assert oscr(scores, y, predicted) == pytest.approx(np.sum(pairs) / (np.sum(y < 0) * np.sum(y >= 0)))


@given(experiments())
def test_oscr_is_auroc_where_every_known_is_right(experiment):
    scores, y, _ = experiment
    assert oscr(scores, y, y) == pytest.approx(auroc(scores, y < 0))


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=50))
def test_ece_against_a_loop(images):
    confidence, right = np.array([c for c, _ in images]), np.array([r for _, r in images])
    edges, total = np.linspace(0, 1, 16), 0.0
    for b in range(15):
        inside = (confidence > edges[b]) & (confidence <= edges[b + 1]) | ((b == 0) & (confidence == 0))
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    assert ece(confidence, right) == pytest.approx(total)
