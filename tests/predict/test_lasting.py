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
from madod.models.backbones import BACKBONES
from madod.predict import Card
from madod.predict.gallery import Gallery

from .lasting import FILE, NETWORKS, NORMS, SHELL, answers, bare, learned, names, outputs, shell

LASTING = json.loads(FILE.read_text(encoding="utf-8"))


def test_what_files_hold_keeps_its_names_and_all_else_may_be_missing():
    assert set(LASTING["gallery"]) == set(Gallery._fields)
    assert set(LASTING["card"]) <= {field.name for field in fields(Card)}
    added = [field for field in fields(Card) if field.name not in LASTING["card"]]
    assert not [field for field in added if field.default is MISSING and field.default_factory is MISSING]


@pytest.mark.parametrize("key", LASTING["networks"])
def test_a_network_keeps_its_weights_and_what_they_mean(key):
    backbone, norm = key.split(", ")
    assert_the_same(bare(backbone, norm), NETWORKS[backbone], LASTING["networks"][key])


@pytest.mark.parametrize("algorithm", LASTING["algorithms"])
def test_a_method_keeps_its_weights_and_what_its_network_makes_of_them(algorithm):
    assert_the_same(shell(algorithm), NETWORKS[SHELL], LASTING["algorithms"][algorithm])


def assert_the_same(net, side, kept):
    assert names(net) == kept["names"]
    said = answers(net, side)
    assert said.keys() == kept.keys() - {"names"}
    for part in said:
        np.testing.assert_allclose(said[part], kept[part], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("detector", LASTING["detectors"])
def test_a_detector_scores_by_what_it_learned_long_ago(detector):
    kept = LASTING["detectors"][detector]
    state = {
        name: torch.tensor(each["values"], dtype=getattr(torch, each["dtype"])) for name, each in kept["state"].items()
    }
    assert learned(detector)["state"].keys() <= state.keys()
    old = DETECTORS[detector](**kept["settings"]).load_state(state)
    if not old.needs_model:
        np.testing.assert_allclose(old.score(outputs(6, 1.3)), kept["scores"], rtol=1e-4, atol=1e-6)


def test_everything_that_ships_is_kept():
    assert LASTING["networks"].keys() == {f"{name}, {norm}" for name in BACKBONES for norm in NORMS}
    assert LASTING["algorithms"].keys() == set(ALGORITHMS)
    assert LASTING["detectors"].keys() == set(DETECTORS)
