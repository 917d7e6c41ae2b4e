"""How far answers move when pictures are resized by other means than madod's, against madod's own.

    python benchmarks/resizing.py MODEL FOLDER [--chromium /usr/bin/chromium] [--node FOLDER]

An exported model takes pixels at its size, so that whoever asks it resizes. `--chromium` adds a browser's canvas
(needs playwright), `--node` the JavaScript example with sharp, in a folder with `npm install onnxruntime-web sharp`.
"""

import argparse
import base64
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from madod.data.finding import pictures_below
from madod.data.images import Pixels, read_image
from madod.export import export
from madod.predict import Model, load

EXAMPLES = Path(__file__).parent.parent / "examples"
CANVAS = """async ([content, size, quality]) => {
  const picture = await createImageBitmap(await (await fetch(content)).blob());
  const context = new OffscreenCanvas(size, size).getContext("2d");
  context.imageSmoothingQuality = quality;
  context.drawImage(picture, 0, 0, size, size);
  const shown = context.getImageData(0, 0, size, size).data;
  return btoa(Array.from(shown, (byte) => String.fromCharCode(byte)).join(""));
}"""
Rows = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]
"""Label, confidence and score of every picture."""


def pillow(path: Path, size: int, filter: Image.Resampling) -> Pixels:
    picture = ImageOps.exif_transpose(Image.open(path)).convert("RGB").resize((size, size), filter)
    return np.asarray(picture).transpose(2, 0, 1)


def canvas(chromium: str, paths: list[Path], size: int, quality: str) -> Iterator[Pixels]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        page = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"]).new_page()
        for path in paths:
            content = f"data:image/jpeg;base64,{base64.b64encode(path.read_bytes()).decode()}"
            shown = base64.b64decode(page.evaluate(CANVAS, [content, size, quality]))
            yield np.frombuffer(shown, np.uint8).reshape(size, size, 4)[:, :, :3].transpose(2, 0, 1)


def judged(model: Model, pictures: list[Pixels]) -> Rows:
    found = [model.judge(pictures[start : start + 64]) for start in range(0, len(pictures), 64)]
    probabilities, scores = (np.concatenate([part[k].numpy() for part in found]) for k in (0, 1))
    return probabilities.argmax(1), probabilities.max(1), scores


def javascript(folder: Path, model: Model, paths: list[Path]) -> Rows:
    with tempfile.TemporaryDirectory(dir=folder) as inside_it:
        script, file = Path(inside_it, "predict.mjs"), Path(inside_it, "model.onnx")
        script.write_bytes((EXAMPLES / "onnx_predict.mjs").read_bytes())
        export(model, file)
        said = subprocess.run(["node", script, file, *paths], capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in said.splitlines()]
    labels, confidence, scores = zip(*((model.classes.index(row[1]), row[2], row[3]) for row in rows), strict=True)
    return np.array(labels), np.array(confidence, float), np.array(scores, float)


def line(name: str, ours: Rows, theirs: Rows, threshold: float) -> str:
    label, verdict = ours[0] != theirs[0], (ours[2] > threshold) != (theirs[2] > threshold)
    moved = np.abs(ours[2] - theirs[2]) / ours[2].std()
    cells = [label.mean(), verdict.mean(), np.abs(ours[1] - theirs[1]).mean()]
    return f"| {name} | " + " | ".join(f"{cell:.1%}" for cell in cells) + f" | {moved.mean():.3f} | {moved.max():.2f} |"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("model"), parser.add_argument("folder", type=Path)
    parser.add_argument("--chromium"), parser.add_argument("--node", type=Path)
    how = parser.parse_args()
    model, paths = load(how.model), list(pictures_below(how.folder))
    ours = judged(model, [read_image(path, model.size) for path in paths])
    sys.stdout.write(
        f"{len(paths)} pictures, {model.size} px, {model.card.backbone}, {model.card.detector}\n\n"
        "| resized by | labels that change | verdicts that change | mean move of confidence | mean move of score, "
        "in standard deviations | largest |\n|---|---|---|---|---|---|\n"
    )
    for filter in ("BICUBIC", "LANCZOS", "BILINEAR", "NEAREST"):
        pictures = [pillow(path, model.size, Image.Resampling[filter]) for path in paths]
        name = f"Pillow, {filter.lower()}" + ("; the Python example" if filter == "BICUBIC" else "")
        sys.stdout.write(line(name, ours, judged(model, pictures), model.threshold) + "\n")
    if how.node:
        theirs = javascript(how.node, model, paths)
        sys.stdout.write(line("sharp, cubic; the JavaScript example", ours, theirs, model.threshold) + "\n")
    for quality in ("high", "low") if how.chromium else ():
        pictures = list(canvas(how.chromium, paths, model.size, quality))
        name = f"a canvas in Chromium, smoothing {quality}" + (" (its default)" if quality == "low" else "")
        sys.stdout.write(line(name, ours, judged(model, pictures), model.threshold) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
