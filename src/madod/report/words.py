"""What the names of records are called in front of a reader; a name without an entry stands for itself."""

from typing import NamedTuple


class Word(NamedTuple):
    """A name for readers and, in one plain clause, what it means."""

    title: str
    meaning: str = ""


class Measure(NamedTuple):
    """A measure for readers, in percent, and whether more of it is better."""

    title: str
    meaning: str
    higher: bool = True


ALGORITHMS = {
    "erm": Word("ERM", "plain training on all source pictures together"),
    "madod": Word(
        "MADOD",
        "training as a game of many small tasks, each of which restyles its pictures "
        "and treats one known class as if it were unknown",
    ),
    "irm": Word("IRM"),
    "mixup": Word("Mixup"),
    "mbdg": Word("MBDG"),
    "edir_mmd": Word("EDir-MMD"),
    "edst_mmd": Word("EDst-MMD"),
    "scone": Word("SCONE"),
    "daml": Word("DAML"),
    "medic": Word("MEDIC"),
    "mmd": Word("MMD"),
    "coral": Word("CORAL"),
}

DETECTORS = {
    "msp": Word("MSP", "minus the logarithm of the highest class probability"),
    "energy": Word("Energy", "how little the network responds with any class at all"),
    "ddu": Word("DDU", "how rare the picture's features are among the training features"),
    "own": Word("own score", "what the method itself says of unknown pictures"),
    "declared": Word("declared beforehand", "the detector that was chosen before any test"),
    "mean": Word("mean of 3", "the mean over MSP, Energy and DDU, run by run"),
    "best": Word("best of 3 *", "the best of MSP, Energy and DDU after the fact, as the paper's starred rows"),
    "alone": Word("accuracy alone", "runs in which no class is unknown"),
}

DATASETS = {
    "colored_mnist": Word("ColoredMNIST"),
    "pacs": Word("PACS"),
    "vlcs": Word("VLCS"),
    "terra_incognita": Word("TerraIncognita"),
    "terra_incognita_no_empty": Word("TerraIncognita without empty"),
    "office_home": Word("OfficeHome"),
    "rotated_mnist": Word("RotatedMNIST"),
}

OVERALL = {
    "accuracy": Measure("Accuracy", "share of known pictures that get their own label"),
    "ece": Measure("Calibration error", "how far confidence is from accuracy, on average", higher=False),
}

RANKED = {
    "auroc": Measure("AUROC", "chance that an unknown picture scores above a known one; 50 is a coin toss"),
    "aupr": Measure("AUPR", "average precision in finding the unknown; a coin toss gets their share of all pictures"),
    "fpr95": Measure("FPR95", "share of unknown pictures let through when 95 % of the known are kept", higher=False),
    "oscr": Measure("OSCR", "right labels on the known against unknowns let through, over all thresholds"),
}


def algorithm(name: str) -> Word:
    """Return what an algorithm is called."""
    return ALGORITHMS.get(name, Word(name))


def method(name: str) -> str:
    """Return what an algorithm, or a variant of one, is called."""
    head, comma, rest = name.partition(",")
    return f"{algorithm(head).title}{comma}{rest}"


def dataset(name: str) -> str:
    """Return what a dataset is called."""
    return DATASETS.get(name, Word(name)).title


def detector(name: str) -> Word:
    """Return what a detector is called."""
    return DETECTORS.get(name, Word(name))


def listed(names: tuple[str, ...] | list[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1] if names else "nothing"
