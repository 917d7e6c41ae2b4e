"""What bfloat16 does to the answers of one trained network: the same weights in both precisions.

    madod train pacs --root DATA --out RUN --test-domain sketch --ood-class person ...
    python benchmarks/same_weights.py RUN --root DATA

Runs that are trained in the two precisions part company, as any two runs do after a rounding that differs; this is what
the rounding by itself is worth. On a GPU if there is one.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")  # without it bfloat16 ends the process on some CPUs

import torch

import madod
from madod.benchmark.record import load_record
from madod.data.opening import Opening, open_dataset
from madod.data.split import Split, split
from madod.evaluation.evaluate import Evaluation, evaluate
from madod.models.classifier import Classifier
from madod.models.compute import Compute, Precision
from madod.progress import silent

DETECTORS = ("msp", "energy", "ddu", "knn", "vim")


def answered(net: Classifier, parts: Split, precision: Precision) -> Evaluation:
    """Return what comes out in a precision."""
    net.compute = Compute(precision, channels_last=True)
    return evaluate(net, parts, DETECTORS)


def table(single: Evaluation, half: Evaluation) -> str:
    """Return all measures in percent in float32, and bfloat16 less float32 in points."""
    same = single.stored.outputs["target"].logits.argmax(1) == half.stored.outputs["target"].logits.argmax(1)
    lines = ["| | float32 | bfloat16 less float32 |", "|---|---|---|"]
    pairs = {"accuracy": (single.metrics["accuracy"], half.metrics["accuracy"])}
    for name in DETECTORS:
        for metric in ("auroc", "aupr"):
            pairs[f"{name}: {metric.upper()}"] = (single.metrics[name][metric], half.metrics[name][metric])
    lines += [f"| {name} | {100 * one:.2f} | {100 * (two - one):+.2f} |" for name, (one, two) in pairs.items()]
    return "\n".join(
        [*lines, "", f"{100 * float(same.float().mean()):.2f} % of {len(same)} images have the same label."]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a finished run with a test domain and an unknown class")
    parser.add_argument("--root", type=Path, help="where its dataset is")
    how = parser.parse_args()
    spec = load_record(how.run).spec
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = open_dataset(spec.dataset, Opening(root=how.root, size=spec.size), silent)
    whole = split(dataset, test_domain=spec.test_domain, ood_classes=spec.ood_classes, split_seed=spec.split_seed)
    parts = Split(*(part.to(device) for part in whole))
    net = madod.load(how.run).to(device).net
    if not isinstance(net, Classifier):
        parser.error(f"{spec.algorithm} ships several networks: take a run of a method with one")
    print(table(*(answered(net, parts, precision) for precision in ("float32", "bfloat16"))))


if __name__ == "__main__":
    main()
