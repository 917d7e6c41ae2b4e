"""What a sweep costs beyond its runs: its wall time over the sum of its runs' own times divided by the workers.

    python benchmarks/sweep_overhead.py

Everything counts: starting Python, importing torch, reading the plan, workers that wait for the last run.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PLAN = Path(__file__).parent.parent / "plans" / "smoke.toml"


def measure(plan: Path, workers: int, root: Path | None = None) -> dict[str, float]:
    """Carry a plan through in a fresh folder and return wall seconds, the runs' own seconds, and the overhead."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        words = ["bench", "run", str(plan), "--runs", str(home / "runs"), "--cache", str(home / "cache"), "--quiet"]
        words += ["--workers", str(workers), *(["--root", str(root)] if root else [])]
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "madod.cli.main", *words], check=True, stdout=subprocess.DEVNULL)
        wall = time.perf_counter() - start
        records = [json.loads(file.read_text(encoding="utf-8")) for file in (home / "runs").rglob("record.json")]
    own = sum(sum(record["seconds"].values()) for record in records)
    return {"runs": len(records), "wall": wall, "own": own, "overhead": wall / (own / workers) - 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=PLAN)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    how = parser.parse_args()
    found = measure(how.plan, how.workers, how.root)
    print(
        f"{found['runs']} runs, {how.workers} workers: {found['wall']:.1f} s of wall time for {found['own']:.1f} s of "
        f"runs, {100 * found['overhead']:.1f} % over an even share"
    )


if __name__ == "__main__":
    main()
