import copy
from functools import partial

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.stats import entropy, multivariate_normal
from sklearn.covariance import empirical_covariance
from torch import nn

from madod.detectors import gaussian, neighbours, relation
from madod.detectors.ash import ASH
from madod.detectors.base import Fit
from madod.detectors.ddu import DDU
from madod.detectors.ddu_unit import UnitDDU
from madod.detectors.dice import DICE
from madod.detectors.energy import Energy
from madod.detectors.fdbd import FDBD
from madod.detectors.gen import GEN
from madod.detectors.grad_norm import GradNorm
from madod.detectors.kl_matching import KLMatching
from madod.detectors.knn import KNN
from madod.detectors.mahalanobis import Mahalanobis
from madod.detectors.mahalanobis_unit import UnitMahalanobis
from madod.detectors.max_logit import MaxLogit
from madod.detectors.msp import MSP
from madod.detectors.nnguide import NNGuide
from madod.detectors.odin import ODIN
from madod.detectors.own import Own
from madod.detectors.react import ReAct
from madod.detectors.relation import Relation
from madod.detectors.rmds import RMDS
from madod.detectors.scale import Scale
from madod.detectors.she import SHE
from madod.detectors.shrinkage import oas, oas_intensity
from madod.detectors.temp_scale import TempScale
from madod.detectors.vim import ViM
from madod.equations import surprisal
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


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Let every blockwise computation cross several blocks."""
    monkeypatch.setattr(gaussian, "ROWS", 7)
    for module in (neighbours, relation):
        monkeypatch.setattr(module, "ROWS", 7)
        monkeypatch.setattr(module, "COLUMNS", 11)


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
    assert surprisal(logits.double())[0].item() == pytest.approx(np.exp(-50) + np.exp(-49), rel=1e-12, abs=0)


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


def test_ddu_shrinks_by_at_least_what_it_is_told(fit, queries):
    groups = [fit.train.features.numpy()[fit.y == k] for k in range(CLASSES)]
    expected = densities(queries, [group.mean(0) for group in groups], [mixed(group, 0.9) for group in groups])
    close(DDU(least=0.9).fit(fit).score(queries), expected)
    assert torch.equal(DDU(least=1e-9).fit(fit).score(queries), DDU().fit(fit).score(queries))


def mixed(group: np.ndarray, rho: float) -> np.ndarray:
    covariance = np.cov(group.T)
    return (1 - rho) * covariance + rho * np.trace(covariance) / len(covariance) * np.eye(len(covariance))


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


def head_energy(fit: Fit, features: np.ndarray) -> float:
    return -np.log(np.exp(fit.weight.numpy() @ features + fit.bias.numpy()).sum())


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.sqrt((vector**2).sum())


def test_max_logit(queries):
    close(MaxLogit().score(queries), [-max(row) for row in queries.logits.tolist()])


def test_temp_scale(fit, queries):
    fit = fit._replace(y_val=torch.where(torch.arange(40) % 4 == 0, fit.y_val, fit.val.logits.argmax(1)))
    logits, y = fit.val.logits.numpy() / 5, fit.y_val.numpy()

    def loss(temperature):
        return -np.mean([np.log(softmax(row / temperature)[label]) for row, label in zip(logits, y, strict=True)])

    best = minimize_scalar(loss, bounds=(0.1, 10), method="bounded", options={"xatol": 1e-10}).x
    detector = TempScale().fit(fit._replace(val=Outputs(fit.val.features, torch.from_numpy(logits))))
    assert detector.temperature_.item() == pytest.approx(best, rel=1e-5)
    assert 0.2 < best < 9
    temperature = detector.temperature_.item()
    close(detector.score(queries), [-np.log(softmax(row / temperature).max()) for row in queries.logits.numpy()])


def test_temp_scale_stays_in_bounds_where_every_image_is_right(fit):
    right = Outputs(fit.val.features, 5 * nn.functional.one_hot(fit.y_val, CLASSES).double())
    assert TempScale().fit(fit._replace(val=right)).temperature_.item() == pytest.approx(0.1)
    wrong = Outputs(fit.val.features, -right.logits)
    assert TempScale().fit(fit._replace(val=wrong)).temperature_.item() == pytest.approx(10)


class SmallNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(12, 8).double(), nn.Linear(8, CLASSES).double()

    def forward(self, images: torch.Tensor) -> Outputs:
        features = self.body(images.flatten(1)).tanh()
        return Outputs(features, self.head(features))


@pytest.mark.parametrize(("temperature", "step"), [(1000.0, 0.0014), (1.0, 0.1)])
def test_odin(temperature, step):
    net, expected = SmallNet(), []
    images = torch.rand(9, 3, 2, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for image in images:
        x = image[None].clone().requires_grad_()
        logits = net(x).logits / temperature
        nn.functional.cross_entropy(logits, logits.argmax(1)).backward()
        moved = x.detach() - step * x.grad.sign()
        expected.append(-net(moved).logits.div(temperature).softmax(1).max().log().item())
    net.zero_grad()
    close(ODIN(temperature=temperature, step=step).score_images(net, images), expected)
    assert all(parameter.grad is None for parameter in net.parameters())
    with torch.no_grad():
        close(ODIN(temperature=temperature, step=step).score_images(net, images), expected)


class WithoutFloat64(torch.Tensor):
    """Numbers on a device that has no float64, as Apple's GPUs."""

    def cpu(self) -> torch.Tensor:
        return self.as_subclass(torch.Tensor)

    def double(self) -> torch.Tensor:
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype")


