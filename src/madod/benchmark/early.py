"""All that a run imports, for a process that workers are copied from."""

from contextlib import suppress

from madod.errors import InputError

with suppress(InputError):  # of a plugin, say, which the sweep refuses in a sentence where it meets the same
    import madod.benchmark.work  # noqa: F401
