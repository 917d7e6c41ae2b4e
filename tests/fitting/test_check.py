"""A check keeps what the data say, not what went wrong with the machine."""

import pytest

from madod.benchmark.record import RunSpec
from madod.data.digits import Digits
from madod.errors import InputError, NoSpaceError
from madod.fitting.check import FILE, checked

SPEC = RunSpec("digits", None, (), "erm", steps=4)


def asked(out, error):
    """Check with runs that all fail so; return how many were begun, and the folds."""
    begun = []

    def run(spec, folder, stage):
        begun.append(spec.test_domain)
        raise error

    return begun, lambda: checked(SPEC, Digits(), "full", out, run)


def test_what_the_data_forbid_is_kept(tmp_path):
    begun, check = asked(tmp_path, InputError("one class is not enough"))
    assert [fold.failure for fold in check()] == ["one class is not enough"] * 4
    assert check() == check()
    assert len(begun) == 4


def test_a_full_disk_is_no_verdict(tmp_path):
    begun, check = asked(tmp_path, NoSpaceError("the disk is full"))
    for _ in range(2):
        with pytest.raises(NoSpaceError):
            check()
    assert begun == ["ink", "ink"]
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("content", ["", "[]", '{"runs": []}'])
def test_a_damaged_file_is_made_again(tmp_path, content):
    begun, check = asked(tmp_path, InputError("no"))
    (tmp_path / FILE).write_text(content)
    assert len(check()) == len(begun) == 4
