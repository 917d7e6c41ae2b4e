"""A saved model as one ONNX file that runs without madod."""
