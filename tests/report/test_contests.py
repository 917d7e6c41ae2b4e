import math

import numpy as np
import pytest
from scipy import stats

from madod.report.contests import ablation, ablation_bars, critical_difference, friedman_p, rank_plot, ranks
from madod.report.frame import load_records

from .records import HPARAMS, measures, record, write, write_records
from .test_page import read


def test_ranks_agree_with_friedman_and_the_published_critical_difference(tmp_path):
    write_records(tmp_path, algorithms=("erm", "irm", "mbdg", "madod"), seeds=1)
    frame = load_records(tmp_path)
    found = ranks(frame, "madod")
    assert found is not None
    three = frame.groupby(["test_domain", "ood_classes", "method"])["auroc"].mean().unstack()
    places = stats.rankdata(-three.to_numpy(), axis=1).mean(axis=0)
    assert found.mean == pytest.approx(dict(zip(three.columns, places, strict=True)))
    assert list(found.mean.values()) == sorted(found.mean.values())
    assert found.p == pytest.approx(stats.friedmanchisquare(*three.to_numpy().T).pvalue)
    q = 2.569  # of four methods at 5 %, table 5a of Demsar 2006
    assert found.critical == pytest.approx(q * math.sqrt(4 * 5 / (6 * 12)), rel=1e-3)
    assert found.cells == 12


def test_friedmans_p_by_hand():
    places = np.array([[1.0, 2, 3], [1, 3, 2], [1.5, 1.5, 3], [2, 1, 3]])  # mean ranks 5.5, 7.5 and 11 over 4
    apart = ((5.5 - 8) ** 2 + (7.5 - 8) ** 2 + (11 - 8) ** 2) / 16
    spread = 3 * 2 + 1.5  # a row of 1, 2, 3 has 2, one of two equals 1.5
    assert friedman_p(places) == pytest.approx(math.exp(-2 * 16 * apart / spread / 2))  # of two degrees of freedom
    assert friedman_p(np.full((4, 3), 2.0)) == 1.0
    assert friedman_p(places) == pytest.approx(stats.friedmanchisquare(*places.T).pvalue)


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_is_the_published_one(k: int, q: float):
    assert critical_difference(k, 14) == pytest.approx(q * math.sqrt(k * (k + 1) / (6 * 14)), rel=1e-3)  # table 5a


def test_a_method_with_few_cells_does_not_take_the_others_cells_away(tmp_path, rng):
    write_records(tmp_path)
    write(tmp_path / "one", record("pacs", "coral", "photo", "person", 0, measures(rng, 0.9, ("msp", "energy", "ddu"))))
    found = ranks(load_records(tmp_path), "madod")
    assert found is not None
    assert (found.cells, found.left_out, set(found.mean)) == (12, ["coral"], {"erm", "madod"})
    drawn = {reference: rank_plot(found, reference) for reference in ("erm", "madod", "coral")}
    assert [read(svg) and svg.count("var(--c2") > 0 for svg in drawn.values()] == [True, True, False]
    assert drawn["erm"] != drawn["madod"]


def test_one_method_has_no_ranks(tmp_path):
    write_records(tmp_path, algorithms=("madod",))
    assert ranks(load_records(tmp_path), "madod") is None


def test_an_ablation_counts_only_the_runs_that_all_variants_share(tmp_path, rng):
    for domain in ("photo", "sketch", "cartoon"):
        for name, change in (("full", {}), ("off", {"invariance": 0.0})):
            if (name, domain) != ("off", "cartoon"):
                found = measures(rng, 0.7, ("msp", "energy", "ddu"))
                facts = record("pacs", "madod", domain, "dog", 0, found, hparams=HPARAMS | change)
                write(tmp_path / f"{name}-{domain}", facts)
    frame = load_records(tmp_path)
    found = ablation(frame, "madod", "auroc")
    assert found is not None
    assert found.runs == {"pacs": 2}
    shared = frame[(frame["method"] == "madod") & (frame["test_domain"] != "cartoon")]
    assert found.numbers["pacs", "madod"][0] == pytest.approx(100 * shared["auroc"].mean())
    runs = 100 * shared.groupby("test_domain")["auroc"].mean()
    assert found.numbers["pacs", "madod"][1] == pytest.approx(np.std(runs, ddof=1) / 2**0.5)
    assert "without R_GI" in ablation_bars(found, "AUROC")
    assert ablation(frame[frame["method"] == "madod"], "madod", "auroc") is None
