"""Names as people see them: a file may be called anything, and its name must not steer a terminal or break a row."""

ORDERS = (*range(32), *range(127, 160))
TURNS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Characters that end a line, or have the letters behind them written in the other direction."""
BYTES = range(0xDC80, 0xDD00)
"""What stands for bytes that are no UTF-8."""
CONTROL = {code: repr(chr(code))[1:-1] for code in (*ORDERS, *TURNS, *BYTES)}
r"""Characters that are no letters, as Python writes them: \n, \x1b, \u202e, \udcff."""


def escaped(text: str) -> str:
    """Return a text for one line of a terminal: what would control it is spelt out."""
    return text.translate(CONTROL)
