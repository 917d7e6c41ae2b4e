"""Softmax probability of an image moved towards its favourite class."""

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from madod.detectors.base import DETECTORS, Detector
from madod.equations import surprisal
from madod.errors import InputError
from madod.models.classifier import Outputs


@DETECTORS.register("odin")
class ODIN(Detector):
    """-log max_k softmax(l(x') / T)_k, x' = x - step sign(grad_x CE(l(x) / T, argmax l(x))) [Liang et al. 2018].

    Images are pixels in [0, 1], so the step is in pixels and undivided by a standard deviation.
    """

    needs_model: ClassVar[bool] = True

    def __init__(self, *, temperature: float = 1000.0, step: float = 0.0014) -> None:
        self.temperature = temperature
        self.step = step

    def score(self, outputs: Outputs) -> Tensor:
        """Refuse: the gradient with respect to the image is not in stored outputs."""
        raise InputError("odin needs the network and the images, not stored outputs; choose another detector for these")

    def score_images(self, net: Callable[[Tensor], Outputs], images: Tensor) -> Tensor:
        """Return -log max_k softmax(l(x') / T)_k of images (n, c, h, w)."""
        with torch.enable_grad():
            pixels = images.detach().requires_grad_()
            loss = surprisal(net(pixels).logits.cpu().double() / self.temperature).sum()  # not all devices have float64
            (gradient,) = torch.autograd.grad(loss, pixels)
        with torch.no_grad():
            return surprisal(net(images - self.step * gradient.sign()).logits.cpu().double() / self.temperature)
