import re
import warnings

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from madod.report import plots
from madod.report.embedding import densest, embed, subsample, widest

from .synthetic import demo

CELL = demo(120).cells[0]
UNKNOWN = CELL.y < 0


def sound(svg: str) -> str:
    assert svg.startswith("<svg ")
    assert svg.endswith("</svg>")
    assert not re.search(r"\bnan\b|\binf\b|http", svg, flags=re.IGNORECASE)
    return svg


def test_roc_names_every_curve_with_its_area():
    svg = sound(plots.roc({"a": CELL.scores["msp"], "b": CELL.scores["ddu"]}, UNKNOWN, {"a": 0.0, "b": 41.0}))
    for name, key in (("a", "msp"), ("b", "ddu")):
        assert f"{name} {100 * CELL.metrics[key]['auroc']:.1f}" in svg


@pytest.mark.parametrize("draw", [plots.roc, plots.precision_recall])
def test_methods_with_long_names_leave_room_for_their_curves(draw):
    names = [f"irm, lr {rate}, weight_decay 0, batch 32, penalty 1, anneal 500" for rate in (0.1, 0.01, 0.001)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = sound(draw(dict.fromkeys(names, CELL.scores["msp"]), UNKNOWN))
    assert f"{names[0]} " in svg  # whole for those who have it read to them
    assert all(len(line) <= plots.WIDEST for line in re.findall(r"<text[^>]*>([^<]*)</text>", svg) if "irm" in line)


def test_figures_take_the_colours_of_the_page():
    svg = plots.energies(CELL.scores["energy"], UNKNOWN, -8.0)
    assert "var(--c1, #0b6e99)" in svg
    assert "currentColor" in svg
    assert "#010101" not in svg


def test_figures_are_the_same_each_time_and_do_not_share_ids():
    first = plots.energies(CELL.scores["energy"], UNKNOWN, -8.0, name="one")
    assert first == plots.energies(CELL.scores["energy"], UNKNOWN, -8.0, name="one")
    other = plots.energies(CELL.scores["energy"], UNKNOWN, -8.0, name="two")
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (first, other)]
    assert ids[0]
    assert not ids[0] & ids[1]


@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 40])
@pytest.mark.parametrize("width", [1, 3])
def test_tsne_is_finite_with_few_points(n: int, width: int):
    rng = np.random.default_rng(n)
    features = rng.normal(size=(n, width))
    assert np.isfinite(embed(features)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sound(plots.tsne(features, rng.integers(-1, 2, n), ("数", "$b")))


def test_equal_points_have_a_place_too():
    assert np.isfinite(embed(np.ones((20, 4)))).all()
    np.testing.assert_array_equal(widest(np.ones((20, 4))), 0)


def test_embedding_keeps_neighbours_together():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 30)
    points = embed(20 * rng.normal(size=(3, 16))[labels] + rng.normal(size=(90, 16)))
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1) + 1e9 * np.eye(90)
    assert (labels[distances.argmin(axis=1)] == labels).mean() > 0.95


def test_a_subsample_is_small_ordered_and_the_same_each_time():
    chosen = subsample(5000, 600)
    assert len(np.unique(chosen)) == 600
    assert (np.diff(chosen) > 0).all()
    np.testing.assert_array_equal(chosen, subsample(5000, 600))
    np.testing.assert_array_equal(subsample(3, 600), [0, 1, 2])


def test_a_name_is_written_where_points_are_dense():
    points = np.concatenate([np.random.default_rng(0).normal(size=(30, 2)), [[100.0, 100.0]]])
    assert np.linalg.norm(points[densest(points)]) < 1.5


@pytest.mark.parametrize(
    "kind", [np.zeros(4, dtype=bool), np.ones(4, dtype=bool), np.array([True, False, False, True])]
)
def test_one_kind_or_equal_scores_still_draw(kind: np.ndarray):
    sound(plots.roc({"a": np.ones(4)}, kind))
    sound(plots.energies(np.ones(4), kind))
    sound(plots.energies(np.array([1.0, np.inf, np.nan, 2.0]), kind, np.inf))


def test_learning_curves_take_what_is_there():
    rows = [
        {"step": 0, "loss": 1.0},
        {"step": 10, "loss": float("nan"), "_gap": -0.5},
        {"step": 20, "loss": 0.5, "note": "x"},
    ]
    svg = sound(plots.learning_curves(rows))  # type: ignore[arg-type]  # a history may hold a note
    assert "Learning curves of loss, _gap." in svg
    sound(plots.learning_curves([]))
    wide = sound(plots.learning_curves([{"step": step, "loss": 10.0**-step} for step in range(4)]))
    assert "$" not in wide
    assert ">0.01<" in wide
    sound(plots.learning_curves([{"step": 3, "loss": 1.0}]))


def test_precision_and_recall_print_the_area_and_the_base_rate():
    rng = np.random.default_rng(0)
    unknown = rng.random(200) < 0.2
    score = rng.normal(size=200) + unknown
    drawn = plots.precision_recall({"ERM": score}, unknown)
    assert f"AUPR in percent: ERM {100 * average_precision_score(unknown, score):.1f}." in drawn
    assert "no unknown images" in plots.precision_recall({"ERM": score}, np.zeros(200, dtype=bool))
