import json

import torch

from madod.data.base import Domain, Pool, pool
from madod.evaluation.evaluate import Evaluation
from madod.evaluation.outputs import Stored
from madod.evaluation.verdicts import SHOWN, save_verdicts, thumbnails
from madod.models.classifier import Outputs
from madod.storage import read_tensors


def target(n: int) -> Pool:
    images = torch.randint(0, 256, (n, 3, 8, 8), generator=torch.Generator().manual_seed(0)).byte()
    y = torch.tensor([0, 1, -1]).repeat(n // 3)
    return pool([Domain("here", images, y, y.where(y >= 0, 2))], ("cat", "dog"), ("cat", "dog", "fox"))


def test_the_most_confident_mistakes_of_both_kinds_are_kept(tmp_path):
    n = 90
    images = target(n)
    logits = 3 * torch.randn(n, 2, generator=torch.Generator().manual_seed(1))
    stored = Stored(
        {"target": Outputs(torch.zeros(n, 4), logits, None)}, {"target": images.y}, torch.zeros(2, 4), torch.zeros(2)
    )
    save_verdicts(tmp_path / "v.safetensors", images, Evaluation({}, {}, {}, {"energy": logits[:, 0]}, {}, stored))
    tensors, facts = read_tensors(tmp_path / "v.safetensors")
    confidence, predicted = logits.double().softmax(1).max(1)
    torch.testing.assert_close(tensors["confidence"], confidence.float())
    torch.testing.assert_close(tensors["score.energy"], logits[:, 0])
    known = [i for i in range(n) if images.y[i] >= 0 and predicted[i] != images.y[i]]
    unknown = [i for i in range(n) if images.y[i] < 0]
    wrong, missed = (sorted(kind, key=lambda i: -confidence[i])[:SHOWN] for kind in (known, unknown))
    assert tensors["shown"].tolist() == [*wrong, *missed]
    assert json.loads(facts["truth"])[-SHOWN:] == ["fox"] * SHOWN
    assert json.loads(facts["classes"]) == ["cat", "dog"]
    first = tensors["shown"][0]
    torch.testing.assert_close(tensors["pictures"][0], images.images[0][first].permute(1, 2, 0))


def test_no_target_leaves_no_file(tmp_path):
    empty = target(3).subset(torch.arange(0))
    save_verdicts(
        tmp_path / "v.safetensors",
        empty,
        Evaluation({}, {}, {}, {}, {}, Stored({}, {}, torch.zeros(0), torch.zeros(0))),
    )
    assert not list(tmp_path.iterdir())


def test_pictures_are_small_and_in_colour():
    assert thumbnails(torch.zeros(2, 1, 224, 112, dtype=torch.uint8)).shape == (2, 64, 32, 3)
    flat = torch.full((1, 3, 200, 100), 77, dtype=torch.uint8)
    assert thumbnails(flat).unique().tolist() == [77]
    assert thumbnails(torch.zeros(0, 3, 224, 224, dtype=torch.uint8)).shape[0] == 0
