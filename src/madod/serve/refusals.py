"""Whatever is refused, wherever it is, as one sentence."""

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from madod.errors import nearest
from madod.serve.answers import Problem
from madod.serve.description import Options
from madod.serve.service import SIMILAR
from madod.serve.uploads import plain

PLAIN = {
    "Not Found": "there is nothing at this address: GET / has the page, GET /openapi.json all addresses",
    "Method Not Allowed": "this address does not take this method: GET /openapi.json has all addresses",
}
"""Sentences in the place of words that say less."""
WANTED = {
    "threshold": "a finite number, as scores are",
    "keep": "a share between 0 and 1, such as 0.95",
    "similar": f"a whole number from 0 to {SIMILAR}",
    "index": "a whole number from 0, as answers of /predict have it",
}
"""What to give where a request's option or address names something else."""


def told(answer: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer as JSON."""
    return Response(answer.model_dump_json(exclude_defaults=True), status, headers, "application/json")


async def refused(_: Request, error: Exception) -> Response:
    """Answer a refusal with its sentence."""
    assert isinstance(error, HTTPException)
    said = Problem(error=PLAIN.get(error.detail, error.detail))
    return told(said, error.status_code, dict(error.headers or {}))


async def misread(_: Request, error: Exception) -> Response:
    """Answer options that cannot be with what is wrong about the first."""
    assert isinstance(error, RequestValidationError)
    first, known = error.errors()[0], tuple(Options.model_fields)
    name = plain(str(first["loc"][-1]))
    if first["type"] == "extra_forbidden":
        sentence = f"there is no option {name!r}{nearest(name, known)}; there are: {', '.join(known)}"
    else:
        sentence = f"{name} cannot be {plain(str(first['input']))!r}: give {WANTED[name]}"
    return told(Problem(error=sentence), 422)


def refuse_doubled(query: QueryParams) -> None:
    """Refuse an address that says twice where the threshold lies, or any other option."""
    for name in query:
        if len(query.getlist(name)) > 1:
            raise HTTPException(400, f"{name} is given {len(query.getlist(name))} times: give it once")
    if "keep" in query and "threshold" in query:
        raise HTTPException(400, "keep and threshold both set the threshold: give one of them")


async def misled(_: Request, error: Exception) -> Response:
    """Answer what our own code refuses."""
    return told(Problem(error=str(error)), 422)
