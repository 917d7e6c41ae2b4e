"""The pictures in a request: the body itself, or the parts of a form."""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from fastapi import HTTPException
from python_multipart.multipart import parse_options_header

from madod.serve.limits import MIB, Limits

RAW = ("image/", "application/octet-stream")
FORM = "multipart/form-data"
UNNAMED = "picture"
HOW = "send pictures as files of a multipart form, or one picture as the body with an image/* type"


class Upload(NamedTuple):
    """One picture as it came: the last part of its file's name, and its bytes."""

    name: str
    data: memoryview
    field: str = ""
    """The name of the form's field, where that is all that it came with."""


def kind(content_type: str) -> str:
    """Return the media type without its parameters, or refuse one that holds no pictures."""
    media = content_type.partition(";")[0].strip().lower()
    if media != FORM and not media.startswith(RAW):
        shown = f"the content type {plain(media)!r}" if media else "a request without a content type"
        raise HTTPException(415, f"{shown} holds no pictures: {HOW}")
    return media


def uploads(content: memoryview, content_type: str, limits: Limits, options: Collection[str] = ()) -> list[Upload]:
    """Return the pictures of a request, or refuse it; one that is too large comes as it is, for its own refusal.

    Fields of a form that are called like `options` are no pictures, but misplaced.
    """
    if kind(content_type) != FORM:
        if not content:
            raise HTTPException(422, f"the request is empty: {HOW}")
        return [Upload(UNNAMED, content)]
    found: list[Upload] = []
    for upload in parts(content, boundary(content_type)):
        if len(found) == limits.images:
            raise HTTPException(413, f"the request has more than {limits.images} pictures: send fewer at a time")
        if upload.field in options:
            how = f"put it into the address, as in /predict?{upload.field}=NUMBER"
            raise HTTPException(400, f"{upload.field} is an option, and a form holds pictures alone: {how}")
        found.append(upload)
    if not found:
        raise HTTPException(422, f"the form holds no file: {HOW}")
    return found


def oversized(upload: Upload, limits: Limits) -> str | None:
    """Return why a picture is too large to look at, if it is."""
    if len(upload.data) > limits.image_bytes:
        return f"it has more than the {limits.image_bytes // MIB} MiB that are allowed"
    return None


def boundary(content_type: str) -> bytes:
    """Return what stands between the parts of a form."""
    _, options = parse_options_header(content_type)
    found = options.get(b"boundary", b"")
    if not 0 < len(found) <= 200:
        raise HTTPException(400, "the form's content type names no boundary: let your HTTP library set it")
    return found


def parts(content: memoryview, boundary: bytes) -> Iterator[Upload]:
    """Yield the parts of a form [RFC 7578], each as a view of the body."""
    whole = content.obj
    assert isinstance(whole, bytearray | bytes)
    mark = b"--" + boundary
    place = 0 if whole.startswith(mark) else whole.find(b"\r\n" + mark) + 2
    while place >= 0 and whole.startswith(mark, place):
        place += len(mark)
        if whole.startswith(b"--", place):
            return
        head = whole.find(b"\r\n", place)
        body = whole.find(b"\r\n\r\n", head)
        end = whole.find(b"\r\n" + mark, body + 2)
        if min(head, body, end) < 0 or whole[place:head].strip() or body - head > 8192:
            break
        file, field = names(bytes(whole[head:body]))
        yield Upload(file or field or UNNAMED, content[min(body + 4, end) : end], "" if file else field)
        place = end + 2
    raise HTTPException(400, "the form is broken or ends too early: send it again, whole")


def names(head: bytes) -> tuple[str, str]:
    """Return what a part of a form calls itself: its file's name and its field's, empty where it has none."""
    found = re.search(rb"^content-disposition:([^\r\n]*)", head, re.IGNORECASE | re.MULTILINE)
    _, options = parse_options_header(found[1].strip() if found else b"")
    said = (options.get(key, b"").decode("utf-8", "replace") for key in (b"filename", b"name"))
    file, field = (plain(re.split(r"[/\\]", each)[-1]) for each in said)
    return file, field


def plain(text: str) -> str:
    """Return a text that is safe to show: no control characters, and not long."""
    shown = "".join(letter for letter in text if letter.isprintable())
    return shown if len(shown) <= 100 else f"{shown[:60]}…{shown[-39:]}"
