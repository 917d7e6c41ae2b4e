"""MNIST from its idx files, and RotatedMNIST made of it."""

import gzip

import numpy as np
import pytest
import torch

from madod.cli.main import main
from madod.data.dealt import SEED
from madod.data.mnist import CENSUS, FILES, read_idx, read_mnist
from madod.data.published import Absent
from madod.data.rotated_mnist import RotatedMnist
from madod.errors import InputError
from tests.data.miniatures import idx, write_mnist


@pytest.mark.parametrize("place", ["", "mnist", "MNIST/raw", "MNIST", "raw", "MNIST/MNIST/raw"])
@pytest.mark.parametrize("pack", [False, True])
def test_places(tmp_path, place, pack):
    train_x, train_y, test_x, test_y = write_mnist(tmp_path / place, pack=pack, dot=pack)
    scans = read_mnist(tmp_path)
    assert np.array_equal(scans.pixels, np.concatenate([train_x, test_x]))
    assert np.array_equal(scans.digits, np.concatenate([train_y, test_y]))
    assert sum(scans.tally()["MNIST"].values()) == 600


def test_every_scan_is_dealt_once(tmp_path):
    write_mnist(tmp_path)
    scans = read_mnist(tmp_path)
    parts = scans.dealt(3, 7)
    assert {len(part.digits) for part in parts} == {85, 86}
    dealt = sorted(pixels.tobytes() for part in parts for pixels in part.pixels)
    assert dealt == sorted(pixels.tobytes() for pixels in scans.pixels)


def test_official_counts_add_up():
    assert sum(CENSUS.classes["MNIST"]) == CENSUS.totals["MNIST"] == 70000


def test_what_is_missing_or_damaged_is_said_in_a_sentence(tmp_path):
    with pytest.raises(Absent, match=r"there is no folder .*gone: make it, and put train-images"):
        read_mnist(tmp_path / "gone")
    write_mnist(tmp_path)
    (tmp_path / FILES[2]).unlink()
    with pytest.raises(Absent, match=r"there is no t10k-images-idx3-ubyte of MNIST in .*: put train-images"):
        read_mnist(tmp_path)
    (tmp_path / FILES[2]).write_bytes((tmp_path / FILES[0]).read_bytes())
    with pytest.raises(InputError, match=r"the t10k files .* do not fit together: images \(540, 28, 28\), labels"):
        read_mnist(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\x00", b"<html>", idx(np.ones((2, 3)))[:-1], gzip.compress(idx(np.ones(9)), mtime=0)[:-9]],
    ids=["nothing", "too short", "a page", "a byte missing", "cut while packed"],
)
def test_a_file_that_is_no_idx_file_is_refused(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError, match=r"x is (no whole idx file of bytes|damaged \(.*\)): get it again"):
        read_idx(tmp_path / "x")


def test_rotated(tmp_path):
    write_mnist(tmp_path)
    dataset = RotatedMnist(tmp_path)
    domains = [dataset.read(name) for name in dataset.domains]
    assert [len(domain.labels) for domain in domains] == [100] * 6
    straight, scans = domains[0], dataset.scans.dealt(SEED, 6)[0]
    assert straight.images.shape == (100, 3, 32, 32)
    assert torch.equal(straight.images[:, 0], torch.from_numpy(scans.padded()))
    assert torch.equal(straight.images[:, 0], straight.images[:, 2])
    assert torch.equal(straight.labels, straight.units)
    assert (domains[3].images[:, :, 0, 0] == 0).all()
    assert (domains[3].images[:, :, 16, 16] > 0).all()


def test_the_command_names_what_differs(tmp_path, capsys):
    write_mnist(tmp_path)
    assert main(["data", "rotated_mnist", "--root", str(tmp_path), "--quiet"]) == 1
    assert "differs: MNIST has 600 images instead of 70,000 (0 " in capsys.readouterr().out
