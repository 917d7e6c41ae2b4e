import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.covariance import empirical_covariance

from madod.detectors.base import Fit
from madod.detectors.confidence import surprisal
from madod.detectors.ddu import DDU
from madod.detectors.energy import Energy
from madod.detectors.gaussian import oas, oas_intensity
from madod.detectors.msp import MSP
from madod.errors import InputError
from madod.models.classifier import Outputs

CLASSES, FEATURES = 3, 16


def random_fit(images: int = 60, seed: int = 0) -> tuple[Fit, Outputs]:
    """Correlated, rectified features in float64 with labels that have nothing to do with the head, and 20 queries."""
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(FEATURES, FEATURES, generator=generator, dtype=torch.float64)
    weight = torch.randn(CLASSES, FEATURES, generator=generator, dtype=torch.float64)
    bias = torch.randn(CLASSES, generator=generator, dtype=torch.float64)

    def draw(n: int) -> Outputs:
        features = torch.relu(torch.randn(n, FEATURES, generator=generator, dtype=torch.float64) @ mix + 1)
        return Outputs(features, features @ weight.T + bias)

    train, val, y = draw(images), draw(40), torch.arange(images) % CLASSES
    return Fit(train, y, val, torch.arange(40) % CLASSES, weight, bias), draw(20)


@pytest.fixture
def fit() -> Fit:
    return random_fit()[0]


@pytest.fixture
def queries() -> Outputs:
    return random_fit()[1]


def softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max())
    return raised / raised.sum()


def close(measured: torch.Tensor, expected: list[float]) -> None:
    np.testing.assert_allclose(measured.numpy(), np.array(expected), rtol=1e-9, atol=1e-12)


def test_msp(queries):
    close(MSP().score(queries), [-np.log(softmax(logits).max()) for logits in queries.logits.numpy()])


