"""A saved model as one ONNX file that runs without madod."""

from madod.export.write import export

__all__ = ["export"]
