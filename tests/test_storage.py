"""Files on disk: whole or absent, and a sentence about those that are neither."""

import errno
import os
import re
from pathlib import Path

import pytest
import torch

from madod.errors import InputError
from madod.storage import SEAL, read_json, read_tensors, read_texts, refuse_file, whole, write_json, write_tensors


def test_json_comes_back_as_it_was_written(tmp_path):
    write_json(tmp_path / "facts.json", {"name": "größe", "numbers": [1, 2.5, None]})
    assert read_json(tmp_path / "facts.json") == {"name": "größe", "numbers": [1, 2.5, None]}


def test_json_may_start_with_the_mark_of_an_editor(tmp_path):
    (tmp_path / "facts.json").write_bytes(b'\xef\xbb\xbf{"erm": "energy"}')
    assert read_json(tmp_path / "facts.json") == {"erm": "energy"}


@pytest.mark.parametrize("bytes_there", [b"", b'{"a": 1', b"\xff\xfe\x00", b"[" * 200_000, None])
def test_what_is_no_json_is_refused_by_its_name(tmp_path, bytes_there):
    file = tmp_path / "facts.json"
    if bytes_there is not None:
        file.write_bytes(bytes_there)
    with pytest.raises(InputError, match=r"facts\.json is not a whole JSON file \(.*\): make it again"):
        read_json(file)


def test_a_file_that_may_not_be_read_need_not_be_made_again(tmp_path, monkeypatch):
    def refused(*args, **kwargs):
        raise PermissionError(13, "Permission denied", "facts.json")

    monkeypatch.setattr(Path, "read_text", refused)
    with pytest.raises(InputError, match=r"Permission denied.*: make it readable$"):
        read_json(tmp_path / "facts.json", remedy="run it again")


def endless(file: Path, kind: str) -> None:
    """Put in a file's place what never ends when it is read: a pipe that nobody writes into, or a device."""
    file.unlink(missing_ok=True)
    os.mkfifo(file) if kind == "pipe" else file.symlink_to("/dev/zero")


ENDLESS = pytest.mark.parametrize("kind", ["pipe", "device"])


@ENDLESS
@pytest.mark.timeout(60)
@pytest.mark.parametrize("read", [read_json, read_tensors])
def test_what_never_ends_is_not_waited_for(tmp_path, kind, read):
    endless(tmp_path / "facts", kind)
    with pytest.raises(InputError, match=r"facts is not a whole .* \(.*it is not an ordinary file.*\): make it again$"):
        read(tmp_path / "facts")
    assert read_texts(tmp_path / "facts") == {}


@pytest.mark.parametrize("number", [errno.EACCES, errno.EFBIG, errno.EDQUOT])
def test_a_refusal_names_the_file_that_was_asked_for(tmp_path, monkeypatch, number):
    def refused(self, *args, **kwargs):
        name = [str(self)] if number == errno.EACCES else []  # a file that is open goes by no name
        raise OSError(number, os.strerror(number), *name)

    monkeypatch.setattr(Path, "write_text", refused)
    with pytest.raises(OSError, match=re.escape(os.strerror(number))) as refusal:
        write_json(tmp_path / "facts.json", {})
    assert refusal.value.filename == str(tmp_path / "facts.json")


def test_a_refusal_without_a_number_keeps_its_words(tmp_path):
    with pytest.raises(OSError, match=r"^cannot write mode F as PNG$"), whole(tmp_path / "grid.png"):
        raise OSError("cannot write mode F as PNG")  # as Pillow does


def test_a_link_to_nothing_is_no_folder_to_write_into(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("nowhere")
    for folder in (link, link / "below"):
        with pytest.raises(InputError, match=r"link is a link that leads nowhere: name a folder to write into$"):
            refuse_file(folder)
    (tmp_path / "nowhere").mkdir()
    refuse_file(link / "below")


def test_a_link_in_the_place_of_what_is_written_first_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "a.json.part").symlink_to(tmp_path / "precious")
    write_json(tmp_path / "a.json", [1])
    assert (tmp_path / "precious").read_text() == "kept"
    assert (tmp_path / "a.json").read_text() == "[\n  1\n]\n"
    assert not (tmp_path / "a.json").is_symlink()


def test_two_processes_that_write_one_file_are_told(tmp_path):
    mine = whole(tmp_path / "a.json")
    mine.__enter__().write_text("mine")
    write_json(tmp_path / "a.json", "theirs")
    with pytest.raises(InputError, match="written by another process"):
        mine.__exit__(None, None, None)
    assert (tmp_path / "a.json").read_text() == '"theirs"\n'


TENSORS = {
    "weight": torch.randn(3, 4, 2, 2).to(memory_format=torch.channels_last),
    "half": torch.ones(5, dtype=torch.bfloat16),
    "none": torch.zeros(0),
    "step": torch.tensor(7),
}


def test_what_is_sealed_comes_back_as_it_was_written(tmp_path):
    file = tmp_path / "a.safetensors"
    write_tensors(file, TENSORS, {"name": "größe"}, sealed=True)
    tensors, facts = read_tensors(file)
    assert {name for name, value in tensors.items() if torch.equal(value, TENSORS[name])} == TENSORS.keys()
    assert read_texts(file) == facts
    assert facts.keys() == {"name", SEAL}
    write_tensors(file, tensors, facts, sealed=True)
    assert read_tensors(file)[1] == facts


def test_no_bit_of_what_is_sealed_changes_unnoticed(tmp_path):
    file = tmp_path / "a.safetensors"
    write_tensors(file, TENSORS, {"name": "text"}, sealed=True)
    whole = file.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            try:
                tensors, facts = read_tensors(file)
            except InputError as error:
                assert str(error).endswith(": make it again")  # noqa: PT017  # most flips are refused, not all
                texts = read_texts(file)  # of tensors alone these say nothing
            else:
                texts = facts  # the checksum's name was changed, or the header's padding
                assert tensors.keys() == TENSORS.keys()
                assert all(torch.equal(value, TENSORS[name]) for name, value in tensors.items())
            assert texts.get("name", "text") == "text"
