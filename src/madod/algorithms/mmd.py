"""MMD: features whose distributions agree across domains, seen through Gaussian kernels."""

from madod.algorithms.aligned_features import AlignedFeatures
from madod.algorithms.base import ALGORITHMS
from madod.equations import mmd


@ALGORITHMS.register("mmd")
class MMD(AlignedFeatures):
    """Risk plus the maximum mean discrepancy between the features of source domains [Li et al. 2018]."""

    distance = staticmethod(mmd)
