import pytest
import torch
from safetensors.torch import load, save

from madod.detectors.base import DETECTORS, Fit
from madod.models.classifier import Outputs

from .toy import fit_on, images, score, see, toy_fit

everyone = pytest.mark.parametrize("name", DETECTORS)


def known_and_unknown(classes):
    y = torch.arange(40) % classes
    return see(images(y, classes, 2), classes), see(images(torch.full((40,), classes), classes, 3), classes)


@everyone
def test_far_scores_higher_than_near(name):
    detector = DETECTORS[name]().fit(toy_fit())
    near, far = (score(detector, outputs) for outputs in known_and_unknown(3))
    assert near.shape == far.shape == (40,)
    assert near.dtype == torch.float64
    assert far.mean() > near.mean()
    assert (far[:, None] > near).double().mean() > 0.9


@everyone
def test_an_image_scores_the_same_in_any_company(name):
    detector = DETECTORS[name]().fit(toy_fit())
    y = torch.randint(4, (33,), generator=torch.Generator().manual_seed(0))
    mixed = images(y, 3, 4)
    together = score(detector, see(mixed, 3))
    alone = torch.cat([score(detector, see(image[None], 3)) for image in mixed])
    order = torch.randperm(33, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(alone, together, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(score(detector, see(mixed[order], 3)), together[order], rtol=1e-9, atol=1e-12)
    assert together.unique().numel() > 20


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saved_detectors_score_exactly_the_same(dtype):
    fit = toy_fit()
    train, val = (Outputs(*(tensor.to(dtype) for tensor in outputs)) for outputs in (fit.train, fit.val))
    fit = Fit(train, fit.y, val, fit.y_val, fit.weight.to(dtype), fit.bias.to(dtype))
    fitted = {name: DETECTORS[name]().fit(fit) for name in DETECTORS}
    file = save(
        {f"{name}.{key}": value for name, detector in fitted.items() for key, value in detector.state().items()}
    )
    saved, (near, _) = load(file), known_and_unknown(3)
    for name, detector in fitted.items():
        state = {key.removeprefix(f"{name}."): value for key, value in saved.items() if key.startswith(f"{name}.")}
        assert torch.equal(score(DETECTORS[name]().load_state(state), near), score(detector, near)), name


@everyone
def test_fitting_leaves_the_outputs_alone(name):
    fit, (near, _) = toy_fit(), known_and_unknown(3)
    before = [tensor.clone() for tensor in (*fit.train, *fit.val, fit.weight, fit.bias, *near)]
    score(DETECTORS[name]().fit(fit), near)
    after = (*fit.train, *fit.val, fit.weight, fit.bias, *near)
    assert all(torch.equal(x, y) for x, y in zip(before, after, strict=True))


@everyone
@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        pytest.param(2, [0, 1] * 30, id="two classes"),
        pytest.param(3, [0, 1] * 30 + [2], id="one image in a class"),
        pytest.param(3, [0, 1, 2], id="one image in every class"),
        pytest.param(3, [0, 1] * 30, id="a class without images"),
        pytest.param(3, [0, 1, 2] * 3, id="fewer images than features"),
        pytest.param(6, [0, 1, 2, 3, 4, 5] * 20, id="six classes"),
    ],
)
def test_few_images_still_tell_far_from_near(name, classes, labels):
    detector = DETECTORS[name]().fit(toy_fit(torch.tensor(labels), classes))
    near, far = (score(detector, outputs, classes) for outputs in known_and_unknown(classes))
    assert near.isfinite().all()
    assert far.isfinite().all()
    assert far.mean() > near.mean()


@everyone
@pytest.mark.parametrize("value", [0.0, 0.1, 3.0])
def test_constant_features_give_numbers(name, value):
    y = torch.arange(30) % 3
    constant = torch.full((30, 16), value)
    detector = DETECTORS[name]().fit(fit_on(constant, y, constant, y, 3))
    near, far = (score(detector, outputs) for outputs in known_and_unknown(3))
    assert near.isfinite().all()
    assert far.isfinite().all()
    assert score(detector, see(constant, 3)).isfinite().all()


@everyone
def test_some_constant_features_still_tell_far_from_near(name):
    y, y_val = torch.arange(120) % 3, torch.arange(60) % 3
    train, val = images(y, 3, 0), images(y_val, 3, 1)
    train[:, -1] = val[:, -1] = 0.5
    train[:, 0] = val[:, 0] = 0.0
    detector = DETECTORS[name]().fit(fit_on(train, y, val, y_val, 3))
    near, far = (score(detector, outputs) for outputs in known_and_unknown(3))
    assert near.isfinite().all()
    assert far.mean() > near.mean()


@everyone
def test_a_class_that_is_never_predicted(name):
    fit = toy_fit()
    train, val = (
        outputs._replace(logits=outputs.logits - torch.tensor([0.0, 0.0, 1e3])) for outputs in (fit.train, fit.val)
    )
    assert not (train.logits.argmax(1) == 2).any()
    detector = DETECTORS[name]().fit(fit._replace(train=train, val=val))
    near, far = (score(detector, outputs) for outputs in known_and_unknown(3))
    assert near.isfinite().all()
    assert far.isfinite().all()
