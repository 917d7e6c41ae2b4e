"""Run folders with more than a record: verdicts with pictures, outputs, a history; made up, with real structure."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from .records import record, write

CLASSES = ("dog", "elephant", "giraffe")


def write_run(
    root: Path,
    algorithm: str,
    domain: str,
    unknown: str,
    *,
    apart: float = 2.0,
    detectors: tuple[str, ...] = ("msp", "energy", "ddu"),
) -> Path:
    """Write a run on 120 target images whose known and unknown ones lie `apart`; return its folder."""
    rng = np.random.default_rng([len(algorithm), len(domain)])
    y = np.tile(np.array([0, 1, 2, -1]), 30)
    centres = 4 * np.eye(4, 8)
    features = (centres[y] + rng.normal(size=(120, 8))).astype(np.float32)
    logits = (2 * features[:, :3] + rng.normal(size=(120, 3))).astype(np.float32)
    score = (apart * (y < 0) + rng.normal(size=120)).astype(np.float32)
    found = {
        "accuracy": 0.8, "val_accuracy": 0.9, "ece": 0.1,
        **{name: {"auroc": 0.5 + apart / 10, "aupr": 0.5, "base_rate": 0.25, "fpr95": 0.4, "oscr": 0.5}
           for name in detectors},
    }  # fmt: skip
    folder = root / f"pacs-{algorithm}-{domain}-{unknown}-0"
    write(folder, record("pacs", algorithm, domain, unknown, 0, found))
    save_file({"target.features": features, "target.logits": logits, "target.y": y}, folder / "outputs.safetensors")
    history = [{"step": step, "loss": 2 / (1 + step)} for step in range(20)]
    folder.joinpath("history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in history))
    predicted, shown = logits.argmax(axis=1), np.array([3, 7, 0, 1])
    arrays = {"y": y, "predicted": predicted, "confidence": np.linspace(0.5, 1, 120, dtype=np.float32)}
    arrays |= {f"score.{name}": score for name in detectors} | {"shown": shown}
    arrays["pictures"] = rng.integers(0, 256, (4, 24, 24, 3), dtype=np.uint8)
    facts = {"classes": json.dumps(CLASSES), "truth": json.dumps([unknown, unknown, "dog", "elephant"])}
    save_file(arrays, folder / "verdicts.safetensors", facts)
    return folder
