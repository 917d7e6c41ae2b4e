"""What the server says, as it stands in its OpenAPI description."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

Share = Annotated[float, Field(ge=0, le=1)]


class Similar(BaseModel):
    """A training picture that resembles the one asked about."""

    index: int = Field(description="its place in the model's gallery: GET /similar/{index}.png shows it")
    label: str
    domain: str
    similarity: float = Field(description="cosine between the features of both, at most 1")


class Verdict(BaseModel):
    """What the model says of one picture."""

    name: str = Field(description="the last part of the name that the file came with")
    label: str = Field(description="the nearest known class, even where the picture is unknown")
    confidence: Share
    score: float = Field(description="the higher, the more unknown")
    threshold: float = Field(description="the score above which a picture is called unknown")
    unknown: bool
    similar: list[Similar] = Field(description="the most similar training pictures, nearest first")


class Unreadable(BaseModel):
    """A picture that cannot be read, among others that can."""

    name: str
    error: str


class Answer(BaseModel):
    """One entry per picture, in the order of the request."""

    images: list[Verdict | Unreadable]


class Problem(BaseModel):
    """One sentence: what was wrong with the request and what to do."""

    error: str
    images: list[Unreadable] = Field(default=[], description="where no picture could be read: what is wrong with each")


def problem(sentence: str) -> bytes:
    """Return a sentence as the JSON of a refusal, for where nothing else makes an answer of it."""
    return Problem(error=sentence).model_dump_json(exclude_defaults=True).encode()


class Health(BaseModel):
    """The server can decode and judge."""

    status: str
    version: str


class Bounds(BaseModel):
    """The most that one request may hold."""

    images: int
    image_bytes: int
    body_bytes: int
    pixels: int


class About(BaseModel):
    """The model that is served."""

    classes: list[str]
    domains: list[str]
    algorithm: str
    backbone: str
    detector: str
    threshold: float
    kept: list[float] = Field(description="the thresholds that keep 1 %, 2 %, ... 100 % of held-out known pictures")
    size: int = Field(description="side in pixels of the square that every picture is squeezed to")
    warnings: list[str] = Field(
        description="what not to rely on by the model's own check on held-out pictures, why, and what to do, in a "
        "sentence each; empty where it found nothing, or where the model was not checked"
    )
    gallery: int = Field(description="training pictures that can be shown")
    limits: Bounds
    provenance: dict[str, Any]
