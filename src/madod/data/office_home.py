"""OfficeHome: things of office and home."""

from madod.data.base import DATASETS
from madod.data.image_set import ImageSet
from madod.data.published import Census

CLASSES = """
Alarm_Clock Backpack Batteries Bed Bike Bottle Bucket Calculator Calendar Candles Chair Clipboards Computer Couch
Curtains Desk_Lamp Drill Eraser Exit_Sign Fan File_Cabinet Flipflops Flowers Folder Fork Glasses Hammer Helmet Kettle
Keyboard Knives Lamp_Shade Laptop Marker Monitor Mop Mouse Mug Notebook Oven Pan Paper_Clip Pen Pencil Postit_Notes
Printer Push_Pin Radio Refrigerator Ruler Scissors Screwdriver Shelf Sink Sneakers Soda Speaker Spoon TV Table
Telephone ToothBrush Toys Trash_Can Webcam
"""


@DATASETS.register("office_home")
class OfficeHome(ImageSet):
    """15,588 pictures of 65 things as art, clipart, product shot and photograph [Venkateswara et al. 2017]."""

    domains = ("Art", "Clipart", "Product", "RealWorld")
    classes = tuple(CLASSES.split())
    folders = ("office_home", "officehomedataset_10072016", "officehome", "office-home")
    also = {"RealWorld": ("real world", "real_world", "real")}  # noqa: RUF012  # a constant
    wanted = (
        "put OfficeHomeDataset_10072016.zip (https://drive.google.com/uc?id=1uY0pj7oFsjMxRwaD3Sxy0jgel0fsYXLC) there, "
        "or office_home/DOMAIN/CLASS/*.jpg of Art, Clipart, Product and RealWorld"
    )
    census = (Census({"Art": 2427, "Clipart": 4365, "Product": 4439, "RealWorld": 4357}),)
