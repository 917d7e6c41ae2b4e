"""What a run is carried out with; what is carried out is its spec's affair."""

from dataclasses import dataclass
from pathlib import Path

import torch

from madod.progress import Progress, silent
from madod.training import SLOWER


@dataclass(frozen=True)
class Resources:
    """Where a run keeps what others can use, what it computes on, and whom it tells."""

    cache: Path
    device: torch.device
    waive_gate: bool = False
    """Go on with a G outside its bounds."""
    compiled: bool = False
    """Have networks compiled however few the steps, for processes that do many such runs."""
    remedy: str = SLOWER
    """What a person is told to do where the training breaks down."""
    progress: Progress = silent
