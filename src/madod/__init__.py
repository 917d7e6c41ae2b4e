"""Classify in domains never seen, and say so when shown a class never seen."""

__version__ = "0.1.0"
