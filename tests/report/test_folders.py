import pytest

from madod.benchmark.record import read_history
from madod.errors import InputError
from madod.report.folders import features, seen
from tests.test_storage import ENDLESS, endless

from .run_folders import CLASSES, write_run


def test_verdicts_and_features_and_history_are_read_back(tmp_path):
    folder = write_run(tmp_path, "erm", "photo", "person")
    found = seen(folder)
    assert found.classes == CLASSES
    assert set(found.scores) == {"msp", "energy", "ddu"}
    assert found.pictures.shape == (4, 24, 24, 3)
    held = features(folder)
    assert held is not None
    assert held[0].shape == (120, 8)
    assert read_history(folder)[-1] == {"step": 19, "loss": 0.1}


def test_a_folder_with_a_record_alone_has_nothing_more(tmp_path):
    assert features(tmp_path) is None
    assert read_history(tmp_path) == []


def test_a_broken_history_is_named(tmp_path):
    tmp_path.joinpath("history.jsonl").write_text("{")
    with pytest.raises(InputError, match=r"history.jsonl is not a run's history"):
        read_history(tmp_path)


@ENDLESS
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("name", "read"),
    [("history.jsonl", read_history), ("verdicts.safetensors", seen), ("outputs.safetensors", features)],
)
def test_what_never_ends_is_named_and_not_waited_for(tmp_path, kind, name, read):
    endless(tmp_path / name, kind)
    with pytest.raises(
        InputError, match=rf"{name} is not a .*it is not an ordinary file.*: delete it or run it again$"
    ):
        read(tmp_path)
