"""From a saved model to an ONNX file that is whole, says what it is, and answers as the model does."""

import copy
import inspect
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from madod import __version__
from madod.errors import InputError
from madod.export.answer import Answer, Answering
from madod.export.check import check
from madod.export.fold import fold
from madod.predict import Model
from madod.storage import refuse_closed, refuse_file, whole

OPSET = 18
LIMIT = 2**31 - 1
"""Bytes that an ONNX file can hold."""
ABOUT = (
    "pixels: uint8 RGB (n, channels, size, size), the whole picture squeezed to a square; label: position among the "
    "classes in the metadata; score: higher is more unknown; unknown: score > threshold"
)


def export(model: Model, file: Path | str) -> bool:
    """Write a model as one ONNX file and return whether it was compared with the model: not without onnxruntime."""
    file = Path(file)
    if file.is_dir():
        raise InputError(f"{file} is a folder: name the file to write, as in {file / 'model.onnx'}")
    if file.suffix.lower() != ".onnx":
        raise InputError(f"{file} is no name for an ONNX file: let it end in .onnx, as in {file.with_suffix('.onnx')}")
    refuse_file(file.parent)
    refuse_closed(file, "file")
    if model.detector.needs_model:
        raise InputError(
            f"the detector {model.card.detector} takes gradients of the network, which an ONNX file cannot: train the "
            "model again with another one, such as --detector energy"
        )
    if missing := [name for name in ("onnx", "onnxscript") if find_spec(name) is None]:
        raise InputError(
            f"export needs packages that are not installed ({', '.join(missing)}): pip install 'madod[export]'"
        )
    here = copy.copy(model)
    here.net = copy.deepcopy(model.net).cpu().eval()  # a GPU rounds more than the two may differ
    program = converted(Answering(here.net, model.detector, model.threshold), model.card.shape, Answer._fields)
    held = sum(value.const_value.nbytes for value in program.model.graph.initializers.values())
    if held > LIMIT:
        raise InputError(
            f"the model holds {held:,} bytes and an ONNX file at most {LIMIT:,}: train it again with a smaller "
            "--backbone, or with a --detector that keeps no training images, such as energy"
        )
    with whole(file) as part:
        part.write_bytes(described(program, model))
        return check(part, here)


def converted(answering: nn.Module, shape: tuple[int, int, int], names: Sequence[str]) -> Any:
    """Return a function of uint8 pixels (n, c, h, w) as an ONNX program for any n, its outputs named."""
    pixels = torch.zeros(2, *shape, dtype=torch.uint8)
    number = {"pixels": {0: torch.export.Dim("n", min=1, max=1024)}}  # for tracing: `fold` takes out what depends on it
    with quiet(), torch.no_grad():
        traced = torch.export.export(answering, (pixels,), dynamic_shapes=number, strict=False)
        return torch.onnx.export(
            fold(unguarded(traced)),
            (pixels,),
            dynamo=True,
            opset_version=OPSET,
            dynamic_shapes=number,
            input_names=["pixels"],
            output_names=list(names),
            verbose=False,
        )


def unguarded(traced: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    """Return what was traced without checks of what it is given; old versions of torch put none in."""
    guarded = "check_guards" in inspect.signature(traced.module).parameters
    return traced.module(check_guards=False) if guarded else traced.module()


def described(program: Any, model: Model) -> bytes:
    """Return the bytes of an ONNX program that says what it holds, and nothing of the machine that it was made on."""
    made, card = program.model, model.card
    for part in (made, made.graph, *made.graph.all_nodes(), *made.graph.inputs, *made.graph.outputs):
        part.metadata_props.clear()  # file names and line numbers of the code that was traced
    made.producer_name, made.producer_version, made.doc_string = "madod", __version__, ABOUT
    facts = {
        "classes": json.dumps(card.classes, ensure_ascii=False),
        "threshold": repr(model.threshold),
        "detector": card.detector,
        "size": str(card.shape[1]),
        "channels": str(card.shape[0]),
        "algorithm": card.algorithm,
        "backbone": card.backbone,
        "warnings": json.dumps(card.warnings, ensure_ascii=False),
    }
    made.metadata_props.update(facts)
    return program.model_proto.SerializeToString()


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the exporter's remarks to itself."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
