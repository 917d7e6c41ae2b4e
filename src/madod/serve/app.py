"""The addresses of the server, and what each answers."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as AnyHTTPException

from madod import __version__
from madod.errors import InputError, nearest
from madod.predict import Model
from madod.serve.about import about, thumbnail
from madod.serve.answers import About, Answer, Health, Problem, Unreadable
from madod.serve.body import body
from madod.serve.limits import Limits
from madod.serve.page import POLICY, page
from madod.serve.service import SIMILAR, Service
from madod.serve.uploads import kind, plain, uploads

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
    400: "the form is broken",
    404: "there is no such picture",
    408: "the request came too slowly",
    413: "more bytes or pictures than are allowed",
    415: "a content type that holds no pictures",
    422: "an option that cannot be, or no picture that can be read",
    429: "too many requests at once; Retry-After says when to come back",
}

NAMED: dict[int | str, dict[str, Any]] = {422: {"model": Problem, "description": REFUSALS[422]}}
"""The refusal through which the description learns what a problem looks like."""


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
        description="set the threshold so that this share of known pictures is kept, unless threshold sets it",
    )
    similar: int = Field(3, ge=0, le=SIMILAR, description="how many similar training pictures to name")


def application(model: Model, limits: Limits, ready: Callable[[], None] = lambda: None) -> FastAPI:
    """Return the server of a model; `ready` is called when it can answer."""
    service = Service(model, limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        ready()
        yield
        await service.close()

    app = FastAPI(title="madod", version=__version__, summary=SUMMARY, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.service = service
    app.exception_handler(AnyHTTPException)(refused)
    app.exception_handler(RequestValidationError)(misread)
    app.exception_handler(InputError)(misled)

    @app.post(
        "/predict", response_model=Answer, responses=problems(400, 408, 413, 415, 429) | NAMED, openapi_extra=BODY
    )
    async def predict(request: Request, options: Annotated[Options, Query()]) -> Response:
        """Label pictures, and say of each whether it is known."""
        if service.active >= limits.requests:
            raise HTTPException(429, "too many requests are under way: come back in a second", {"Retry-After": "1"})
        service.active += 1
        try:
            return await answered(service, request, options)
        finally:
            service.active -= 1

    @app.get("/health")
    async def health() -> Health:
        """Say that the server is there."""
        return Health(status="ok", version=__version__)

    @app.get("/model")
    async def model_facts() -> About:
        """Say what the model knows, where its threshold lies, and where it comes from."""
        return about(model, limits)

    @app.get("/metrics", response_class=Text)
    async def metrics() -> Text:
        """Give counts and times for Prometheus."""
        return Text(service.metrics.text(service.gauges()))

    @app.get("/similar/{index}.png", response_class=Picture, responses=problems(404, 422))
    async def similar(index: Annotated[int, Path(ge=0)]) -> Picture:
        """Show a training picture."""
        found = thumbnail(model, index)
        if found is None:
            raise HTTPException(404, f"there is no training picture {index}: take an index from an answer of /predict")
        return Picture(found, headers={"Cache-Control": "private, max-age=3600"})

    whole = cache(lambda: page(about(model, limits)))

    @app.get("/", response_class=Page)
    async def front() -> Page:
        """Show the page for people."""
        return Page(whole(), headers={"Content-Security-Policy": POLICY})

    return app


class Text(Response):
    """Metrics."""

    media_type = "text/plain; version=0.0.4"


class Picture(Response):
    """A PNG file."""

    media_type = "image/png"


class Page(Response):
    """An HTML page."""

    media_type = "text/html"


async def answered(service: Service, request: Request, options: Options) -> Response:
    """Read a request, judge its pictures and answer; refuse it where none of them can be read."""
    content_type = request.headers.get("content-type", "")
    kind(content_type)
    threshold = service.threshold(options.threshold, options.keep)
    async with body(request, service.budget, service.limits) as content:
        entries = await service.entries(uploads(content, content_type, service.limits), threshold, options.similar)
    bad = [entry for entry in entries if isinstance(entry, Unreadable)]
    if len(bad) < len(entries):
        return told(Answer(images=entries))
    sentence = bad[0].error if len(bad) == 1 else f"none of the {len(bad)} pictures can be read; {bad[0].error}"
    return told(Problem(error=sentence, images=bad), 422)


def told(answer: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer as JSON."""
    return Response(answer.model_dump_json(exclude_defaults=True), status, headers, "application/json")


async def refused(_: Request, error: Exception) -> Response:
    """Answer a refusal with its sentence."""
    assert isinstance(error, AnyHTTPException)
    sentences = {404: "there is nothing at this address: GET / has the page, GET /openapi.json all addresses"}
    sentences[405] = "this address does not take this method: GET /openapi.json has all addresses"
    plain = error.detail in ("Not Found", "Method Not Allowed")
    sentence = sentences[error.status_code] if plain else error.detail
    return told(Problem(error=sentence), error.status_code, dict(error.headers or {}))


async def misread(_: Request, error: Exception) -> Response:
    """Answer options that cannot be with what is wrong about the first."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name = plain(str(first["loc"][-1]))
    if first["type"] == "extra_forbidden":
        known = tuple(Options.model_fields)
        return told(
            Problem(error=f"there is no option {name!r}{nearest(name, known)}; there are: {', '.join(known)}"), 422
        )
    return told(Problem(error=f"{name} is not what it can be: {first['msg'][:1].lower()}{first['msg'][1:]}"), 422)


async def misled(_: Request, error: Exception) -> Response:
    """Answer what our own code refuses."""
    return told(Problem(error=str(error)), 422)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of refusals, which are JSON whatever else an address answers with."""
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"content": content, "description": REFUSALS[status]} for status in statuses}
