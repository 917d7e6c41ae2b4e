"""`madod demo`: the whole story on embedded data, ending in a page to look at."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from madod.cli.arguments import Switch, parse, torch_device
from madod.cli.progress import shown

if TYPE_CHECKING:
    from madod.benchmark.outcome import Outcome
    from madod.benchmark.record import RunSpec
    from madod.report.inputs import Cell, Page

PAGE = "index.html"
TEST_DOMAIN, UNKNOWN = "neon", "4"
"""The cell of the demo, fixed before any run of it was looked at."""
ALGORITHMS = ("erm", "madod")
"""What is compared."""

ABOUT = """The whole story on embedded data, in about two minutes on two CPU cores.

Trains a generator G, ERM and MADOD on handwritten digits in three domains, tests them on a domain and a digit that
they never saw, and writes DIR/index.html, a page to look at, and DIR/demo.json, the numbers."""


@dataclass(frozen=True)
class Demo:
    """Where the demo goes."""

    out: Path = Path("demo")
    """Folder for the page, the numbers and the trained models."""
    seed: int = 0
    """Seed of weights and batches."""
    device: str = "auto"
    """cpu, cuda, or auto."""
    quiet: Switch = False
    """Print nothing but where the page is."""


def main(arguments: Sequence[str]) -> int:
    """Run both methods, write the page and the numbers."""
    how = parse(Demo, arguments, "demo", ABOUT)
    start = time.perf_counter()
    from madod.benchmark.claim import alone
    from madod.benchmark.record import refuse_seed
    from madod.storage import refuse_closed, refuse_file

    refuse_seed("seed", how.seed)
    refuse_file(how.out)
    refuse_closed(how.out)
    with alone(how.out), shown(how.quiet) as progress:
        from madod.benchmark.resources import Resources
        from madod.benchmark.run import run
        from madod.data.digits import Digits

        resources, outcomes = Resources(how.out / "cache", torch_device(how.device), progress=progress), {}
        for name in ALGORITHMS:
            outcomes[name] = run(demo_spec(name, how.seed), Digits(), out=how.out / name, resources=resources)
        progress("page", 0, 1)
        write(how, outcomes, start)
        progress("page", 1, 1)
    sys.stdout.write(f"{how.out / PAGE}: open it in a browser\n")
    return 0


def demo_spec(algorithm: str, seed: int) -> "RunSpec":
    """Return the demo's run of one method."""
    from madod.benchmark.record import RunSpec
    from madod.benchmark.settings import hparams

    return RunSpec("digits", TEST_DOMAIN, (UNKNOWN,), algorithm, seed, hparams=hparams(algorithm))


def write(how: Demo, outcomes: dict[str, "Outcome"], start: float) -> None:
    """Write `index.html` and `demo.json`."""
    from madod.report.page import demo_page
    from madod.storage import whole, write_json

    seconds: dict[str, Any] = {name: outcome.record.seconds for name, outcome in outcomes.items()}
    with whole(how.out / PAGE) as part:
        part.write_text(demo_page(page_of(how, outcomes, seconds)), encoding="utf-8")
    seconds["total"] = round(time.perf_counter() - start, 1)
    metrics = {name: outcome.record.metrics for name, outcome in outcomes.items()}
    versions = next(iter(outcomes.values())).record.versions
    write_json(how.out / "demo.json", {**metrics, "seconds": seconds, "versions": versions})


def page_of(how: Demo, outcomes: dict[str, "Outcome"], seconds: dict[str, Any]) -> "Page":
    """Gather what the page shows."""
    import torch

    from madod.data.digits import Digits
    from madod.report.inputs import Gauge, Page, Samples

    madod = outcomes["madod"]
    target, digits = madod.split.target, Digits()
    samples = {}
    for name in digits.domains:
        domain = digits.read(name)
        first = torch.stack([(domain.labels == k).nonzero()[0, 0] for k in range(len(digits.classes))])
        samples[name] = Samples(domain.images[first].permute(0, 2, 3, 1).numpy(), digits.classes)
    judged = madod.record.translation or {}
    return Page(
        title="Digits in a light never seen",
        dataset="digits (embedded)",
        test_domain=TEST_DOMAIN,
        sources=madod.split.source.domains,
        unknown=(UNKNOWN,),
        classes=target.classes,
        cells=tuple(cell_of(outcome) for outcome in outcomes.values()),
        images=target.stored(torch.arange(len(target), device=target.device)).permute(0, 2, 3, 1).cpu().numpy(),
        samples=samples,
        grid_png=madod.grid,
        translation={name: Gauge(judged[name], least) for name, least in judged.get("bounds", {}).items()},
        seconds=seconds,
        versions=madod.record.versions,
        command=f"madod demo --out {how.out} --seed {how.seed}",
    )


def cell_of(outcome: "Outcome") -> "Cell":
    """Return one method's part of the page, as plain arrays."""
    from madod.report.inputs import Cell

    target = outcome.evaluation.stored.outputs["target"]
    probabilities = target.logits.double().softmax(1)
    return Cell(
        algorithm=outcome.record.spec.algorithm,
        metrics=outcome.record.metrics,
        scores={name: score.numpy() for name, score in outcome.evaluation.scores.items()},
        threshold=outcome.evaluation.thresholds,
        y=outcome.split.target.y.cpu().numpy(),
        predicted=probabilities.argmax(1).numpy(),
        confidence=probabilities.max(1).values.numpy(),
        features=target.features.numpy(),
        history=outcome.history,
    )
