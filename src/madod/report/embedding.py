"""Many numbers an image, drawn as a point on paper."""

import numpy as np
from numpy.typing import NDArray

FEWEST = 6
"""Below this many points neighbours mean nothing, and the two widest directions are shown instead."""
NEIGHBOURS = 8
"""Nearest others by which a point's surroundings are judged."""


def subsample(n: int, most: int) -> NDArray[np.intp]:
    """Return at most `most` of n indices, in order, the same ones each time."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, size=most, replace=False))


def widest(features: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the coordinates (n, 2) along the two directions of most variance; zeros where there is none."""
    points = np.zeros((len(features), 2))
    if features.size:
        centred = np.asarray(features, dtype=np.float64) - np.mean(features, axis=0, dtype=np.float64)
        left, size, right = np.linalg.svd(centred, full_matrices=False)
        signs = np.sign(right[np.arange(len(right)), np.abs(right).argmax(axis=1)])
        points[:, : min(2, len(size))] = (left * size * signs)[:, :2]
    return points


def embed(features: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return t-SNE coordinates (n, 2), the same ones each time [van der Maaten and Hinton 2008]."""
    start = widest(features)
    if len(features) < FEWEST:
        return start
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    tsne = TSNE(
        perplexity=min(30.0, (len(features) - 1) / 3),
        init=(start / max(float(start[:, 0].std()), 1e-12) * 1e-4).astype(np.float32),
        max_iter=500,
        random_state=0,
    )
    with threadpool_limits(limits=1):  # sums in one order give the same picture on any number of cores
        return np.asarray(tsne.fit_transform(np.asarray(features, dtype=np.float32)), dtype=np.float64)


def densest(points: NDArray[np.floating]) -> int:
    """Return the index of the point (n, 2) with the nearest neighbours: where a name is best written."""
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    return int(np.sort(distances, axis=1)[:, : NEIGHBOURS + 1].mean(axis=1).argmin())
