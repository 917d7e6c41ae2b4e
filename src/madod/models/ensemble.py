"""Several classifiers that answer as one."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import skip_init

from madod.equations import surprisal
from madod.models.classifier import Classifier, Outputs, Setting


def pooled(logits: Tensor) -> Tensor:
    """l = log mean_m softmax(f_m) + mean_m lse(f_m): mean softmax and mean energy of members (m, n, k) [ours]."""
    softmax = logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))
    return softmax + logits.logsumexp(-1, keepdim=True).mean(0)


class Ensemble(nn.Module):
    """M classifiers: features are the members' side by side; logits the mean of the members' logits.

    `head` holds the members' heads side by side, over M, so that mean logits are exactly `head(features)`. With
    `probabilities` the members' softmaxes are averaged instead, and their energies (`pooled`): there `head` is an
    approximation, the mean logit. The own score is minus the largest mean logit, or minus the logarithm of the
    largest mean probability.
    """

    def __init__(self, members: Iterable[Classifier], *, probabilities: bool = False) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.probabilities = probabilities

    def forward(self, images: Tensor) -> Outputs:
        """Return joint features (n, m f), joint logits (n, k) and own scores (n,)."""
        outputs = [member(images) for member in self.members]
        features = torch.cat([out.features for out in outputs], 1)
        logits = torch.stack([out.logits for out in outputs])
        if self.probabilities:
            joint = pooled(logits)
            return Outputs(features, joint, surprisal(joint))
        mean = logits.mean(0)
        return Outputs(features, mean, -mean.amax(1))

    @property
    def head(self) -> nn.Linear:
        """The linear map (k, m f) from joint features to the mean of the members' logits."""
        heads = [member.get_submodule("head") for member in self.members]
        weight = torch.cat([head.get_parameter("weight").detach() for head in heads], 1) / len(heads)
        bias = torch.stack([head.get_parameter("bias").detach() for head in heads]).mean(0)
        joint: nn.Linear = skip_init(nn.Linear, weight.shape[1], weight.shape[0], device=weight.device)
        joint.weight, joint.bias = nn.Parameter(weight, False), nn.Parameter(bias, False)
        return joint


def one_per_domain(setting: Setting, *, probabilities: bool = False) -> Ensemble:
    """Return an ensemble of fresh networks, one for every source domain and two at the least."""
    return Ensemble([setting.make_net() for _ in range(max(2, setting.domains))], probabilities=probabilities)


@dataclass(frozen=True)
class Views:
    """Every member's view of every domain: features (m, d, n, f), heads of weight (m, k, f) and bias (m, k)."""

    features: Tensor
    weight: Tensor
    bias: Tensor

    @cached_property
    def logits(self) -> Tensor:
        """Every member's logits (m, d, n, k) of every domain's images."""
        return self.classify(self.features)

    def classify(self, features: Tensor) -> Tensor:
        """h_m(z) = W_m z + b_m: features (m, ..., f) to logits (m, ..., k)."""
        flat = torch.baddbmm(self.bias[:, None], features.flatten(1, -2), self.weight.mT)
        return flat.unflatten(1, features.shape[1:-1])


def views(ensemble: Ensemble, params: dict[str, Tensor], images: Tensor) -> Views:
    """Return all members' views of images that lie domain after domain, as many of each, one domain per member."""
    members = len(ensemble.members)
    features = functional_call(ensemble, params, (images,)).features
    weight, bias = (
        torch.stack([params[f"members.{m}.head.{name}"] for m in range(members)]) for name in ("weight", "bias")
    )
    return Views(features.view(members, -1, members, weight.shape[2]).movedim(2, 0), weight, bias)
