THREE = ("msp", "energy", "ddu")
"""The paper's detectors, simplest first: among equals the first is taken."""
