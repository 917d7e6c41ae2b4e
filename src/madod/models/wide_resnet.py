"""WRN-16-2 for 32 px [Zagoruyko & Komodakis 2016]: norm and ReLU come before every convolution."""

import torch.nn.functional as F
from torch import Tensor, nn

from madod.models.layers import Featurizer, Norm, Normalize


class WideBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is projected from the normalised input where shapes differ."""

    def __init__(self, inside: int, width: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.bn1, self.conv1 = norm(inside), nn.Conv2d(inside, width, 3, stride, padding=1, bias=False)
        self.bn2, self.conv2 = norm(width), nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.shortcut = None if inside == width else nn.Conv2d(inside, width, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return shortcut + residual."""
        ready = F.relu(self.bn1(x))
        out = self.conv2(F.relu(self.bn2(self.conv1(ready))))
        return out + (x if self.shortcut is None else self.shortcut(ready))


class WideResNet(nn.Module):
    """A wide residual network of depth 6 n + 4 without its head."""

    def __init__(self, depth: int, widen: int, channels: int, norm: Norm) -> None:
        super().__init__()
        self.normalize = Normalize((0.5,) * channels, (0.25,) * channels)
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        inside, blocks = 16, []
        for width, first in ((16 * widen, 1), (32 * widen, 2), (64 * widen, 2)):
            for stride in [first] + [1] * ((depth - 4) // 6 - 1):
                blocks.append(WideBlock(inside, width, stride, norm))
                inside = width
        self.blocks = nn.Sequential(*blocks)
        self.bn = norm(inside)

    def forward(self, images: Tensor) -> Tensor:
        """Return pooled features of images in [0, 1]."""
        return F.relu(self.bn(self.blocks(self.conv1(self.normalize(images))))).mean((2, 3))


def wrn_16_2(channels: int, norm: Norm) -> Featurizer:
    """Return WRN-16-2; `norm` may be a live `nn.BatchNorm2d`, but then the images of a batch see each other."""
    return Featurizer(WideResNet(16, 2, channels, norm), 128)
