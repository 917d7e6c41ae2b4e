"""Every warning once: what is looked at again in the next stage of a command is warned of again there."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class Fresh(logging.Filter):
    """Lets a message of ours pass the first time only."""

    def __init__(self) -> None:
        super().__init__("madod")
        self.said: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether it is the first one with these words, or none of ours."""
        words = record.getMessage()
        again = words in self.said and super().filter(record)
        self.said.add(words)
        return not again


@contextmanager
def once_each() -> Iterator[None]:
    """Say the same words once only, meanwhile."""
    fresh = [(handler, Fresh()) for handler in logging.getLogger().handlers]
    for handler, words in fresh:
        handler.addFilter(words)
    try:
        yield
    finally:
        for handler, words in fresh:
            handler.removeFilter(words)