def test_odin_asks_no_float64_of_a_device():
    net, images = SmallNet(), torch.rand(9, 3, 2, 2, dtype=torch.float64)

    def elsewhere(pixels: torch.Tensor) -> Outputs:
        return net(pixels)._replace(logits=net(pixels).logits.as_subclass(WithoutFloat64))

    close(ODIN().score_images(elsewhere, images), ODIN().score_images(net, images).tolist())


def test_odin_refuses_stored_outputs(queries):
    with pytest.raises(InputError, match="needs the network"):
        ODIN().score(queries)


@pytest.mark.parametrize(("gamma", "top"), [(0.1, 100), (2.0, 2)])
def test_gen(queries, gamma, top):
    queries = queries._replace(logits=queries.logits / 8)
    ranked = [sorted(softmax(row), reverse=True)[:top] for row in queries.logits.numpy()]
    close(GEN(gamma=gamma, top=top).score(queries), [sum(p**gamma * (1 - p) ** gamma for p in row) for row in ranked])


def test_gen_keeps_apart_what_rounds_to_one():
    logits = torch.tensor([[0.0, 60.0]])
    assert GEN(gamma=0.5).score(Outputs(logits, logits)).item() == pytest.approx(2 * np.exp(-30), rel=1e-9, abs=0)


def test_kl_matching(fit, queries):
    fit = fit._replace(val=Outputs(fit.val.features, fit.val.logits / 8))
    p, predicted = [softmax(row) for row in fit.val.logits.numpy()], fit.val.logits.argmax(1).tolist()
    typical = [np.mean([row for row, label in zip(p, predicted, strict=True) if label == k], 0) for k in range(CLASSES)]
    expected = [min(entropy(softmax(row), d) for d in typical) for row in queries.logits.numpy()]
    close(KLMatching().fit(fit).score(queries), expected)


def test_kl_matching_takes_one_hot_for_a_class_never_predicted(fit):
    val = Outputs(fit.val.features, torch.tensor([[3.0, 1.0, 0.0]]).repeat(40, 1))
    detector = KLMatching().fit(fit._replace(val=val))
    assert detector.typical_[1:].tolist() == [[0, 1, 0], [0, 0, 1]]
    exact = torch.tensor([[0.0, 1e4, 0.0], [3.0, 1.0, 0.0]])
    torch.testing.assert_close(detector.score(Outputs(exact, exact)), torch.zeros(2).double(), atol=1e-7, rtol=0)


def test_grad_norm_is_the_norm_of_the_gradient(fit, queries):
    signed = queries.features - 1  # not every network's features are rectified
    expected = []
    for features in signed:
        weight = fit.weight.clone().requires_grad_()
        logits = weight @ features + fit.bias
        (-logits.log_softmax(0).sum()).backward()
        expected.append(-weight.grad.abs().sum().item())
    close(GradNorm().score(Outputs(signed, signed @ fit.weight.T + fit.bias)), expected)


