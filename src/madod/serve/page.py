"""The page for people."""

from madod.serve.answers import About

POLICY = "default-src 'none'"


def page(facts: About) -> str:
    """Return the page."""
    return f"<p>{facts.classes}"
