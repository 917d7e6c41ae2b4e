"""Nearest neighbours by brute force, exact, a block at a time."""

import torch
from torch import Tensor

ROWS, COLUMNS = 1024, 4096
"""Queries and bank entries compared at a time."""


def unit(vectors: Tensor) -> Tensor:
    """z / ||z|| in float64; zero stays zero."""
    return torch.nn.functional.normalize(vectors.double(), dim=1, eps=torch.finfo(torch.float64).tiny)


def top_similarities(features: Tensor, bank: Tensor, count: int) -> Tensor:
    """Return the largest inner products (n, count) of unit features with a bank (m, f); all m where it is smaller."""
    found = []
    for block in features.split(ROWS):
        queries = unit(block)
        best = queries.new_empty(queries.shape[0], 0)
        for part in bank.split(COLUMNS):
            products = torch.cat([best, queries @ part.double().mT], dim=1)
            best = products.topk(min(count, products.shape[1]), dim=1).values
        found.append(best)
    return torch.cat(found)