def mahalanobis(z: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    return (z - mean) @ np.linalg.inv(covariance) @ (z - mean)


def within(fit: Fit) -> tuple[list[np.ndarray], np.ndarray]:
    """Class means and the covariance of class-centred features."""
    groups = [fit.train.features.numpy()[fit.y == k] for k in range(CLASSES)]
    return [group.mean(0) for group in groups], empirical_covariance(np.concatenate([g - g.mean(0) for g in groups]))


def test_mahalanobis(fit, queries):
    means, covariance = within(fit)
    expected = [min(mahalanobis(z, mean, covariance) for mean in means) for z in queries.features.numpy()]
    close(Mahalanobis().fit(fit).score(queries), expected)


def test_mahalanobis_shrinks_a_singular_covariance():
    fit, queries = random_fit(12)
    means, covariance = within(fit)
    assert np.linalg.matrix_rank(covariance) < FEATURES
    definite = oas(torch.from_numpy(covariance), 12 - CLASSES).numpy()
    expected = [min(mahalanobis(z, mean, definite) for mean in means) for z in queries.features.numpy()]
    close(Mahalanobis().fit(fit).score(queries), expected)


@pytest.mark.parametrize("copies", [0.1, 1.0, 3.0])
def test_mahalanobis_shrinks_where_only_rounding_makes_the_covariance_definite(fit, queries, copies):
    def with_copy(outputs):
        return outputs._replace(features=torch.cat([outputs.features, copies * outputs.features[:, :1]], dim=1))

    fit, queries = fit._replace(train=with_copy(fit.train)), with_copy(queries)
    means, covariance = within(fit)
    definite = oas(torch.from_numpy(covariance), 60 - CLASSES).numpy()
    expected = [min(mahalanobis(z, mean, definite) for mean in means) for z in queries.features.numpy()]
    close(Mahalanobis().fit(fit).score(queries), expected)


@pytest.mark.parametrize(
    ("bare", "on_sphere"),
    [(DDU, partial(UnitDDU, least=0)), (partial(DDU, least=0.7), partial(UnitDDU, least=0.7)),
     (Mahalanobis, UnitMahalanobis)],
)  # fmt: skip
def test_unit_detectors_see_directions_alone(fit, queries, bare, on_sphere):
    def shortened(outputs):
        lengths = np.linalg.norm(outputs.features.numpy(), axis=1, keepdims=True)
        return outputs._replace(features=outputs.features / torch.from_numpy(lengths))

    expected = bare().fit(fit._replace(train=shortened(fit.train))).score(shortened(queries))
    found = on_sphere().fit(fit).score(queries._replace(features=7 * queries.features))
    close(found, expected.numpy())
    assert not np.allclose(bare().fit(fit).score(queries), expected)


def test_rmds(fit, queries):
    means, covariance = within(fit)
    features = fit.train.features.numpy()
    overall, spread = features.mean(0), np.cov(features.T, bias=True)
    expected = [
        min(mahalanobis(z, mean, covariance) for mean in means) - mahalanobis(z, overall, spread)
        for z in queries.features.numpy()
    ]
    close(RMDS().fit(fit).score(queries), expected)


@pytest.mark.parametrize("count", [1, 5, 20])
def test_knn(fit, queries, count):
    bank = [unit(z) for z in fit.train.features.numpy()]
    expected = [sorted(((unit(z) - t) ** 2).sum() for t in bank)[count - 1] for z in queries.features.numpy()]
    close(KNN(neighbours=count).fit(fit).score(queries), expected)


def test_knn_looks_no_further_than_the_smallest_class(fit, queries):
    y = torch.tensor([0] * 50 + [1] * 6 + [2] * 4)
    capped = KNN(neighbours=50).fit(fit._replace(y=y)).score(queries)
    assert torch.equal(capped, KNN(neighbours=4).fit(fit).score(queries))


def test_vim(fit, queries):
    train, weight = fit.train.features.numpy(), fit.weight.numpy()
    origin = -np.linalg.pinv(weight) @ fit.bias.numpy()
    _, _, directions = np.linalg.svd(train - origin)
    rest = directions[6:]
    norms = [np.linalg.norm(rest @ (z - origin)) for z in train]
    scale = fit.train.logits.numpy().max(1).mean() / np.mean(norms)
    expected = [scale * np.linalg.norm(rest @ (z - origin)) + head_energy(fit, z) for z in queries.features.numpy()]
    close(ViM(dimensions=6).fit(fit).score(queries), expected)


def test_vim_keeps_half_of_a_rank_that_is_too_small():
    fit, queries = random_fit(10)
    assert ViM().fit(fit).principal_.shape == (FEATURES, 5)
    assert torch.equal(ViM().fit(fit).score(queries), ViM(dimensions=5).fit(fit).score(queries))


def test_vim_stays_upright_where_all_logits_are_negative(fit):
    lower = fit._replace(train=fit.train._replace(logits=fit.train.logits - 1e3))
    assert ViM().fit(lower).scale_ > ViM().fit(fit).scale_ > 0


def test_vim_without_any_residual(fit, queries):
    nothing = fit.train._replace(features=torch.zeros_like(fit.train.features))
    detector = ViM().fit(fit._replace(train=nothing, bias=torch.zeros_like(fit.bias)))
    expected = [
        np.linalg.norm(z) - np.log(np.exp(row).sum())
        for z, row in zip(queries.features.numpy(), queries.logits.numpy(), strict=True)
    ]
    close(detector.score(queries), expected)


def test_react(fit, queries):
    clip = np.percentile(fit.val.features.numpy(), 85)
    expected = [head_energy(fit, np.minimum(z, clip)) for z in queries.features.numpy()]
    close(ReAct(percentile=85).fit(fit).score(queries), expected)


def test_ash(fit):
    generator = torch.Generator().manual_seed(5)
    features = torch.rand(20, FEATURES, generator=generator, dtype=torch.float64)
    expected = []
    for z in features.numpy():
        binarised = np.zeros(FEATURES)
        binarised[np.argsort(z)[-6:]] = z.sum() / 6  # 16 - round(16 * 0.65)
        expected.append(head_energy(fit, binarised))
    close(ASH(percentile=65).fit(fit).score(Outputs(features, features)), expected)


def test_ash_keeps_equal_activations_together_and_never_zeros(fit):
    z = np.zeros(FEATURES)
    z[[2, 7, 9]] = 1.5
    features = torch.from_numpy(np.stack([z, np.zeros(FEATURES)]))
    expected = [head_energy(fit, z), head_energy(fit, np.zeros(FEATURES))]
    for percentile in (50, 90):
        close(ASH(percentile=percentile).fit(fit).score(Outputs(features, features)), expected)


def test_scale(fit, queries):
    expected = []
    for z in queries.features.numpy():
        expected.append(head_energy(fit, z * np.exp(z.sum() / np.sort(z)[-6:].sum())))
    close(Scale(percentile=65).fit(fit).score(queries), expected)


def test_she(fit, queries):
    fit = fit._replace(y=torch.where(torch.arange(60) % 4 == 0, fit.y, fit.train.logits.argmax(1)))
    right, patterns = (fit.train.logits.argmax(1) == fit.y).numpy(), []
    for k in range(CLASSES):
        patterns.append(fit.train.features.numpy()[right & (fit.y.numpy() == k)].mean(0))
    predicted = queries.logits.argmax(1).tolist()
    expected = [-(z @ patterns[k]) for z, k in zip(queries.features.numpy(), predicted, strict=True)]
    assert not right.all()
    close(SHE().fit(fit).score(queries), expected)


def test_dice(fit, queries):
    sparse, mean = copy.deepcopy(fit.weight.numpy()), fit.train.features.numpy().mean(0)
    least = np.percentile(sparse * mean, 70)
    for k in range(CLASSES):
        for j in range(FEATURES):
            sparse[k, j] = sparse[k, j] if sparse[k, j] * mean[j] > least else 0
    masked = fit._replace(weight=torch.from_numpy(sparse))
    close(DICE(percentile=70).fit(fit).score(queries), [head_energy(masked, z) for z in queries.features.numpy()])


def test_nnguide(fit, queries):
    bank = [-head_energy(fit, z) * unit(z) for z in fit.train.features.numpy()]
    expected = []
    for z in queries.features.numpy():
        expected.append(head_energy(fit, z) * np.mean(sorted(unit(z) @ t for t in bank)[-9:]))
    close(NNGuide(neighbours=9, share=1).fit(fit).score(queries), expected)


@pytest.mark.parametrize(("neighbours", "share", "size"), [(9, 0.01, 9), (9, 0.5, 30), (100, 0.01, 60)])
def test_nnguide_takes_its_bank_from_all_classes(fit, neighbours, share, size):
    bank = NNGuide(neighbours=neighbours, share=share).fit(fit).bank_
    directions = neighbours_of(bank, fit.train.features)
    assert len(set(directions)) == size
    assert torch.tensor([int(fit.y[i]) for i in directions]).bincount().tolist() == [size // 3] * 3


def neighbours_of(bank: torch.Tensor, features: torch.Tensor) -> list[int]:
    """Index of the image that every entry of a bank is a multiple of."""
    return nn.functional.cosine_similarity(bank[:, None], features[None], dim=2).abs().argmax(1).tolist()


@pytest.mark.parametrize("power", [1.0, 3.0])
def test_relation(fit, queries, power):
    expected = []
    for z, row in zip(queries.features.numpy(), queries.logits.numpy(), strict=True):
        total = 0.0
        for t, logits in zip(fit.train.features.numpy(), fit.train.logits.numpy(), strict=True):
            edge = max(0, unit(z) @ unit(t)) * (softmax(row) @ softmax(logits))
            total += edge**power if edge > 0.03 else 0
        expected.append(-total)
    close(Relation(power=power).fit(fit).score(queries), expected)


@pytest.mark.parametrize("centred", [True, False])
def test_fdbd(fit, queries, centred):
    weight, mean, expected = fit.weight.numpy(), fit.train.features.numpy().mean(0) * centred, []
    for z, row in zip(queries.features.numpy(), queries.logits.numpy(), strict=True):
        c = row.argmax()
        total = sum((row[c] - row[k]) / np.linalg.norm(weight[c] - weight[k]) for k in range(CLASSES) if k != c)
        expected.append(-total / np.linalg.norm(z - mean))
    close(FDBD(centred=centred).fit(fit).score(queries), expected)


def test_own(queries):
    own = torch.arange(20.0)
    assert Own().score(queries._replace(own=own)).tolist() == own.tolist()
    with pytest.raises(InputError, match="no unknown score of its own"):
        Own().score(queries)
