// Ask an exported model what pictures show: npm install onnxruntime-web sharp, then
//     node onnx_predict.mjs model.onnx PICTURE [PICTURE ...]
// In a browser the pixels come from a canvas instead of sharp; everything else is the same.
import { readFile } from "node:fs/promises";
import * as ort from "onnxruntime-web";
import sharp from "sharp";

const [file, ...paths] = process.argv.slice(2);
if (!paths.length) {
  console.error("usage: node onnx_predict.mjs model.onnx PICTURE [PICTURE ...]");
  process.exit(2);
}
const { classes, size, warnings, session } = await opened(file).catch((error) => {
  console.error(`${file} is no model that madod exported: ${error.message}`);
  process.exit(2);
});
for (const warning of warnings) console.error(`of this model's own check: ${warning}`);
for (const path of paths) {
  const picture = sharp(path).autoOrient().flatten({ background: "white" }).toColourspace("srgb");
  const rgb = await picture.resize(size, size, { fit: "fill", kernel: "cubic" }).raw().toBuffer().catch((error) => {
    console.error(`cannot read ${path}: ${error.message}`);
    process.exitCode = 1;
  });
  if (!rgb) continue;
  const plane = size * size; // from r g b r g b ... to one plane a colour
  const pixels = Uint8Array.from(rgb, (_, i) => rgb[3 * (i % plane) + Math.floor(i / plane)]);
  const answer = await session.run({ pixels: new ort.Tensor("uint8", pixels, [1, 3, size, size]) });
  const [label, confidence, score, unknown] = ["label", "confidence", "score", "unknown"].map((name) => answer[name].data[0]);
  const words = [path, classes[label], confidence.toFixed(4), score.toFixed(4), unknown ? "unknown" : "known"];
  console.log(words.join("\t"));
}

async function opened(file) {
  const model = await readFile(file);
  return { ...metadata(model), session: await ort.InferenceSession.create(model) };
}

// onnxruntime-web does not show a file's metadata, which are field 14 of its protocol buffer.
function metadata(bytes) {
  const entries = [...parts(bytes)].filter(([field]) => field === 14).map(([, entry]) => [...parts(entry)]);
  const facts = Object.fromEntries(entries.map((pair) => pair.map(([, part]) => new TextDecoder().decode(part))));
  return { classes: JSON.parse(facts.classes), size: Number(facts.size), warnings: JSON.parse(facts.warnings ?? "[]") };
}

function* parts(bytes) {
  let at = 0;
  const number = () => {
    let value = 0, scale = 1, byte;
    do (byte = bytes[at++]), (value += (byte & 127) * scale), (scale *= 128);
    while (byte > 127);
    return value;
  };
  while (at < bytes.length) {
    const key = number(), value = number(); // the value itself, or the length of what follows
    if ((key & 7) === 2) yield [key >> 3, bytes.subarray(at, (at += value))];
  }
}
