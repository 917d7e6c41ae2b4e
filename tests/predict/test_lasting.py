"""Models that people have saved go on to load and to answer as they did: names and meaning of what is in their files.

`lasting.json` was made by the version that first had this test (`tests.predict.lasting`). What differs from it would
break people's models: change it back, or raise `FORMAT` and say in `read_card` what to do with the old.
"""

import json
from dataclasses import MISSING, fields

import numpy as np
import pytest
import torch

from madod.algorithms.base import ALGORITHMS
from madod.detectors.base import DETECTORS
from madod.models.backbones import BACKBONES, build
from madod.predict import Card
from madod.predict.gallery import Gallery

from .lasting import CLASSES, FILE, NORMS, answers, learned, names, outputs, shell

LASTING = json.loads(FILE.read_text(encoding="utf-8"))


def test_what_files_hold_keeps_its_names_and_all_else_may_be_missing():
    assert set(LASTING["gallery"]) == set(Gallery._fields)
    assert set(LASTING["card"]) <= {field.name for field in fields(Card)}
    added = [field for field in fields(Card) if field.name not in LASTING["card"]]
    assert not [field for field in added if field.default is MISSING]


@pytest.mark.parametrize("key", LASTING["networks"])
def test_a_network_keeps_its_weights_and_what_they_mean(key):
    backbone, norm = key.split(", ")
    assert names(build(backbone, channels=3, classes=CLASSES, seed=0, norm=norm)) == LASTING["networks"][key]["names"]
    np.testing.assert_allclose(answers(backbone, norm), LASTING["networks"][key]["logits"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("algorithm", LASTING["algorithms"])
def test_a_method_keeps_the_names_of_its_weights(algorithm):
    assert names(shell(algorithm)) == LASTING["algorithms"][algorithm]


@pytest.mark.parametrize("detector", LASTING["detectors"])
def test_a_detector_scores_by_what_it_learned_long_ago(detector):
    kept = LASTING["detectors"][detector]
    state = {
        name: torch.tensor(each["values"], dtype=getattr(torch, each["dtype"])) for name, each in kept["state"].items()
    }
    assert learned(detector)["state"].keys() <= state.keys()
    old = DETECTORS[detector]().load_state(state)
    if not old.needs_model:
        np.testing.assert_allclose(old.score(outputs(6, 1.3)), kept["scores"], rtol=1e-4, atol=1e-6)


def test_everything_that_ships_is_kept():
    assert LASTING["networks"].keys() == {f"{name}, {norm}" for name in BACKBONES for norm in NORMS}
    assert LASTING["algorithms"].keys() == set(ALGORITHMS)
    assert LASTING["detectors"].keys() == set(DETECTORS)