def test_msp_keeps_apart_what_rounds_to_one():
    logits = torch.tensor([[0.0, 50.0, 1.0], [0.0, 51.0, 1.0], [0.0, 400.0, 1.0]])
    assert (logits.double().softmax(1).amax(1) == 1).all()
    first, second, third = MSP().score(Outputs(logits, logits))
    assert first > second > third > 0
    assert surprisal(logits)[0].item() == pytest.approx(np.exp(-50) + np.exp(-49), rel=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_energy(queries, temperature):
    expected = [-temperature * np.log(np.exp(row / temperature).sum()) for row in queries.logits.numpy()]
    close(Energy(temperature=temperature).score(queries), expected)


def shrunk(images: np.ndarray) -> np.ndarray:
    """S shrunk by the formula of Chen et al. 2010, written out entry by entry."""
    n, p = len(images) - 1, images.shape[1]
    covariance = np.cov(images.T)
    square, trace = np.trace(covariance @ covariance), np.trace(covariance)
    rho = min(1, ((1 - 2 / p) * square + trace**2) / ((n + 1 - 2 / p) * (square - trace**2 / p)))
    return (1 - rho) * covariance + rho * trace / p * np.eye(p)


def densities(queries: Outputs, means: list[np.ndarray], covariances: list[np.ndarray]) -> list[float]:
    """-log sum_k N(z; mu_k, S_k) by scipy."""
    gaussians = [multivariate_normal(mean, covariance) for mean, covariance in zip(means, covariances, strict=True)]
    return [-np.logaddexp.reduce([g.logpdf(z) for g in gaussians]) for z in queries.features.numpy()]


@pytest.mark.parametrize("images", [300, 60, 9])
def test_ddu_is_a_mixture_of_shrunk_gaussians(images):
    fit, queries = random_fit(images)
    groups = [fit.train.features.numpy()[fit.y == k] for k in range(CLASSES)]
    expected = densities(queries, [group.mean(0) for group in groups], [shrunk(group) for group in groups])
    close(DDU().fit(fit).score(queries), expected)


@pytest.mark.parametrize("ridge", [0.1, 3.0])
def test_ddu_with_a_ridge_is_the_released_one(fit, queries, ridge):
    groups = [fit.train.features.numpy()[fit.y == k] for k in range(CLASSES)]
    covariances = [np.cov(group.T) + ridge * np.eye(FEATURES) for group in groups]
    close(
        DDU(ridge=ridge).fit(fit).score(queries), densities(queries, [group.mean(0) for group in groups], covariances)
    )


def test_ddu_says_when_a_ridge_is_too_small():
    fit, _ = random_fit(9)
    with pytest.raises(InputError, match="ridge 0"):
        DDU(ridge=0).fit(fit)


@pytest.mark.parametrize("last", [[2], [2, 2]], ids=["one image", "two equal images"])
def test_ddu_borrows_the_pooled_covariance(queries, last):
    fit, _ = random_fit(60)
    y = torch.tensor([0, 1] * ((60 - len(last)) // 2) + [0] * (len(last) % 2) + last)
    features = fit.train.features.clone()
    features[y == 2] = features[-1].clone()
    groups = [features.numpy()[y == k] for k in range(3)]
    centred = np.concatenate([group - group.mean(0) for group in groups])
    pooled, degrees = centred.T @ centred / (60 - 3), 60 - 3
    borrowed = oas(torch.from_numpy(pooled), degrees).numpy()
    fit = fit._replace(train=fit.train._replace(features=features), y=y)
    means = [group.mean(0) for group in groups]
    close(DDU().fit(fit).score(queries), densities(queries, means, [shrunk(groups[0]), shrunk(groups[1]), borrowed]))


def test_ddu_ranks_float32_features_as_a_float64_reference_does():
    generator = torch.Generator().manual_seed(3)
    mix = torch.randn(96, 96, generator=generator) / 4
    y = torch.arange(400) % 6
    features = torch.relu(torch.randn(400, 96, generator=generator) @ mix + torch.randn(6, 96, generator=generator)[y])
    queries = torch.relu(torch.randn(200, 96, generator=generator) @ mix + 0.5)
    nothing = torch.zeros(6, 96)
    fit = Fit(Outputs(features, features), y, Outputs(features, features), y, nothing, nothing[:, 0])
    groups = [features.double().numpy()[y == k] for k in range(6)]
    reference = densities(
        Outputs(queries.double(), queries), [group.mean(0) for group in groups], [shrunk(group) for group in groups]
    )
    assert (DDU().fit(fit).score(Outputs(queries, queries)).argsort().numpy() == np.argsort(reference)).all()


def test_oas_intensity_by_hand():
    # p = 2, S = diag(3, 1), n = 8: tr S^2 = 10, tr S = 4, rho = (0 * 10 + 16) / (8 * (10 - 8)) = 1
    assert oas_intensity(torch.tensor([[3.0, 0.0], [0.0, 1.0]]), 8) == 1
    # n = 20: 16 / (20 * 2) = 0.4
    assert oas_intensity(torch.tensor([[3.0, 0.0], [0.0, 1.0]]), 20) == pytest.approx(0.4)
    torch.testing.assert_close(oas(torch.tensor([[3.0, 0.0], [0.0, 1.0]]), 20), torch.tensor([[2.6, 0.0], [0.0, 1.4]]))
    assert oas_intensity(torch.tensor([[5.0]]), 20) == 1


def test_oas_comes_closer_to_the_truth_than_the_plain_covariance():
    generator = np.random.default_rng(0)
    truth = np.diag(np.linspace(0.2, 3, 40))
    for n in (5, 20, 80):
        images = generator.standard_normal((n, 40)) @ np.sqrt(truth)
        plain = empirical_covariance(images)
        better = oas(torch.from_numpy(plain), n - 1).numpy()
        assert np.linalg.norm(better - truth) < np.linalg.norm(plain - truth)
