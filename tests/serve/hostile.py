"""Requests that nobody means well with, each drawn from a generator, so that a failure can be had again."""

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
from PIL import Image, features

Rng = np.random.Generator

KINDS = ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "ICO"]
KINDS += ["JPEG2000"] * features.check("jpg_2000") + ["AVIF"] * features.check("avif")
NAMES = [
    "../../../etc/passwd", "..\\..\\windows\\win.ini", "/etc/shadow", "a" * 3000, "\u202egnp.exe", "名前.png", "", " ",
    ".", "a\x00b.png", "<script>alert(1)</script>.png", "'; drop table images; --", "${jndi:ldap://x}",
    "%2e%2e%2f", "CON",
    "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"), "a\nb.png", 'quo"te.png',
]  # fmt: skip
OTHERS = [
    b"%PDF-1.7 nothing", b"PK\x03\x04" + b"\0" * 60, b"\x7fELF" + b"\0" * 60, b"<svg width='9'/>",
    b"<html><img src=x onerror=alert(1)>", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage",
    b"8BPS\0\x01",
    b"\x1f\x8b\x08\0\0\0\0\0", b"\x80\x04\x95cposix\nsystem\n", b"P6 99999 99999 255\n",
    b"GIF89a\xff\xff\xff\xff\0\0\0,", b"BM" + b"\xff" * 60, b"II*\0\xff\xff\xff\xff",
    b"RIFF\xff\xff\xff\xffWEBPVP8X", b"\xff\xd8\xff\xe0", b"\0", b"\n" * 999,
]  # fmt: skip
QUERIES = [
    "threshold=nan", "threshold=inf", "threshold=1e999", "threshold=", "threshold=--1", "keep=0", "keep=1.0001",
    "keep=-1", "keep=nan", "keep=%00", "similar=-1", "similar=99999999999999999999", "similar=1.5",
    "keep=0.5&threshold=1",
    "a=" + "b" * 9000, "keep=0.9&keep=2", "%ff%fe=%ff", "&&&&=", "similar=" + "9" * 5000, "threshold[]=1",
    "keep=1;drop",
]  # fmt: skip
PATHS = [
    "/../../../etc/passwd", "/similar/../../etc/passwd", "/similar/%2e%2e%2f%2e%2e%2fetc%2fpasswd.png",
    "/similar/-1.png", "/similar/1e3.png", "/similar/" + "9" * 40 + ".png", "/similar/" + "9" * 9000 + ".png",
    "/similar/0.png/", "//",
    "/%00", "/similar/0.jpg", "/predict/", "/docs", "/.git/config", "/similar/NaN.png", "*", "http://elsewhere/",
    "/similar/%EF%BC%91.png",
]  # fmt: skip


def picture(rng: Rng, kind: str | None = None, side: int | None = None) -> bytes:
    """Return a sound picture of noise."""
    kind, side = kind or str(rng.choice(KINDS)), side or int(rng.integers(1, 80))
    file = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)).save(file, kind)
    return file.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def bomb(width: int, height: int) -> bytes:
    """Return a small PNG file of so many black pixels, one bit each."""
    squeezer = zlib.compressobj(9)
    row = bytes(1 + (width + 7) // 8)
    lines = b"".join(squeezer.compress(row * min(256, height - y)) for y in range(0, height, 256)) + squeezer.flush()
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")


def claimed(width: int, height: int) -> bytes:
    """Return a PNG file that claims to be large and holds nothing."""
    head = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


BOMBS = [
    bomb(20_000, 20_000),
    claimed(2**31 - 1, 2**31 - 1),
    claimed(60_000, 60_000),
    claimed(0, 0),
    bomb(51_000, 1000),
]
NOTES = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(64 * 2**20), 9))
BOMBS.append(bomb(8, 8)[:33] + NOTES + bomb(8, 8)[33:])


def spoilt(rng: Rng) -> bytes:
    """Return a picture cut short or with bytes changed."""
    data = bytearray(picture(rng))
    if rng.random() < 0.4:
        return bytes(data[: rng.integers(0, len(data))])
    for place in rng.integers(0, len(data), rng.integers(1, 20)):
        data[place] = rng.integers(0, 256)
    return bytes(data)


def bad(rng: Rng) -> bytes:
    """Return something in a picture's place."""
    ways: list[Callable[[], bytes]] = [
        lambda: spoilt(rng), lambda: spoilt(rng), lambda: OTHERS[rng.integers(len(OTHERS))],
        lambda: rng.bytes(int(rng.integers(0, 3000))), lambda: BOMBS[rng.integers(len(BOMBS))],
    ]  # fmt: skip
    return ways[rng.integers(len(ways))]()


def request(
    content: bytes, kind: str, *, query: str = "", head: str = "", method: str = "POST", path: str = "/predict"
) -> bytes:
    words = (
        f"{method} {path}{'?' + query if query else ''} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{head}"
    )
    return words.encode("utf-8", "surrogatepass") + f"Content-Length: {len(content)}\r\n\r\n".encode() + content


