"""What an OpenAPI description cannot say: that bytes are a picture, and that one option rules another out."""

import io

import schemathesis
from hypothesis import strategies as st
from PIL import Image


@st.composite
def pictures(draw) -> bytes:
    """A sound picture of one colour."""
    file = io.BytesIO()
    side, kind = st.integers(1, 40), st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
    colour = draw(st.tuples(*[st.integers(0, 255)] * 3))
    Image.new("RGB", (draw(side), draw(side)), colour).save(file, draw(kind))
    return file.getvalue()


for name in ("image/*", "image/png", "application/octet-stream"):
    schemathesis.openapi.media_type(name, pictures())


@schemathesis.hook
def before_call(context, case, kwargs) -> None:
    """Set the threshold in one way where both would be sound."""
    if case.meta.generation.mode.is_positive and case.query.keys() >= {"keep", "threshold"}:
        del case.query["keep"]
