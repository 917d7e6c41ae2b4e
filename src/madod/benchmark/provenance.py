"""Where a record comes from: versions, commit, device, and how much memory it took."""

import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

import torch

import madod

PACKAGES = ("torch", "numpy", "scikit-learn", "pillow")


def versions(device: torch.device) -> dict[str, str]:
    """Return the versions of everything that could change a number, and what it was computed on."""
    own = {"madod": madod.__version__, "python": platform.python_version()}
    if known := commit():
        own["commit"] = known
    own["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return own | {name: metadata.version(name) for name in PACKAGES}


@cache
def commit() -> str | None:
    """Return the commit of the checkout that madod runs from, marked where its code was changed since; else None.

    Asked once a process, as the code is read once.
    """
    package = Path(madod.__file__).parent
    checkout = package.parent.parent
    if not (checkout / ".git").exists() or not (checkout / "pyproject.toml").exists():
        return None
    try:
        head, changes = (
            subprocess.run(["git", "-C", str(checkout), *words], capture_output=True, text=True, check=True).stdout
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--", str(package)))
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.strip() + ("+changes" if changes.strip() else "")


def reset_peaks(device: torch.device) -> None:
    """Forget how much memory earlier runs of this process took, where the system can."""
    with suppress(OSError):  # then the peak is the process's, over all of its runs
        Path("/proc/self/clear_refs").write_text("5")
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peaks(device: torch.device) -> dict[str, int]:
    """Return the most memory in use at once, in MiB: the process's own, and the GPU's where there is one."""
    memory = {"process_mib": _resident() // 2**20}
    if device.type == "cuda":
        memory["cuda_mib"] = torch.cuda.max_memory_allocated(device) // 2**20
    return memory


def _resident() -> int:
    """Return the peak of resident memory in bytes."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        import resource
        import sys

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
