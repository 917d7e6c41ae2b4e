"""Any network of timm, which is an extra: `timm:NAME`."""

import importlib
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from madod.errors import InputError, nearest
from madod.models.layers import Featurizer, Norm, Normalize, group_norm

PREFIX = "timm:"


def timm_package() -> Any:
    """Return timm, or say how to get it."""
    try:
        return importlib.import_module("timm")
    except ModuleNotFoundError as error:
        raise InputError(
            f"backbones whose names start with {PREFIX} need a package that is not installed: pip install timm"
        ) from error


def check_timm(name: str) -> str:
    """Return the name of a timm network, its prefix with it, or say that there is none."""
    timm, bare = timm_package(), name.removeprefix(PREFIX)
    if not timm.is_model(bare):
        close = nearest(bare, tuple(timm.list_models()))
        raise InputError(f"timm has no network {bare!r}{close}: timm.list_models() in Python lists them")
    return name


class TimmNet(nn.Module):
    """A network of timm without its head; its BatchNorm layers, where it has any, keep their statistics if frozen."""

    def __init__(self, name: str, channels: int, *, frozen: bool) -> None:
        super().__init__()
        self.model = timm_package().create_model(name, pretrained=False, num_classes=0, in_chans=channels)
        facts = self.model.pretrained_cfg
        self.normalize = Normalize(tuple(facts["mean"])[:channels], tuple(facts["std"])[:channels])
        self.frozen = frozen
        self.train()

    @property
    def batch_norms(self) -> list[nn.Module]:
        """Every layer that a batch's statistics go through."""
        return [layer for layer in self.model.modules() if isinstance(layer, _BatchNorm)]

    def train(self, mode: bool = True) -> "TimmNet":
        """Set the mode of all layers but frozen ones."""
        super().train(mode)
        for layer in self.batch_norms if self.frozen else ():
            layer.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Return pooled features of images in [0, 1]."""
        features: Tensor = self.model(self.normalize(images))
        return features


def timm_backbone(name: str, channels: int, norm: Norm) -> Featurizer:
    """Return a timm network; its own norms stay, frozen unless `norm` is a live one."""
    net = TimmNet(name, channels, frozen=norm is not nn.BatchNorm2d)
    if norm is group_norm and net.batch_norms:
        raise InputError(
            f"{PREFIX}{name} has BatchNorm, which is frozen here and so of no use without pretrained weights: "
            "give a file of them, or a network without BatchNorm"
        )
    width = getattr(net.model, "head_hidden_size", None) or net.model.num_features
    return Featurizer(net, int(width), lambda name: f"model.{name}")
