"""PACS: photographs, paintings, cartoons and sketches."""

from madod.data.base import DATASETS
from madod.data.image_set import ImageSet
from madod.data.published import Census


@DATASETS.register("pacs")
class Pacs(ImageSet):
    """9,991 pictures of 7 classes as photo, art painting, cartoon and sketch [Li et al. 2017]."""

    domains = ("photo", "art_painting", "cartoon", "sketch")
    classes = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
    folders = ("pacs", "kfold", "pacs_data", "raw_images")
    also = {"art_painting": ("art", "art painting", "artpainting")}  # noqa: RUF012  # a constant
    wanted = (
        "put PACS.zip (https://drive.google.com/uc?id=1JFr8f805nMUelQWWmfnJR3y4_SYoN5Pd) there, "
        "or PACS/DOMAIN/CLASS/*.jpg, or one DOMAIN.zip each of photo, art_painting, cartoon and sketch"
    )
    census = (
        Census(
            {"photo": 1670, "art_painting": 2048, "cartoon": 2344, "sketch": 3929},
            {
                "photo": (189, 202, 182, 186, 199, 280, 432),
                "art_painting": (379, 255, 285, 184, 201, 295, 449),
                "cartoon": (389, 457, 346, 135, 324, 288, 405),
                "sketch": (772, 740, 753, 608, 816, 80, 160),
            },
        ),
    )
