"""What a sweep costs beyond its runs: its wall time over the sum of its runs' own times divided by the workers.

    OMP_NUM_THREADS=1 python benchmarks/sweep_overhead.py --times 5

Everything counts: starting Python, importing torch, reading the plan, workers that wait for the last run.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

PLAN = Path(__file__).parent.parent / "plans" / "smoke.toml"


def measure(plan: Path, workers: int, root: Path | None = None) -> dict[str, float]:
    """Carry a plan through in a fresh folder and return wall seconds, the runs' own seconds, and the overhead.

    Parts of the overhead, by the clock of the file system: seconds until the first run began, seconds in which a worker
    had no run left while another was at its last, and seconds from the last record to the end.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        words = ["bench", "run", str(plan), "--runs", str(home / "runs"), "--cache", str(home / "cache"), "--quiet"]
        words += ["--workers", str(workers), *(["--root", str(root)] if root else [])]
        start = time.time()
        subprocess.run([sys.executable, "-m", "madod", *words], check=True, stdout=subprocess.DEVNULL)
        wall = time.time() - start
        took, ends = [], []
        for file in (home / "runs").rglob("record.json"):
            took.append(sum(json.loads(file.read_text(encoding="utf-8"))["seconds"].values()))
            ends.append(file.stat().st_mtime - start)
    begin = min(end - seconds for end, seconds in zip(ends, took, strict=True))
    last = sorted(ends)[-workers:]  # of each worker, where runs are not much longer than others
    return {
        "runs": len(took),
        "wall": wall,
        "own": sum(took),
        "overhead": wall / (sum(took) / workers) - 1,
        "begin": begin,
        "uneven": last[-1] - last[0],
        "end": wall - last[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=PLAN)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--times", type=int, default=1, help="measure so often, and give the median too")
    how = parser.parse_args()
    overheads = []
    for _ in range(how.times):
        found = measure(how.plan, how.workers, how.root)
        overheads.append(100 * found["overhead"])
        print(
            f"{found['runs']} runs, {how.workers} workers: {found['wall']:.1f} s of wall time for {found['own']:.1f} s "
            f"of runs, {overheads[-1]:.1f} % over an even share ({found['begin']:.1f} s until the first began, "
            f"{found['uneven']:.1f} s between the workers' last, {found['end']:.1f} s after)",
            flush=True,
        )
    if how.times > 1:
        print(f"median {median(overheads):.1f} %, from {min(overheads):.1f} to {max(overheads):.1f} %")


if __name__ == "__main__":
    main()
