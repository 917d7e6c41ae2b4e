"""The protocol: leave one domain out, hide classes, hold out a fifth of the sources."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from madod.data.base import UNKNOWN, Domain, DomainDataset, Pool, pool
from madod.errors import InputError

log = logging.getLogger(__name__)


class Split(NamedTuple):
    """What training may see (source), what selection and thresholds may see (val), and what only the test sees."""

    source: Pool
    val: Pool
    target: Pool


def split(
    dataset: DomainDataset,
    *,
    test_domain: str | None,
    ood_classes: Sequence[str] = (),
    holdout: float = 0.2,
    split_seed: int = 0,
) -> Split:
    """Divide a dataset; unknown classes get label -1 and stand in target only.

    Every source domain's known images are divided `1 - holdout` to `holdout`, stratified by unit, copies in
    one together. The division of a unit's images in a domain depends on these and on `split_seed` alone. Without a
    test domain all domains are sources and target is empty. Labels are renumbered over the classes that stay known.
    """
    dataset.check_names()
    hidden = {dataset.unit_index(name) for name in ood_classes}
    sources = [name for name in dataset.domains if name != test_domain]
    if test_domain is not None:
        dataset.check_domain(test_domain)
    if not sources:
        raise InputError(f"{dataset.name} has one domain, {test_domain!r}, so none is left to train on: add another")
    read = {name: _fitting(dataset, name, dataset.read(name)) for name in dataset.domains}  # once: it may be a copy
    unseen = _unseen_classes(dataset, [read[name] for name in sources]) - hidden
    _warn_of_unseen([dataset.classes[label] for label in sorted(unseen)], test_domain)
    hidden |= unseen
    known = _known_classes(dataset, hidden)
    seen = _pool(dataset, [read[name] for name in sources], hidden, known)
    held = _held_out(seen, holdout, split_seed)
    trainable = seen.y != UNKNOWN
    target = seen.subset(torch.arange(0)) if test_domain is None else _pool(dataset, [read[test_domain]], hidden, known)
    result = Split(seen.subset(_where(trainable & ~held)), seen.subset(_where(trainable & held)), target)
    _warn_of_untested(result.target, ood_classes, test_domain)
    return result


def _fitting(dataset: DomainDataset, name: str, domain: Domain) -> Domain:
    """Return a domain; refuse a name, images, labels or units that are not what its dataset says of them."""
    if not isinstance(domain, Domain):
        raise InputError(f"read of {dataset.name} returns {type(domain).__name__}: let it return a Domain")
    if domain.name != name:  # measures by domain would be another's
        raise InputError(f"read of {dataset.name} calls {name!r} {domain.name!r}: let it return Domain({name!r}, ...)")
    images, wanted = domain.images, (len(domain.labels), *dataset.shape)
    if not isinstance(images, Tensor) or images.dtype != torch.uint8 or tuple(images.shape) != wanted:
        found = f"{getattr(images, 'dtype', type(images).__name__)} {tuple(getattr(images, 'shape', ()))}"
        raise InputError(
            f"the images of {domain.name!r} in {dataset.name} are {found}, and have to be a tensor of torch.uint8 "
            f"{wanted}: one image a label, of the dataset's shape (channels, height, width)"
        )
    for what, numbers, names in (("labels", domain.labels, dataset.classes), ("units", domain.units, dataset.units)):
        whole = isinstance(numbers, Tensor) and numbers.dtype in (torch.int64, torch.int32)
        there = set(numbers.unique().tolist()) if whole and numbers.shape == domain.labels.shape else {None}
        if not there <= {*range(len(names))}:
            raise InputError(
                f"the {what} of {domain.name!r} in {dataset.name} have to be a tensor of torch.int64, an image's from "
                f"0 to {len(names) - 1}: where its name stands among {', '.join(names)}"
            )
    return domain


def _unseen_classes(dataset: DomainDataset, sources: Sequence[Domain]) -> set[int]:
    """Return the classes that no source domain has, whatever the test domain has: nothing can learn them."""
    if dataset.units != dataset.classes:
        return set()
    return {*range(len(dataset.classes))} - {int(label) for domain in sources for label in domain.labels.unique()}


def _known_classes(dataset: DomainDataset, hidden: set[int]) -> list[int]:
    """Return the class indices that stay known; where units are finer than classes, all classes do."""
    finer = dataset.units != dataset.classes
    known = [k for k in range(len(dataset.classes)) if finer or k not in hidden]
    if len(known) < 2:
        raise InputError(
            f"a classifier needs two known classes, and {dataset.name} keeps {len(known)} "
            f"of {len(dataset.classes)} ({', '.join(dataset.classes)}): hide fewer or add one"
        )
    return known


def _pool(dataset: DomainDataset, domains: Sequence[Domain], hidden: set[int], known: Sequence[int]) -> Pool:
    """Return whole domains with labels renumbered over the known classes and -1 for hidden units."""
    whole = pool(domains, [dataset.classes[k] for k in known], dataset.units)
    numbers = torch.full((len(dataset.classes),), UNKNOWN)
    numbers[torch.tensor(known)] = torch.arange(len(known))
    unknown = torch.isin(whole.u, torch.tensor(sorted(hidden), dtype=torch.int64))
    return replace(whole, y=torch.where(unknown, UNKNOWN, numbers[whole.y]))


def _held_out(seen: Pool, holdout: float, split_seed: int) -> Tensor:
    """Mark the held-out images (n,) of every domain and unit, each of which draws from the seed and both their names.

    So how many images a hidden unit has decides nothing. Copies of an image are all held out or none: a network knows
    what it was trained on.
    """
    held = torch.zeros(len(seen), dtype=torch.bool)
    for k, domain in enumerate(seen.domains):
        for u, unit in enumerate(seen.units):
            rng = np.random.default_rng([split_seed, *domain.encode(), 0, *unit.encode()])
            rows = _where((seen.d == k) & (seen.u == u))
            first = _first_copies(seen, rows)
            different = first.unique()
            order = torch.from_numpy(rng.permutation(len(different)))
            held[rows] = torch.isin(first, different[order[: round(len(different) * holdout)]])
    return held


def never_held_out(parts: Split) -> list[tuple[int, str, str]]:
    """Return how many different images, unit and domain of every unit in a domain of which so few hold none out."""
    source, val = parts.source, parts.val
    trained, held = ({*zip(part.d.tolist(), part.u.tolist(), strict=True)} for part in (source, val))
    found = []
    for domain, unit in sorted(trained - held):
        different = _first_copies(source, _where((source.d == domain) & (source.u == unit))).unique()
        found.append((len(different), source.units[unit], source.domains[domain]))
    return found


GLANCE = 8
"""Pixels a side at which images are compared before those that look alike are compared in full."""


def _first_copies(seen: Pool, rows: Tensor) -> Tensor:
    """Return for each of these images (n,) the row of the first among them that is equal to it."""
    step = max(1, min(seen.shape[1:]) // GLANCE)
    glances: dict[bytes, list[int]] = {}
    for chunk in rows.split(1024):
        for row, image in zip(chunk.tolist(), seen.stored(chunk)[:, :, ::step, ::step], strict=True):
            glances.setdefault(image.numpy(force=True).tobytes(), []).append(row)
    first = {}
    for alike in glances.values():
        known: dict[bytes, int] = {}
        for row in alike:
            picture = seen.stored(torch.tensor([row])).numpy(force=True).tobytes() if len(alike) > 1 else b""
            first[row] = known.setdefault(hashlib.sha256(picture).digest(), row)
    return torch.tensor([first[row] for row in rows.tolist()], dtype=torch.int64)


def _where(mask: Tensor) -> Tensor:
    return mask.nonzero()[:, 0]


def _warn_of_unseen(classes: Sequence[str], test_domain: str | None) -> None:
    if classes:
        apart = f" while {test_domain!r} is held out" if test_domain else ""
        log.warning("%s: in no domain to train on%s, so unknown here", ", ".join(classes), apart)


def _warn_of_untested(target: Pool, ood_classes: Sequence[str], test_domain: str | None) -> None:
    if ood_classes and test_domain is None:
        log.warning(
            "%s: left out of training and tested nowhere, since no test domain is named", ", ".join(ood_classes)
        )
    elif ood_classes and not (target.y == UNKNOWN).any():
        log.warning("%s: not in the test domain %r, so nothing unknown is tested", ", ".join(ood_classes), test_domain)
