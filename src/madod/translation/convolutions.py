"""G's large convolutions, computed in cheaper shapes: exactly the same maps."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from madod.models.tiles import FEW, conv_by_tiles, laid_like, untiled


class TiledConv(nn.Conv2d):
    """A convolution from or to few channels that can make a tile of pixels at a time: exact, and faster on a GPU.

    A tile's pixels lie under one larger kernel; the small one, shifted inside it, makes each in a channel of its own.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return the maps that any convolution returns."""
        few = self.in_channels <= FEW
        side = 2 if few or x.requires_grad else 4  # the way back from tiles of 4 is slow
        whole = not any((pixels - self.kernel_size[0] + 1) % side for pixels in x.shape[2:])
        if not (torch.compiler.is_compiling() and whole):
            return super().forward(x)
        last = side - 1
        shifts = [F.pad(self.weight, (b, last - b, a, last - a)) for a in range(side) for b in range(side)]
        kernel = laid_like(torch.cat(shifts), self.weight)
        bias = None if self.bias is None else self.bias.repeat(side * side)
        return untiled(conv_by_tiles(x, kernel, bias) if few else F.conv2d(x, kernel, bias, stride=side), side)


class DoublingConv(nn.Conv2d):
    """A k x k convolution of maps doubled by nearest neighbour, zeros around them, computed before the doubling.

    Every second row of a doubled map repeats the one above it. So the k rows under a kernel are (k + 1) / 2 rows of the
    small map, each with the sum of the weights that fall on it: four small kernels make the four pixels for each one.
    """

    falls: Tensor

    def __init__(self, inside: int, outside: int, kernel: int) -> None:
        super().__init__(inside, outside, kernel)
        reach = kernel // 2
        self.near = (reach + 1) // 2
        falls = torch.zeros(2, 2 * self.near + 1, kernel)  # which row of the small map a kernel's row falls on
        for odd in (0, 1):
            for tap in range(kernel):
                falls[odd, (odd + tap - reach) // 2 + self.near, tap] = 1
        self.register_buffer("falls", falls, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return maps (n, outside, 2h, 2w) of maps (n, inside, h, w)."""
        small = torch.einsum("pak,qbl,oikl->pqoiab", self.falls, self.falls, self.weight).flatten(0, 2)
        bias = None if self.bias is None else self.bias.repeat(4)
        return untiled(F.conv2d(x, laid_like(small, self.weight), bias, padding=self.near), 2)
