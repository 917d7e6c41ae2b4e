"""Ask an exported model what pictures show; needs numpy, pillow and onnxruntime, not madod.

python onnx_predict.py model.onnx PICTURE [PICTURE ...]
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
facts = session.get_modelmeta().custom_metadata_map
classes, size = json.loads(facts["classes"]), int(facts["size"])
for path in sys.argv[2:]:
    picture = ImageOps.exif_transpose(Image.open(path)).convert("RGBA")
    picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    pixels = np.asarray(picture.resize((size, size), Image.Resampling.BICUBIC)).transpose(2, 0, 1)[None]
    label, confidence, _, score, unknown = (answer[0] for answer in session.run(None, {"pixels": pixels}))
    print(path, classes[label], f"{confidence:.4f}", f"{score:.4f}", "unknown" if unknown else "known", sep="\t")
