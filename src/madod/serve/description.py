"""What the OpenAPI description says beyond the types of answers: bodies, options and refusals."""

from typing import Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from madod.serve.answers import Problem
from madod.serve.service import SIMILAR

SUMMARY = "Label pictures and flag those that show no known class."
FILES = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
FORM = {
    "schema": {"type": "object", "properties": {"files": FILES}, "required": ["files"]},
    "encoding": {"files": {"contentType": "image/*"}},
}
RAW = {"schema": {"type": "string", "format": "binary", "minLength": 1}}
BODY = {
    "requestBody": {
        "required": True,
        "description": "pictures as files of a form, under any field name; or one picture as it is",
        "content": {"multipart/form-data": FORM, "image/*": RAW, "application/octet-stream": RAW},
    }
}
REFUSALS = {
    400: "the form is broken or holds an option, or the address sets one twice",
    404: "there is no such picture",
    408: "the request came too slowly",
    413: "more bytes or pictures than are allowed",
    415: "a content type that holds no pictures",
    422: "an option that cannot be, or no picture that can be read",
    503: "pictures cannot be decoded or judged, or not just now",
    429: "too many requests at once; Retry-After says when to come back",
}

NAMED: dict[int | str, dict[str, Any]] = {422: {"model": Problem, "description": REFUSALS[422]}}
"""The refusal through which the description learns what a problem looks like."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of refusals, which are JSON whatever else an address answers with."""
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"content": content, "description": REFUSALS[status]} for status in statuses}


class Options(BaseModel):
    """How to answer."""

    model_config = ConfigDict(extra="forbid")
    threshold: float | None = Field(
        None, allow_inf_nan=False, description="call a picture unknown above this score, instead of the model's own"
    )
    keep: float | None = Field(
        None,
        gt=0,
        le=1,
        description="set the threshold so that this share of known pictures is kept; not together with threshold",
    )
    similar: int = Field(3, ge=0, le=SIMILAR, description="how many similar training pictures to name")


class Text(Response):
    """Metrics."""

    media_type = "text/plain; version=0.0.4"


class Picture(Response):
    """A PNG file."""

    media_type = "image/png"


class Page(Response):
    """An HTML page."""

    media_type = "text/html"
