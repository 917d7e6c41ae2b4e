"""`madod serve` under load, as a share of decoding and scoring the same pictures in one process, in the same run.

    OMP_NUM_THREADS=1 python benchmarks/serve_load.py MODEL [--clients 200 --seconds 30 --images 32]

Clients keep one connection each and ask again as soon as they have an answer; all of it on this machine, so that they
take their share of its processors too. The reference is measured before and after the load, the faster way counting:
`Model.predict_iter`, which decodes in threads, or a plain loop.
"""

import argparse
import asyncio
import io
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from madod.data.digits import Digits
from madod.data.images import from_bytes
from madod.predict import Model, load

BOUNDARY = "a-boundary-of-the-benchmark"


def pictures(count: int, kind: str = "PNG") -> list[bytes]:
    """Return digits as picture files."""
    sets = [Digits().read(name).images for name in Digits.domains]
    found = []
    for place in range(count):
        file = io.BytesIO()
        pixels = sets[place % len(sets)][place // len(sets) % 400]
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(file, kind)
        found.append(file.getvalue())
    return found


def form(files: list[bytes]) -> bytes:
    """Return a whole request with these files."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="{place}.png"\r\n'
        f"Content-Type: image/png\r\n\r\n".encode()
        + file
        + b"\r\n"
        for place, file in enumerate(files)
    ]
    body = b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()
    head = (
        f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@contextmanager
def served(model: Path, *flags: str):
    """Give the port of a server in a process of its own, and its process; end it in order."""
    words = [sys.executable, "-m", "madod", "serve", str(model), "--port", "0", "--device", "cpu", *flags]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield int(process.stdout.readline().split(": ")[0].rpartition(":")[2]), process
    finally:
        process.terminate()
        assert process.wait(60) == 0


def family(pid: int) -> list[int]:
    """Return a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return [pid, *map(int, children)]


def memory(pid: int) -> int:
    """Return the bytes that a process and its children hold."""
    texts = [Path(f"/proc/{each}/status").read_text(encoding="utf-8") for each in family(pid)]
    return sum(int(text.partition("VmRSS:")[2].split()[0]) * 1024 for text in texts)


def worked(pid: int) -> float:
    """Return the processor seconds that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Read one answer: its status and its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    return int(head.split()[1]), await reader.readexactly(length)


async def client(port: int, requests, until: float, times: list[float], wrong: list[str], images: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        start = time.perf_counter()
        writer.write(next(requests))
        status, body = await answer(reader)
        times.append(time.perf_counter() - start)
        if status != 200 or body.count(b'"label"') < images or b'"error"' in body:
            wrong.append(f"{status} {body[:200]!r}")
    writer.close()


async def load_up(port: int, requests: list[bytes], clients: int, seconds: float, images: int) -> dict[str, object]:
    """Return what the clients saw."""
    times: list[float] = []
    wrong: list[str] = []
    source = itertools.cycle(requests)
    start = time.perf_counter()
    until = start + seconds
    await asyncio.gather(*(client(port, source, until, times, wrong, images) for _ in range(clients)))
    took = time.perf_counter() - start
    cuts = statistics.quantiles(times, n=100)
    return {
        "requests": len(times), "errors": len(wrong), "first error": wrong[:1], "p50": cuts[49], "p99": cuts[98],
        "slowest": max(times), "images a second": len(times) * images / took,
    }  # fmt: skip


def plain(model: Model, files: list[bytes], images: int) -> None:
    for start in range(0, len(files), images):
        model.judge([from_bytes(file, model.size) for file in files[start : start + images]])


def streamed(model: Model, files: list[bytes], images: int) -> None:
    for _ in model.predict_iter(iter(files)):
        pass


def alone(model: Model, files: list[bytes], images: int, seconds: float) -> dict[str, float]:
    """Return how many images a second one process decodes and scores, either way, and what the plain one costs."""
    found: dict[str, float] = {}
    for way in (plain, streamed):
        way(model, files[: 4 * images], images)
        start, rounds, used = time.perf_counter(), 0, time.process_time()
        while time.perf_counter() - start < seconds:
            way(model, files, images)
            rounds += 1
        found[way.__name__] = rounds * len(files) / (time.perf_counter() - start)
        found.setdefault("processor µs an image", (time.process_time() - used) / (rounds * len(files)) * 1e6)
    return found


def measure(
    folder: Path, *, clients: int = 200, seconds: float = 30.0, images: int = 32, reference: float = 3.0
) -> dict[str, object]:
    """Return throughput and times under load, the reference, and their ratio."""
    files, model = pictures(16 * images), load(folder)
    requests = [form(files[start : start + images]) for start in range(0, len(files), images)]
    before = alone(model, files, images, reference)
    with served(folder) as (port, process):
        at_rest, people = memory(process.pid), family(process.pid)
        used, own = [worked(pid) for pid in people], time.process_time()
        seen = asyncio.run(load_up(port, requests, clients, seconds, images))
        costs = [worked(pid) - before for pid, before in zip(people, used, strict=True)]
        spent = {"server": costs[0], "decoders": sum(costs[1:]), "clients": time.process_time() - own}
        held = memory(process.pid)
    after = alone(model, files, images, reference)
    plainly = statistics.mean(max(each["plain"], each["streamed"]) for each in (before, after))
    ratio = seen["images a second"] / plainly
    return seen | {
        "in one process, before": before, "in one process, after": after, "ratio": ratio,
        "processor µs an image": {name: cost / seen["requests"] / images * 1e6 for name, cost in spent.items()},
        "MiB at rest": at_rest / 2**20, "MiB after": held / 2**20, "processors": os.cpu_count(),
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--images", type=int, default=32)
    how = parser.parse_args()
    found = measure(how.model, clients=how.clients, seconds=how.seconds, images=how.images)
    print(json.dumps(found, indent=2, ensure_ascii=False))
