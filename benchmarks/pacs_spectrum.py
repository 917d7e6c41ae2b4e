"""What DDU sees of PACS: what its distances are made of, and what would change them.

    python benchmarks/pacs_choice.py --root DATA --out ROWS --keep FOLDS --settings NAME ...
    python benchmarks/pacs_spectrum.py FOLDS

FOLDS holds what networks make of the folds of PACS: their training images, held-out images of the same domains,
and the images of a domain that was left out, of which four classes are unknown. Printed for each setting, in the mean
over its folds: for every way of making covariances definite, and for other scores of the same features, the log-density
of held-out images (higher is better) and the AUROC of the unknown classes in the domain that was left out; then how the
spectra fall, and what groups of directions add to the distances.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor

from madod.detectors.base import DETECTORS, Detector
from madod.detectors.ddu import DDU
from madod.detectors.gaussian import centred, class_means, scatter, within_scatter
from madod.detectors.shrinkage import add_ridge, oas, oas_intensity
from madod.detectors.sphere import on_sphere
from madod.evaluation.evaluate import fit_of
from madod.evaluation.metrics import auroc
from madod.evaluation.outputs import Stored, load_outputs
from pacs_choice import HIDDEN, heading, line

UNKNOWN = ("animal", *HIDDEN)
OF_LENGTH_1 = ("shrinkage (default)", "rho 0.03", "rho 0.1", "rho 0.3", "rho 0.5", "mahalanobis", "vim")
GROUPS = (0, 10, 50, 200)
"""Where groups of a class's directions begin, those with most variance first; the last group has all that are left."""


class Definite(DDU):
    """DDU whose covariances are made definite by a function of a covariance (f, f) and its degrees of freedom."""

    def __init__(self, made: Callable[[Tensor, int], Tensor]) -> None:
        super().__init__()
        self.made = made

    def _cholesky(self, covariance: Tensor, degrees: int) -> Tensor:
        return torch.linalg.cholesky(self.made(covariance, degrees))


def fixed(covariance: Tensor, _: int, *, rho: float) -> Tensor:
    """(1 - rho) S + rho (tr S / p) I."""
    return add_ridge(covariance * (1 - rho), rho * float(covariance.trace()) / len(covariance))


def towards(covariance: Tensor, degrees: int, *, pooled: Tensor, share: float) -> Tensor:
    """(1 - a) S + a W, W being the covariance within classes, then shrunk as DDU's are [Friedman 1989, eqs. 16, 18]."""
    return oas((1 - share) * covariance + share * pooled, degrees)


class Measured(NamedTuple):
    """A way of scoring, the held-out log-density of a Gaussian one, and the AUROC of each unknown class."""

    name: str
    density: float | None
    auroc: dict[str, float]


def ways(stored: Stored) -> Iterator[tuple[str, Detector]]:
    """Yield all that are compared, other detectors of the same features among them."""
    total, degrees = within_scatter(stored.outputs["source"].features, stored.y["source"])
    yield "shrinkage (default)", DDU()
    yield "ridge 0.1 (released)", DDU(ridge=0.1)
    for rho in (0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0):
        yield f"rho {rho:g}", Definite(partial(fixed, rho=rho))
    for share in (0.5, 0.9, 1.0):
        yield f"{share:.0%} of W, then shrinkage", Definite(partial(towards, pooled=total / degrees, share=share))
    for name in ("mahalanobis", "knn", "vim", "msp", "energy"):
        yield name, DETECTORS[name]()


def measured(stored: Stored) -> Iterator[Measured]:
    """Measure every way; some of features of length 1 too, and that length by itself."""
    for name, detector in ways(stored):
        yield _measured(name, detector, stored)
    lengths = stored.outputs["target"].features.norm(dim=1)
    yield Measured("minus the length of features", None, by_class(-lengths, stored.y["target"]))
    sphere = stored._replace(outputs={part: on_sphere(found) for part, found in stored.outputs.items()})
    for name, detector in ways(sphere):
        if name in OF_LENGTH_1:
            yield _measured(f"{name}, features of length 1", detector, sphere)


def _measured(name: str, detector: Detector, stored: Stored) -> Measured:
    detector.fit(fit_of(stored))
    density = -float(detector.score(stored.outputs["val"]).mean()) if isinstance(detector, DDU) else None
    return Measured(name, density, by_class(detector.score(stored.outputs["target"]), stored.y["target"]))


