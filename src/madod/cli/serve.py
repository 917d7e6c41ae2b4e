"""`madod serve`: a model behind HTTP, for programs and for people."""

import importlib
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from madod.cli.arguments import parse, torch_device
from madod.cli.using import model_in
from madod.errors import InputError


@dataclass(frozen=True)
class Serve:
    """Which model, and where."""

    model: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """Folder of a trained model, as `madod train --out` makes it."""
    port: int = 8000
    """Port to listen on; 0 takes any that is free."""
    host: str = "127.0.0.1"
    """Address to listen on; 127.0.0.1 is reached from this machine only, 0.0.0.0 from everywhere."""
    device: str = "auto"
    """cpu, cuda, or auto: the GPU where there is one."""
    patience: float = 10.0
    """Seconds that a slow client may keep the server waiting; a body has longer where it comes at 32 KiB a second."""
    max_images: int = 256
    """Pictures in a request."""
    max_megabytes: int = 64
    """Size of a request in MiB, and of a picture in it."""
    max_megapixels: int = 50
    """Size of a picture in millions of pixels."""


ABOUT = """Serve a trained model over HTTP.

GET / is a page to drop pictures on; POST /predict takes pictures, as files of a form or one as the body, and answers
in JSON; GET /model, /health and /metrics say the rest, and GET /openapi.json describes all of it. What the model's own
check warned of is said at the start, on the page and in /model. It listens on this machine only unless --host says
otherwise, and ends at Ctrl-C when the requests under way are answered."""


def main(arguments: Sequence[str]) -> int:
    """Serve until told to end."""
    how = parse(Serve, arguments, "serve", ABOUT)
    check_numbers(how)
    check_packages()
    import torch

    from madod.data.threads import cores
    from madod.serve.limits import MIB, Limits
    from madod.serve.server import is_loopback, serve

    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # what clients do wrong is their affair
    size = how.max_megabytes * MIB
    limits = Limits(
        images=how.max_images, image_bytes=size, body_bytes=size, pixels=how.max_megapixels * 10**6,
        held_bytes=max(size, Limits.held_bytes), patience=how.patience,
    )  # fmt: skip
    torch.set_num_threads(min(torch.get_num_threads(), max(1, cores() - limits.decoders)))
    model = model_in(how.model).to(torch_device(how.device))

    def ready(address: str) -> None:
        for warning in model.card.warnings:
            sys.stderr.write(f"madod: of this model's own check: {warning}\n")
        if not is_loopback(how.host):
            sys.stderr.write(
                f"madod: warning: {how.host} can be reached from other machines, without a password or encryption; the "
                "model's training pictures can be seen there too\n"
            )
        sys.stdout.write(f"{address}: open it in a browser, or POST pictures to {address}/predict; Ctrl-C ends it\n")
        sys.stdout.flush()

    serve(model, how.host, how.port, limits, ready)
    return 0


def check_numbers(how: Serve) -> None:
    """Refuse numbers that no server can start with."""
    for flag, value in (
        ("patience", how.patience),
        ("max-images", how.max_images),
        ("max-megabytes", how.max_megabytes),
    ):
        if not value >= 1:
            raise InputError(f"--{flag} {value} leaves nothing to serve: give 1 or more")
    if not 0 <= how.port <= 65535:
        raise InputError(f"there is no port {how.port}: give one up to 65535, or 0 for any that is free")
    if not 1 <= how.max_megapixels <= 100:
        raise InputError(f"--max-megapixels {how.max_megapixels} cannot be: give 1 to 100")


def check_packages() -> None:
    """Say what to install where a package is missing that only serving needs."""
    for name in ("fastapi", "python_multipart", "uvicorn"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise InputError(
                f"serving needs {error.name}, which is not installed: pip install 'madod[serve]' installs it"
            ) from None
