"""TerraIncognita: animals before camera traps at four places."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from madod.data.base import DATASETS
from madod.data.download import Source
from madod.data.finding import LabelledFile, listing, pictures_below
from madod.data.image_set import ImageSet
from madod.data.layout import folder_in
from madod.data.published import Absent, Census
from madod.errors import InputError

MIRRORS = (
    "https://storage.googleapis.com/public-datasets-lila/caltechcameratraps/",
    "https://lilawildlife.blob.core.windows.net/lila-wildlife/caltechcameratraps/",
)
IMAGES, ANNOTATIONS = "eccv_18_all_images_sm", "eccv_18_annotations"


@DATASETS.register("terra_incognita")
class TerraIncognita(ImageSet):
    """24,788 camera-trap pictures of 9 animals, or empty, at 4 places [Beery et al. 2018].

    Known as DomainBed has it (location_38/bird/...) and as published: flat pictures, with the places and classes in
    annotation files (JSON). A picture annotated with two of the classes is counted for both, as in DomainBed, and not
    read: were one of them unknown, it would show it to training under the name of the other.
    """

    domains = ("L100", "L38", "L43", "L46")
    classes: tuple[str, ...] = (
        "bird", "bobcat", "cat", "coyote", "dog", "empty", "opossum", "rabbit", "raccoon", "squirrel",
    )  # fmt: skip
    folders = (
        "terra_incognita", "terraincognita", IMAGES, "terra_incognita_images", ANNOTATIONS, "eccv_18_annotation_files",
        "caltech_camera_traps.json",
    )  # fmt: skip
    also = {name: (f"location_{name[1:]}",) for name in domains}  # noqa: RUF012  # a constant
    wanted = (
        f"put {IMAGES}.tar.gz and {ANNOTATIONS}.tar.gz (from {MIRRORS[0]}) there, "
        "or terra_incognita/location_N/CLASS/*.jpg of the locations 100, 38, 43 and 46"
    )
    sources = tuple(
        Source(f"terra_incognita/{name}.tar.gz", tuple(f"{mirror}{name}.tar.gz" for mirror in MIRRORS))
        for name in (IMAGES, ANNOTATIONS)
    )
    census: tuple[Census, ...] = (
        Census({"L100": 4879, "L38": 9767, "L43": 4020, "L46": 6122}),
        Census({"L100": 4741, "L38": 9736, "L43": 3970, "L46": 5883}),
    )

    def find(self) -> Mapping[str, Iterable[LabelledFile]]:
        """Return the pictures in folders of locations and classes or, where there are none, by the annotations."""
        names = [name for domain in self.domains for name in (domain.lower(), *self.also[domain])]
        if not folder_in(self.places(), names):
            for archived in ((), self.folders):  # archives of gigabytes are unpacked only where nothing else is there
                if annotated := self._annotated(self.places(archived)):
                    return annotated
        return super().find()

    def of_one_class(self, domain: str) -> list[LabelledFile]:
        """Return the pictures of a domain but those of two classes: files of one name and length are one picture."""
        pictures = self.pictures[domain]
        which = [(picture.path.name, picture.path.stat().st_size) for picture in pictures]
        times = Counter(which)
        return [picture for picture, each in zip(pictures, which, strict=True) if times[each] == 1]

    def _annotated(self, places: Sequence[Path]) -> dict[str, set[LabelledFile]]:
        annotations = [f for place in places for f in listing(place).files if f.suffix == ".json"]
        files = {file.name: file for place in places for file in pictures_below(place)}
        found: dict[str, set[LabelledFile]] = {domain: set() for domain in self.domains}
        for place, label, name in (row for file in annotations for row in _rows(file)):
            if place in found and label in self.classes and name in files:
                found[place].add(LabelledFile(place, label, files[name]))
        missing = [domain for domain, pictures in found.items() if not pictures]
        if missing and len(missing) < len(found):
            raise Absent(f"{self.name} in {self.root} has no annotated pictures of {', '.join(missing)}: {self.wanted}")
        return {} if missing else found


@DATASETS.register("terra_incognita_no_empty")
class TerraIncognitaNoEmpty(TerraIncognita):
    """The camera-trap pictures of 9 animals without the empty ones, at the same 4 places [Beery et al. 2018]."""

    classes = tuple(label for label in TerraIncognita.classes if label != "empty")
    passed_over = ("empty",)
    census = ()  # counts are official with "empty" only


def _rows(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the place, the class and the file's name of every annotation."""
    try:
        facts: Any = json.loads(file.read_bytes())
        if not isinstance(facts, dict) or not facts.keys() >= {"images", "annotations", "categories"}:
            return
        names = {category["id"]: category["name"] for category in facts["categories"]}
        images = {image["id"]: (f"L{image['location']}", Path(image["file_name"]).name) for image in facts["images"]}
        rows = [(*images[a["image_id"]], names[a["category_id"]]) for a in facts["annotations"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{file} is no whole annotation file ({type(error).__name__}: {error}): get it again"
        ) from error
    for place, name, label in rows:
        yield place, label, name
