"""A saved model in use: pictures in; label, confidence, score and a verdict out."""

from madod.predict.card import Card, Checked
from madod.predict.examine import Examined
from madod.predict.findings import Findings, Measures
from madod.predict.gallery import Gallery, Neighbour
from madod.predict.model import Model, Prediction, load
from madod.predict.pictures import BATCH, Picture

__all__ = [
    "BATCH", "Card", "Checked", "Examined", "Findings", "Gallery", "Measures", "Model", "Neighbour", "Picture",
    "Prediction", "load",
]  # fmt: skip
