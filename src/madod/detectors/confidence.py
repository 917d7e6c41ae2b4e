"""How unsure a softmax is of its favourite class."""

from torch import Tensor


def surprisal(logits: Tensor) -> Tensor:
    """-log max_k p_k = log(1 + sum_(k != argmax) exp(l_k - l_max)) of logits (n, k), in float64.

    Taken over the other classes alone, it keeps apart even images whose largest probability rounds to 1.
    """
    ranked = logits.double().sort(dim=-1, descending=True).values
    return (ranked[..., 1:] - ranked[..., :1]).exp().sum(-1).log1p()
