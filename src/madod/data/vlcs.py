"""VLCS: the same five classes in four older collections."""

from madod.data.base import DATASETS
from madod.data.image_set import ImageSet
from madod.data.published import Census


@DATASETS.register("vlcs")
class Vlcs(ImageSet):
    """10,729 photographs of 5 classes from Caltech101, LabelMe, SUN09 and VOC2007 [Fang et al. 2013].

    Known as DomainBed has it (Caltech101/bird/...) and as the original archive does (CALTECH/train/0/..., where train,
    crossval and test together are the domain).
    """

    domains = ("Caltech101", "LabelMe", "SUN09", "VOC2007")
    classes = ("bird", "car", "chair", "dog", "person")
    folders = ("vlcs",)
    also = {  # noqa: RUF012  # a constant
        "Caltech101": ("caltech",),
        "SUN09": ("sun",),
        "VOC2007": ("pascal", "voc"),
        **{label: (str(k),) for k, label in enumerate(classes)},
    }
    parts = (("train", "crossval", "val", "test"), ("full",))
    wanted = (
        "put VLCS.tar.gz (https://drive.google.com/uc?id=1skwblH1_okBwxWxmRsp9_qi15hyPpxg8) there, "
        "or VLCS/DOMAIN/CLASS/*.jpg of Caltech101, LabelMe, SUN09 and VOC2007"
    )
    census = (
        Census(
            {"Caltech101": 1415, "LabelMe": 2656, "SUN09": 3282, "VOC2007": 3376},
            {
                "Caltech101": (237, 123, 118, 67, 870),
                "LabelMe": (80, 1209, 89, 43, 1235),
                "SUN09": (21, 933, 1036, 31, 1261),
                "VOC2007": (330, 699, 428, 420, 1499),
            },
        ),
    )
