"""Every number of a run, from the network or from what the run stored."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from madod.benchmark.claim import claimed
from madod.cli.main import main
from madod.data.digits import Digits
from madod.data.split import split
from madod.detectors.base import DETECTORS, Detector
from madod.errors import InputError
from madod.evaluation.evaluate import evaluate, evaluate_stored
from madod.evaluation.outputs import Stored, load_outputs, save_outputs
from madod.evaluation.threshold import FAR, KEEP, threshold
from madod.models.backbones import build
from madod.predict import Checked, load

STORABLE = [name for name in DETECTORS if name not in ("odin", "own")]


@pytest.fixture(scope="module")
def parts():
    return split(Digits(), test_domain="ink", ood_classes=("2",))


@pytest.fixture(scope="module")
def net():
    return build("small_cnn", channels=3, classes=9, seed=0)


def test_stored_outputs_give_the_same_numbers_for_every_detector(parts, net, tmp_path):
    whole = evaluate(net, parts, STORABLE)
    save_outputs(tmp_path / "outputs.safetensors", whole.stored)
    again = evaluate_stored(load_outputs(tmp_path / "outputs.safetensors"), STORABLE)
    assert again.metrics == whole.metrics
    assert again.thresholds == whole.thresholds
    assert set(STORABLE) <= set(again.metrics)


HEAVY = {"ddu", "ddu_unit", "knn", "mahalanobis", "mahalanobis_unit", "relation", "rmds", "vim"}
CUDA = torch.device("cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_gives_the_same_numbers(parts, net):
    stored = evaluate(net, parts, ["msp"]).stored
    here, there = evaluate_stored(stored, STORABLE), evaluate_stored(stored, STORABLE, CUDA)
    for name in STORABLE:
        torch.testing.assert_close(there.scores[name], here.scores[name], rtol=1e-6, atol=1e-6)
        assert there.thresholds[name] == pytest.approx(here.thresholds[name], rel=1e-6)
        assert all(value.device.type == "cpu" for value in there.detectors[name].state().values())


def test_detectors_that_are_worth_it_and_no_others_compute_on_a_gpu(parts, net, monkeypatch):
    stored, moved = evaluate(net, parts, ["msp"]).stored, []
    monkeypatch.setattr(Stored, "to", lambda self, device: moved.append(device) or self)
    there = evaluate_stored(stored, STORABLE, CUDA)
    assert moved == [CUDA] * len(HEAVY)
    assert {name for name in STORABLE if DETECTORS[name].heavy} == HEAVY
    assert there.metrics == evaluate_stored(stored, STORABLE).metrics


def test_a_gpu_that_cannot_is_done_without(parts, net, monkeypatch, caplog):
    stored = evaluate(net, parts, ["msp"]).stored

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Stored, "to", full)
    there = evaluate_stored(stored, ["ddu"], CUDA)
    assert there.metrics == evaluate_stored(stored, ["ddu"]).metrics
    assert "fitting ddu on the CPU, since the GPU could not: CUDA out of memory" in caplog.text


def test_odin_is_measured_with_the_network_and_refused_without(parts, net):
    result = evaluate(net, parts, ["odin", "msp"])
    assert 0 <= result.metrics["odin"]["auroc"] <= 1
    with pytest.raises(InputError, match="odin"):
        evaluate_stored(result.stored, ["odin"])


def test_a_compiled_network_is_measured_as_it_is_and_with_gradients_a_few_images_at_a_time(parts):
    net, compiled, seen = build("small_cnn", channels=3, classes=9, seed=0), [], []

    def backend(graph: torch.fx.GraphModule, given: object) -> object:
        compiled.append(graph)
        return graph.forward

    net.featurizer.compile(backend=backend, dynamic=False)
    net.register_forward_hook(lambda _, given, __: seen.append(len(given[0])) if torch.is_grad_enabled() else None)
    evaluate(net, parts, ["odin", "msp"])
    assert compiled == []
    assert max(seen) <= 64


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"score": lambda _, outputs: outputs.logits}, r"'mine' gives a Tensor \(243, 9\) for 243 images: .* \(243,\)"),
        ({"score": lambda _, outputs: outputs.logits[:, 0].numpy()}, r"'mine' gives a ndarray \(243,\) .* a tensor"),
        ({"score": lambda _, outputs: outputs.logits[:, 0] * np.nan}, "243 of 243 .* 'mine' .* the detector's doing"),
        ({"score": lambda _, outputs: outputs.logits[:, 0] - outputs.logits[:, 0].mean()}, "'mine' change .* beside"),
        ({"score": lambda _, outputs: outputs.logits.softmax(0)[:, 0]}, "'mine' change .* from its image alone"),
        (
            {"score": lambda _, outputs: (z := outputs.logits[:, 0]) - z.mean() + 1 / (z < z.sort().values[-1:])},
            "'mine' change .* beside",  # an infinite score among them hides nothing
        ),
        (
            {"score": lambda _, outputs: outputs.logits[:, 0].long()},
            "'mine' gives scores of torch.int64: .* float64",
        ),
        ({"score": lambda _, outputs: outputs.logits[:, 0] > 0}, "'mine' gives scores of torch.bool: .* in float64"),
        (
            {"score": lambda _, outputs: outputs.logits[:, 0].clone().requires_grad_()},
            "scores of the detector 'mine' .* gradients: let it detach what it learns in fit",
        ),
        (
            {"score": lambda _, outputs: outputs.logits[:, 0].double() * 0 + np.inf},
            "threshold of the detector 'mine' would be inf, .* let its scores be finite",
        ),
        (
            {"score": lambda _, outputs: outputs.logits.mul_(0)[:, 0]},
            "score of the detector 'mine' changes .* in place, .*: let it work on a copy",
        ),
        ({"fit": lambda self, fit: (fit.train.logits.zero_(), self)[1]}, "fit of the detector 'mine' changes .* copy"),
        ({"fit": lambda *_: None}, "fit of the detector 'mine' returns NoneType: let it return self"),
        ({"fit": lambda self, fit: (setattr(self, "mean", fit.y), self)[1]}, "'mine' learns mean, .* an underscore"),
        ({"fit": lambda self, _: (setattr(self, "mean_", 0.5), self)[1]}, "'mine' learns mean_, .* be tensors"),
    ],
)
def test_what_is_wrong_with_a_detector_of_ones_own_is_said(parts, net, monkeypatch, written, said):
    plain = {"score": lambda _, outputs: outputs.logits[:, 0]}
    monkeypatch.setitem(DETECTORS._classes, "mine", type("Mine", (Detector,), plain))
    stored = evaluate(net, parts, ["mine"]).stored
    monkeypatch.setitem(DETECTORS._classes, "mine", type("Mine", (Detector,), plain | written))
    with pytest.raises(InputError, match=said):
        evaluate_stored(stored, ["mine"])


def test_outputs_of_inference_mode_which_count_no_changes_are_measured_alike(parts, net):
    with torch.inference_mode():
        inside = evaluate(net, parts, ["energy", "ddu"]).metrics
    assert inside == evaluate(net, parts, ["energy", "ddu"]).metrics


def test_a_score_without_end_is_one_far_away_so_that_any_threshold_is_a_number(parts, net, monkeypatch):
    """JSON has no infinity, and a model keeps the scores of held-out images to set other thresholds from."""
    first = {"score": lambda _, outputs: torch.where(outputs.logits[:, 0] > cut, torch.inf, outputs.logits[:, 0])}
    stored = evaluate(net, parts, []).stored
    cut = stored.outputs["val"].logits[:, 0].sort().values[-3]
    monkeypatch.setitem(DETECTORS._classes, "mine", type("Mine", (Detector,), first))
    result = evaluate_stored(stored, ["mine"])
    assert threshold(result.held["mine"], 1.0) == FAR
    assert result.held["mine"].isfinite().all()
    assert result.scores["mine"].isfinite().all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", [name for name in DETECTORS if name != "own"])
def test_one_held_out_image_is_enough(parts, net, name):
    alone = parts._replace(val=parts.val.subset(torch.arange(1)))
    assert len(evaluate(net, alone, [name]).held[name]) == 1


def test_scores_of_features_that_are_no_numbers_are_not_the_detectors_doing(parts, net):
    stored = evaluate(net, parts, []).stored
    stored.outputs["val"].logits.fill_(np.nan)
    with pytest.raises(InputError, match=r"scores of the detector 'energy' .* behind them are not finite"):
        evaluate_stored(stored, ["energy"])


def test_the_threshold_keeps_its_share_of_held_out_source_images(parts, net):
    result = evaluate(net, parts, ["energy"])
    scores = result.detectors["energy"].score(result.stored.outputs["val"])
    kept = (scores <= result.thresholds["energy"]).double().mean()
    assert KEEP <= kept < KEEP + 1.5 / len(scores) + 1e-9


def test_without_a_target_only_held_out_source_images_are_measured(net):
    everything = split(Digits(), test_domain=None, ood_classes=("2",))
    result = evaluate(net, everything, ["msp"])
    assert set(result.metrics) == {"val_accuracy"}
    assert set(result.thresholds) == {"msp"}


def test_accuracy_counts_known_images_only(parts, net):
    result = evaluate(net, parts, [])
    y = parts.target.y.numpy()
    with torch.no_grad():
        predicted = net(parts.target.take(torch.arange(len(y)))).logits.argmax(1).numpy()
    assert result.metrics["accuracy"] == pytest.approx(np.mean((predicted == y)[y >= 0]))


def test_rescore_adds_a_detector_to_a_finished_run(tmp_path, capsys):
    out = tmp_path / "run"
    steps = ["--algorithm", "erm", "--steps", "2", "--test-domain", "ink", "--ood-class", "2", "--quiet"]
    assert main(["train", "digits", "--out", str(out), "--cache", str(tmp_path), *steps]) == 0
    before = json.loads((out / "record.json").read_text())
    (out / "model" / "model.safetensors").unlink()  # the model is not needed
    assert main(["rescore", str(out), "knn", "vim"]) == 0
    after = json.loads((out / "record.json").read_text())
    assert {"knn", "vim"} <= set(after["metrics"])
    assert {"knn", "vim"} <= set(after["thresholds"])
    assert after["metrics"]["msp"] == before["metrics"]["msp"]
    assert main(["rescore", str(out), "odin"]) == 2
    assert "odin" in capsys.readouterr().err
    assert main(["rescore", str(out)]) == 2
    with claimed(out):  # as another process does
        assert main(["rescore", str(out), "msp", "fdbd"]) == 2
    assert f"another process is at work in {out}: wait until it has ended" in capsys.readouterr().err
    assert json.loads((out / "record.json").read_text()) == after
    assert main(["rescore", str(tmp_path), "msp"]) == 2
    assert f"{tmp_path} is a folder of runs: name one of them, or write the detectors into" in capsys.readouterr().err
    assert main(["rescore", str(tmp_path / "nowhere"), "msp"]) == 2
    assert "there is no finished run in" in capsys.readouterr().err
    assert not (tmp_path / "lock").exists()
    (out / "outputs.safetensors").unlink()
    assert main(["rescore", str(out), "gen"]) == 2
    assert f"there is no {out / 'outputs.safetensors'}, which detectors are" in capsys.readouterr().err


def test_rescore_can_put_another_detector_into_the_saved_model(tmp_path, capsys):
    out = tmp_path / "run"
    steps = ["--algorithm", "erm", "--steps", "2", "--test-domain", "ink", "--ood-class", "2", "--quiet"]
    assert main(["train", "digits", "--out", str(out), "--cache", str(tmp_path), *steps]) == 0
    before = load(out)
    before.card = replace(
        before.card, check=Checked(2, 0.5, 0.6, ("not for labels of unknowns",), ("nor for strangers",))
    )
    before.save(out / "model")
    assert main(["rescore", str(out), "knn", "vim", "--ship"]) == 2
    assert "a model has one detector, and 2 are named" in capsys.readouterr().err
    assert load(out).card.detector == before.card.detector != "knn"
    assert main(["rescore", str(out), "knn", "--ship"]) == 0
    said = f"{out / 'report.html'} still shows the model as it was trained: the same madod train with --detector knn"
    assert said in capsys.readouterr().out
    after, record = load(out), json.loads((out / "record.json").read_text())
    assert (after.card.detector, after.threshold) == ("knn", pytest.approx(record["thresholds"]["knn"]))
    assert after.set_threshold() == pytest.approx(after.card.threshold)  # held-out scores are the new detector's
    labels, unknowns = after.check.warnings
    assert (labels, after.check.auroc) == ("not for labels of unknowns", None)
    assert unknowns.startswith("its check does not say how knn finds unknowns in held-out domains")
    stored = load_outputs(out / "outputs.safetensors")
    picture = Digits().read("ink").images[0]
    answer = after.predict([(picture.permute(1, 2, 0).numpy())])[0]
    assert answer.threshold == after.threshold
    assert np.isfinite(answer.score)
    assert len(after.held_scores) == len(stored.y["val"])
    made, anew = (out / "record.json").read_bytes(), "<dt>detector</dt><dd>knn</dd>"
    assert anew not in (out / "report.html").read_text(encoding="utf-8")
    assert main(["train", "digits", "--out", str(out), "--cache", str(tmp_path), *steps, "--detector", "knn"]) == 0
    assert anew in (out / "report.html").read_text(encoding="utf-8")
    assert (out / "record.json").read_bytes() == made
