"""What the command line says of a dataset that is not what it should be."""

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from madod.data.base import DomainDataset

log = logging.getLogger(__name__)


def differences(dataset: "DomainDataset") -> tuple[str, ...]:
    """Return what differs from a published dataset's official counts."""
    from madod.data.published import Published

    return dataset.differences() if isinstance(dataset, Published) else ()


def warn_of_differences(dataset: "DomainDataset") -> None:
    """Say before anything long starts that a published dataset is not what it should be."""
    for phrase in differences(dataset):
        log.warning("this is not the whole official %s: %s", dataset.name, phrase)
