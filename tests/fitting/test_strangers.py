"""A person's own unknowns: how many are flagged, and how well they are told from held-out pictures."""

import pytest

from madod.errors import InputError
from madod.fitting.strangers import kept_apart, scored, told_apart, warn_of_copies
from tests.predict.toy import files, toy_model


def test_scores_are_told_apart_by_hand():
    assert told_apart([1.0, 2.0], [3.0, 1.5]) == pytest.approx(3 / 4)
    assert told_apart([], [3.0]) is None
    assert told_apart([1.0], []) is None


def test_every_picture_of_a_folder_is_scored_and_the_bad_are_named(tmp_path):
    model = toy_model()
    paths = files(tmp_path / "odd" / "deeper", 6)
    paths[2].write_text("no picture", encoding="utf-8")
    found = scored(model, tmp_path / "odd")
    own = [answer.score for answer in model.predict(paths[:2] + paths[3:])]
    assert found.scores == own
    assert found.auroc == told_apart(model.held_scores.tolist(), own)
    assert found.flagged(sorted(own)[1]) == pytest.approx(3 / 5)
    (bad,) = found.unreadable
    assert str(paths[2]) in bad


def test_what_cannot_be_read_is_refused_unless_it_is_to_be_left_out(tmp_path, caplog):
    odd = tmp_path / "odd"
    paths = files(odd, 3)
    assert kept_apart(odd, None) == odd
    paths[1].write_text("no picture", encoding="utf-8")
    with pytest.raises(
        InputError, match=r"^1 of 3 pictures in --ood-folder .*odd cannot be read; .*--skip-bad"
    ) as said:
        kept_apart(odd, None)
    assert str(paths[1]) in str(said.value)
    assert kept_apart(odd, None, skip_bad=True) == odd
    assert "left out 1 of 3 pictures in --ood-folder" in caplog.text
    for path in paths:
        path.write_text("no picture", encoding="utf-8")
    with pytest.raises(InputError, match="none of the pictures in --ood-folder"):
        kept_apart(odd, None, skip_bad=True)


def test_copies_of_what_is_trained_on_are_counted(tmp_path, caplog):
    root, odd = tmp_path / "mine", tmp_path / "odd"
    for k, place in enumerate(("day/cat", "day/fox", "night/cat")):
        for file in files(root / place, 2):
            file.write_bytes(file.read_bytes() + bytes([k]))
    for k, file in enumerate(files(odd, 5)[:3]):
        file.write_bytes((root / ("day/cat", "day/fox", "night/cat")[k] / "000.png").read_bytes())
    warn_of_copies(odd, root, test_domain="night", ood_classes=("fox",))
    (said,) = caplog.messages
    assert said.startswith(
        f"1 of 5 pictures in --ood-folder {odd} are copies of pictures that are trained on, such as "
    )
    assert "000.png" in said
    caplog.clear()
    warn_of_copies(odd, root, test_domain=None, ood_classes=())
    assert caplog.messages[0].startswith("3 of 5 pictures")
    caplog.clear()
    warn_of_copies(odd, root, test_domain="day", ood_classes=("cat",))
    assert caplog.messages == []
