"""How DDU keeps its covariances definite when a class has few images: shrinkage and fixed ridges, side by side.

    madod train digits --algorithm erm --average 0 --test-domain neon --ood-class 4 --out RUN
    python benchmarks/ddu_shrinkage.py RUN

From a run's stored features, for growing numbers of training images a class: the mean log-density of held-out *source*
images (what a choice may look at; higher is better) and the AUROC in the unseen domain (what it may not).
"""

import argparse
from pathlib import Path

import torch

from madod.detectors.base import Fit
from madod.detectors.ddu import DDU
from madod.evaluation.metrics import auroc
from madod.evaluation.outputs import Stored, load_outputs
from madod.models.classifier import Outputs

CHOICES = {"shrinkage (default)": DDU(), "ridge 0.1 (released)": DDU(ridge=0.1)}
CHOICES |= {f"ridge {ridge:g}": DDU(ridge=ridge) for ridge in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5) if ridge != 0.1}


def few(stored: Stored, images: int) -> Fit:
    """Return a fit that sees the first `images` training images of every class."""
    y = stored.y["source"]
    rows = torch.cat([(y == label).nonzero()[:images, 0] for label in y.unique()])
    train, val = stored.outputs["source"], stored.outputs["val"]
    part = Outputs(train.features[rows], train.logits[rows])
    return Fit(part, y[rows], val, stored.y["val"], stored.weight, stored.bias)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a finished run with a test domain and an unknown class")
    stored = load_outputs(parser.parse_args().run / "outputs.safetensors")
    unknown = stored.y["target"] < 0
    counts = [3, 10, 30, 100]
    print(f"{stored.weight.shape[1]} features, {len(stored.weight)} classes; held-out log-density / AUROC in percent\n")
    print("| images a class | " + " | ".join(map(str, counts)) + " |\n|---" + "|---" * len(counts) + "|")
    for name, detector in CHOICES.items():
        cells = []
        for count in counts:
            detector.fit(few(stored, count))
            density = -float(detector.score(stored.outputs["val"]).mean())
            cells.append(f"{density:.0f} / {100 * auroc(detector.score(stored.outputs['target']), unknown):.1f}")
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
