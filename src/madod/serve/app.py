"""The addresses of the server, and what each answers."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as AnyHTTPException

from madod import __version__
from madod.errors import InputError, is_out_of_memory
from madod.predict import Model
from madod.serve.about import about, thumbnail
from madod.serve.answers import About, Answer, Health, Problem, Unreadable
from madod.serve.body import body
from madod.serve.description import BODY, NAMED, SUMMARY, Options, Page, Picture, Text, problems
from madod.serve.limits import Limits
from madod.serve.page import POLICY, page
from madod.serve.refusals import misled, misread, refuse_doubled, refused, told
from madod.serve.service import Service
from madod.serve.uploads import kind, uploads


def application(model: Model, limits: Limits, ready: Callable[[], None] = lambda: None) -> FastAPI:
    """Return the server of a model; `ready` is called when it can answer."""
    service, facts = Service(model, limits), about(model, limits)
    whole = page(facts)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await service.start()
            ready()
            yield
        finally:
            await service.close()

    app = FastAPI(
        title="madod", version=__version__, summary=SUMMARY, lifespan=lifespan, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    app.state.service = service
    app.exception_handler(AnyHTTPException)(refused)
    app.exception_handler(RequestValidationError)(misread)
    app.exception_handler(InputError)(misled)

    @app.post(
        "/predict", response_model=Answer, responses=problems(400, 408, 413, 415, 429, 503) | NAMED, openapi_extra=BODY
    )
    async def predict(request: Request, options: Annotated[Options, Query()]) -> Response:
        """Label pictures, and say of each whether it is known."""
        if service.active >= limits.requests:
            raise HTTPException(429, "too many requests are under way: come back in a second", {"Retry-After": "1"})
        service.active += 1
        try:
            return await answered(service, request, options)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            sentence = "there is not enough memory to look at a picture just now: come back in a while"
            raise HTTPException(503, sentence, {"Retry-After": "10"}) from error
        finally:
            service.active -= 1

    @app.get("/health", responses=problems(503))
    async def health() -> Health:
        """Say whether pictures can be decoded and judged: some were just now, or a blank one is."""
        if reason := await service.pulse.fault():
            raise HTTPException(503, f"pictures do not come through ({reason}): start the server again")
        return Health(status="ok", version=__version__)

    @app.get("/model")
    async def model_facts() -> About:
        """Say what the model knows, where its threshold lies, and where it comes from."""
        return facts

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

    @app.get("/", response_class=Page)
    async def front() -> Page:
        """Show the page for people."""
        return Page(whole, headers={"Content-Security-Policy": POLICY})

    return app


async def answered(service: Service, request: Request, options: Options) -> Response:
    """Read a request, judge its pictures and answer; refuse it where none of them can be read."""
    content_type = request.headers.get("content-type", "")
    kind(content_type)
    refuse_doubled(request.query_params)
    threshold = service.threshold(options.threshold, options.keep)
    async with body(request, service.budget, service.limits) as content:
        sent = uploads(content, content_type, service.limits, Options.model_fields)
        entries = await service.entries(sent, threshold, options.similar)
    bad = [entry for entry in entries if isinstance(entry, Unreadable)]
    if len(bad) < len(entries):
        return told(Answer(images=entries))
    sentence = bad[0].error if len(bad) == 1 else f"none of the {len(bad)} pictures can be read; {bad[0].error}"
    return told(Problem(error=sentence, images=bad), 422)