def by_class(scores: Tensor, y: Tensor) -> dict[str, float]:
    """Return the AUROC of every unknown class in percent, against all known images."""
    found = {}
    for code, name in enumerate(UNKNOWN, 1):
        seen = (y >= 0) | (y == -code)
        found[name] = 100 * auroc(scores[seen], y[seen] < 0)
    return found


def covariances(stored: Stored) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Yield mean, unbiased covariance and degrees of freedom of every class."""
    features, y = stored.outputs["source"].features, stored.y["source"]
    for label, mean in zip(y.unique(), class_means(features, y), strict=True):
        degrees = int((y == label).sum()) - 1
        yield mean, scatter(features[y == label], mean) / degrees, degrees


def spectra(stored: Stored) -> Iterator[dict[str, float]]:
    """Yield for every class how its spectrum falls."""
    for _, covariance, degrees in covariances(stored):
        values = torch.linalg.eigvalsh(covariance).flip(0)
        yield {
            "images of a class": degrees + 1,
            "mean variance": float(values.mean()),
            "effective rank, tr^2 S / tr S^2": float(values.sum() ** 2 / values.square().sum()),
            "rho of the shrinkage": oas_intensity(covariance, degrees),
        } | {f"variance in the first {n}, %": 100 * float(values[:n].sum() / values.sum()) for n in GROUPS[1:]}


def shares(stored: Stored, rho: float | None) -> dict[str, list[float]]:
    """Return what every group of directions adds to the squared distance from the nearest class.

    In the mean over held-out images, and over known and unknown ones of the domain left out; then the AUROC of the
    group by itself, all unknown classes together. Without a rho the covariances are shrunk as DDU's are.
    """
    features = {part: stored.outputs[part].features for part in ("val", "target")}
    found: dict[str, list[Tensor]] = {part: [] for part in features}
    for mean, covariance, degrees in covariances(stored):
        intensity = oas_intensity(covariance, degrees) if rho is None else rho
        variances, axes = torch.linalg.eigh(fixed(covariance, degrees, rho=intensity))
        ends = (*GROUPS[1:], len(variances))
        for part, images in features.items():
            along = torch.cat([(block @ axes).square() / variances for block in centred(images, mean)]).flip(1)
            found[part].append(torch.stack([along[:, a:b].sum(1) for a, b in zip(GROUPS, ends, strict=True)], dim=1))
    near = {}
    for part, groups in found.items():
        classes = torch.stack(groups)  # (classes, images, groups)
        near[part] = classes[classes.sum(2).argmin(0), torch.arange(classes.shape[1])]
    unknown = stored.y["target"] < 0
    return {
        "held-out": near["val"].mean(0).tolist(),
        "known": near["target"][~unknown].mean(0).tolist(),
        "unknown": near["target"][unknown].mean(0).tolist(),
        "AUROC": [100 * auroc(group, unknown) for group in near["target"].unbind(1)],
    }


def report(home: Path) -> str:
    """Return the tables of one setting."""
    folds = [load_outputs(file) for file in sorted(home.glob("*.safetensors"))]
    width = folds[0].weight.shape[1]
    lines = [f"### {home.name}: {len(folds)} folds, {width} features", ""]
    lines += heading("score", "held-out log-density", "AUROC", *UNKNOWN)
    for same in zip(*(list(measured(fold)) for fold in folds), strict=True):
        density = "" if same[0].density is None else f"{fmean(one.density for one in same):.0f}"
        means = [fmean(one.auroc[name] for one in same) for name in UNKNOWN]
        lines.append(line(same[0].name, density, f"{fmean(means):.1f}", *(f"{mean:.1f}" for mean in means)))
    falls = [row for fold in folds for row in spectra(fold)]
    lines += ["", *heading(*falls[0]), line(*(f"{fmean(row[name] for row in falls):.3g}" for name in falls[0]))]
    names = [f"{a + 1} to {b}" for a, b in zip(GROUPS, (*GROUPS[1:], width), strict=True)]
    for rho in (None, 0.9):
        each = [shares(fold, rho) for fold in folds]
        lines += ["", *heading("directions, " + ("shrinkage" if rho is None else f"rho {rho:g}"), *names)]
        for key in each[0]:
            columns = zip(*(row[key] for row in each), strict=True)
            lines.append(line(key, *(f"{fmean(column):.1f}" for column in columns)))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print("\n".join(report(home) for home in sorted(Path(sys.argv[1]).iterdir())))
