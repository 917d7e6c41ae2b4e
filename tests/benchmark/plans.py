"""Small plans for tests."""

from pathlib import Path

MINI = """
algorithms = ["erm"]
detectors = ["msp", "energy"]
seeds = [0, 1]
keep_models = false

[[datasets]]
name = "digits"
test_domains = ["neon"]
unknown = ["4"]
steps = 60

[[variants]]
name = "CE only"
algorithm = "madod"
hparams = { tasks = 1, invariance = 0, outer_invariance = 0, margin = 0 }

[hparams.erm]
batch = 8
"""


def written(folder: Path, text: str = MINI, name: str = "mini") -> Path:
    """Write a plan and return its file."""
    file = folder / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    return file
