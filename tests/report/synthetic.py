"""A page's inputs that look like a demo's: real digits in made-up domains, made-up scores with real structure."""

import dataclasses
import io
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score, roc_auc_score

from madod.report.inputs import Cell, Gauge, Page, Samples

UNKNOWN = 5
SHIFT = {"msp": 0.0, "energy": -9.0, "ddu": 40.0}


def painted(scans: np.ndarray, rng: np.random.Generator, look: int) -> np.ndarray:
    """Return scans (n, 8, 8) in 0..16 as pictures (n, 32, 32, 3) in one of four looks."""
    ink = np.kron(scans / 16.0, np.ones((4, 4)))[..., None]
    fore = rng.uniform(0.6, 1.0, (len(ink), 1, 1, 3)) if look else np.ones(3)
    back = (np.zeros(3), np.array([0.1, 0.2, 0.45]), rng.uniform(0, 0.4, (*ink.shape[:3], 3)), 0.92)[look]
    front = fore if look < 3 else 1 - fore
    return np.round(255 * np.clip(ink * front + (1 - ink) * back, 0, 1)).astype(np.uint8)


def cell(name: str, y: np.ndarray, classes: int, rng: np.random.Generator, apart: float) -> Cell:
    """Return results in which known and unknown images lie `apart` standard deviations from each other."""
    n, unknown = len(y), y < 0
    hidden = rng.normal(size=n) + apart * unknown
    scores = {key: shift + hidden + 0.4 * rng.normal(size=n) for key, shift in SHIFT.items()}
    predicted = np.where((rng.random(n) < 0.85) & ~unknown, y, rng.integers(0, classes, n))
    centres = 3 * rng.normal(size=(classes + 1, 32))
    known = {"accuracy": float((predicted == y)[~unknown].mean()), "ece": 0.05 / apart}
    ranked = {
        key: {
            "auroc": float(roc_auc_score(unknown, score)),
            "aupr": float(average_precision_score(unknown, score)),
            "base_rate": float(unknown.mean()),
            "fpr95": float((score[unknown] < np.quantile(score[~unknown], 0.95)).mean()),
            "oscr": 0.8 * float(roc_auc_score(unknown, score)),
        }
        for key, score in scores.items()
    }
    steps = np.arange(0, 300, 2)
    history = [
        {"step": int(step), "loss": 2.2 * np.exp(-step / 90) + 0.3 * rng.random(), "risk": 2 * np.exp(-step / 70) + 0.1}
        for step in steps
    ]
    return Cell(
        algorithm=name,
        metrics=known | ranked,
        scores=scores,
        threshold={key: float(np.quantile(score[~unknown], 0.9)) for key, score in scores.items()},
        y=y,
        predicted=predicted,
        confidence=rng.uniform(0.3, 1.0, n),
        features=centres[y] + rng.normal(size=(n, 32)) * 5 / apart,
        history=history,
    )


def demo(n: int = 150, **changes: Any) -> Page:
    """Return a whole page of n target images; `changes` replace its fields."""
    rng = np.random.default_rng(0)
    digits = load_digits()
    classes = tuple(str(digit) for digit in range(10) if digit != UNKNOWN)
    target, label = digits.images[:n], digits.target[:n]
    y = np.where(label == UNKNOWN, -1, label - (label > UNKNOWN))
    names = ("plain", "blueprint", "noise", "paper")
    first = [int(np.flatnonzero(digits.target[200:] == digit)[0]) + 200 for digit in range(10)]
    scans = digits.images[first]
    samples = {
        name: Samples(painted(scans, rng, look), [str(digit) for digit in range(10)]) for look, name in enumerate(names)
    }
    grid = np.concatenate([np.concatenate(list(painted(scans, rng, look)), axis=1) for look in (0, 1, 2)])
    buffer = io.BytesIO()
    Image.fromarray(grid).resize((grid.shape[1] * 2, grid.shape[0] * 2), Image.Resampling.NEAREST).save(buffer, "PNG")
    page = Page(
        title="A digit classifier, in handwriting it never saw",
        dataset="digits",
        test_domain="paper",
        sources=names[:3],
        unknown=(str(UNKNOWN),),
        classes=classes,
        cells=(cell("madod", y, 9, rng, 2.2), cell("erm", y, 9, rng, 1.2)),
        images=painted(target, rng, 3),
        samples=samples,
        grid_png=buffer.getvalue(),
        translation={"retention": Gauge(0.91, 0.6), "diversity": Gauge(0.74, 0.1)},
        seconds={"translation": 31.2, "erm": {"training": 14.0, "evaluation": 1.1}, "madod": {"training": 30.5}},
        versions={"madod": "0.1.0", "python": "3.11.7"},
        command="madod demo --out demo",
    )
    return dataclasses.replace(page, **changes)
