"""Ask an exported model what pictures show; needs numpy, pillow and onnxruntime, not madod.

python onnx_predict.py model.onnx PICTURE [PICTURE ...]
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps


def main(file: str, *paths: str) -> int:
    """Print a line a picture; return 1 where some could not be read, 2 where there is no model."""
    try:
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        facts = session.get_modelmeta().custom_metadata_map
        classes, size, bad = json.loads(facts["classes"]), int(facts["size"]), 0
    except Exception as error:  # onnxruntime has a class for each way in which a file can be wrong
        print(f"{file} is not a model that madod exported: {error}", file=sys.stderr)
        return 2
    for warning in json.loads(facts.get("warnings", "[]")):
        print(f"of this model's own check: {warning}", file=sys.stderr)
    for path in paths:
        try:
            pixels = squeezed(path, size)
        except Exception as error:  # damaged files make decoders fail in every way there is
            print(f"cannot read {path}: {error}", file=sys.stderr)
            bad = 1
            continue
        label, confidence, _, score, unknown = (answer[0] for answer in session.run(None, {"pixels": pixels}))
        print(path, classes[label], f"{confidence:.4f}", f"{score:.4f}", "unknown" if unknown else "known", sep="\t")
    return bad


def squeezed(path: str, size: int) -> np.ndarray:
    """Return a picture, upright and over white, as uint8 (1, 3, size, size); 16-bit grey keeps its upper eight bits."""
    picture = ImageOps.exif_transpose(Image.open(path))
    if picture.mode.startswith("I"):
        picture = Image.fromarray((np.clip(np.asarray(picture), 0, 0xFFFF) >> 8).astype(np.uint8))
    if picture.mode == "F":
        raise ValueError("its pixels are floating-point numbers of unknown range")
    picture = picture.convert("RGBA")
    picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    return np.asarray(picture.resize((size, size), Image.Resampling.BICUBIC)).transpose(2, 0, 1)[None]


if __name__ == "__main__":
    if len(sys.argv) < 3:
        print("usage: python onnx_predict.py model.onnx PICTURE [PICTURE ...]", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(*sys.argv[1:]))