def form(files: list[tuple[str, bytes]], boundary: str = "xyz") -> bytes:
    """Return a form of named files, the names as they are."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="f"; filename="{name}"\r\n\r\n'.encode() + data + b"\r\n"
        for name, data in files
    ]
    return b"".join(parts) + f"--{boundary}--\r\n".encode()


def raw(rng: Rng) -> bytes:
    kinds = ["image/png", "image/jpeg", "application/octet-stream", "image/svg+xml", "image/../x", "IMAGE/PNG; q=é"]
    return request(bad(rng), str(rng.choice(kinds)))


def formed(rng: Rng) -> bytes:
    files = [(str(rng.choice(NAMES)), bad(rng)) for _ in range(rng.integers(0, 12))]
    if rng.random() < 0.3:
        files.append(("good.png", picture(rng, "PNG")))
    return request(form(files), "multipart/form-data; boundary=xyz")


def broken_form(rng: Rng) -> bytes:
    whole = form([("a.png", picture(rng, "PNG")) for _ in range(rng.integers(1, 4))])
    kinds = ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=" + "x" * 500]
    kinds += [
        "multipart/form-data; boundary=other",
        'multipart/form-data; boundary="xyz',
        "multipart/mixed; boundary=xyz",
    ]
    spoiling = [
        lambda: request(whole, str(rng.choice(kinds))),
        lambda: request(whole[: rng.integers(0, len(whole))], "multipart/form-data; boundary=xyz"),
        lambda: request(whole.replace(b"\r\n", b"\n"), "multipart/form-data; boundary=xyz"),
        lambda: request(form([("a", b"")] * 400), "multipart/form-data; boundary=xyz"),
        lambda: request(b"--xyz" * 2000, "multipart/form-data; boundary=xyz"),
        lambda: request(b"--xyz\r\n" + b"a: b\r\n" * 5000 + b"\r\n\r\n--xyz--", "multipart/form-data; boundary=xyz"),
    ]
    return spoiling[rng.integers(len(spoiling))]()


def asked(rng: Rng) -> bytes:
    return request(picture(rng, "PNG"), "image/png", query=str(rng.choice(QUERIES)))


def elsewhere(rng: Rng) -> bytes:
    method = str(rng.choice(["GET", "POST", "PUT", "DELETE", "TRACE", "OPTIONS", "HEAD", "PATCH", "X" * 300]))
    path = str(rng.choice([*PATHS, "/predict", "/model", "/"]))
    return request(b"", "text/plain", method=method, path=path, head="Connection: close\r\n")


def no_http(rng: Rng) -> bytes:
    good = request(picture(rng, "PNG"), "image/png")
    ways = [
        lambda: rng.bytes(int(rng.integers(1, 4000))) + b"\r\n\r\n",
        lambda: good.replace(b"Content-Length: ", b"Content-Length: -"),
        lambda: good.replace(b"Content-Length: ", b"Content-Length: 9z"),
        lambda: good.replace(b"Content-Length: ", b"Content-Length: 1\r\nContent-Length: "),
        lambda: good.replace(b"Content-Length: ", b"Transfer-Encoding: chunked\r\nContent-Length: "),
        lambda: good.replace(b"Content-Length: ", b"Transfer-Encoding: gzip\r\nX: "),
        lambda: good.replace(b"Host: localhost", b"A: " + b"b" * 100_000),
        lambda: good.replace(b"Host: localhost", b"\r\n".join(b"a%d: b" % k for k in range(9000))),
        lambda: good.replace(b"Host: localhost", b"Host: evil.example"),
        lambda: good.replace(b"Host: localhost", b"Host: localhost\r\nConnection: upgrade\r\nUpgrade: websocket"),
        lambda: good.replace(b"HTTP/1.1", b"HTTP/9.9"),
        lambda: good.replace(b"/predict", b"/" + b"p" * 70_000),
        lambda: good.replace(b"Host: localhost", b"Host: localhost\r\nExpect: 200-maybe"),
        lambda: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
        lambda: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.bytes(200) + b"\r\n\r\n",
        lambda: good.replace(b"Content-Length: ", b"Content-Length: 99999999999999999999\r\nX: "),
        lambda: (
            good.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\nffffffffff\r\nab\r\n0\r\n\r\n"
        ),
        lambda: good.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        lambda: good * 20,
    ]
    return ways[rng.integers(len(ways))]()


def draw(rng: Rng) -> tuple[bytes, bool]:
    """Return a hostile request, and whether to leave before it is answered."""
    ways = [raw, raw, formed, formed, broken_form, asked, elsewhere, no_http]
    whole = ways[rng.integers(len(ways))](rng)
    if rng.random() < 0.05:
        return whole[: rng.integers(1, len(whole) + 1)], True
    return whole, False
