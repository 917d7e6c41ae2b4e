"""Classify in domains never seen, and say so when shown a class never seen.

Pictures lie in my_images/DOMAIN/CLASS/*.jpg. Twenty steps without G are for a first look; leave `steps` and
`translate` out, and both are chosen.

>>> import madod
>>> model = madod.fit("my_images/", out="my_model/", steps=20, translate="augment")
>>> model.classes
('cat', 'dog', 'fox')
>>> model = madod.load("my_model/")
>>> [answer] = model.predict("photo.jpg")
>>> answer.label
'dog'
>>> answer.unknown == (answer.score > model.threshold)
True

Nothing heavy is imported before one of the names is used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from madod.data.images import BadImage as BadImage
    from madod.errors import InputError as InputError
    from madod.fitting.fit import fit as fit
    from madod.predict import Checked as Checked
    from madod.predict import Findings as Findings
    from madod.predict import Measures as Measures
    from madod.predict import Model as Model
    from madod.predict import Neighbour as Neighbour
    from madod.predict import Picture as Picture
    from madod.predict import Prediction as Prediction
    from madod.predict import load as load

__version__ = "0.1.0"

_HOMES = {"fit": "madod.fitting.fit", "BadImage": "madod.data.images", "InputError": "madod.errors"} | dict.fromkeys(
    ("Checked", "Findings", "Measures", "Model", "Neighbour", "Picture", "Prediction", "load"), "madod.predict"
)
__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'madod' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
