"""Names as people see them: a file may be called anything, and its name must not steer a terminal or break a row."""

CONTROL = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160))}
r"""Characters that are no letters but orders, as Python writes them: \n, \x1b."""


def escaped(text: str) -> str:
    """Return a text for one line of a terminal: what would control it is spelt out."""
    return text.translate(CONTROL)
