"""`madod export`: a trained model to one ONNX file."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from madod.cli.arguments import parse
from madod.cli.using import Using

ABOUT = """Write a trained model as one ONNX file that runs without madod.

The file takes uint8 pixels (n, 3, size, size), the whole picture squeezed to the model's size, and returns label,
confidence, probabilities, score and unknown; preprocessing, network, detector and threshold are inside. Its metadata
hold classes, threshold, detector, size and what the model's own check warned of. Where onnxruntime is installed the
file is asked before it is kept, and kept only if it answers as the model does."""


@dataclass(frozen=True, kw_only=True)
class Export(Using):
    """Which model, and where to write it."""

    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT.onnx")]
    """The file to write."""


def main(arguments: Sequence[str]) -> int:
    """Export, and say what the file holds."""
    how = parse(Export, arguments, "export", ABOUT)
    from madod.export import export
    from madod.export.check import PICTURES, TOLERANCE

    model = how.loaded(others=[how.out])
    compared = export(model, how.out)
    size, card = how.out.stat().st_size, model.card
    sys.stdout.write(
        f"{how.out}: {len(card.classes)} classes, {card.shape[1]} px, {card.detector}, threshold {card.threshold:.4g}, "
        f"{size / 1e6:.1f} MB\n"
        + (
            f"compared with the model on {PICTURES} made-up pictures: equal within {TOLERANCE}\n"
            if compared
            else "not compared with the model: that needs onnxruntime (pip install onnxruntime)\n"
        )
    )
    return 0
