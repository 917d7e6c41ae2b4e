"""Ordinary pictures come out right, and what cannot be read is refused with one sentence."""

import io
import os
import pickle
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from madod.data import images as room
from madod.data.images import (
    EXTENSIONS,
    MAX_PIXELS,
    BadImage,
    dimensions,
    from_bytes,
    from_pil,
    is_picture,
    peak,
    read_image,
)
from madod.errors import InputError

RED, GREEN, BLUE, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)


def halves(left, right, mode="RGB", size=(40, 20)):
    """A picture whose left and right halves have one colour each."""
    image = Image.new(mode, size, right)
    image.paste(left, (0, 0, size[0] // 2, size[1]))
    return image


def saved(folder: Path, name: str, image: Image.Image, **options) -> Path:
    path = folder / name
    image.save(path, **options)
    return path


def assert_halves(pixels, left, right, tolerance=3):
    """The outer quarters, away from the seam, have the colours."""
    assert pixels.dtype == np.uint8
    assert pixels.shape == (3, 16, 16)
    for colour, part in ((left, pixels[:, :, :4]), (right, pixels[:, :, -4:])):
        wrong = np.abs(part.astype(int) - np.array(colour)[:, None, None]).max()
        assert wrong <= tolerance, (colour, part[:, 0, 0])


@pytest.mark.parametrize("ending", ["png", "jpg", "JPEG", "webp", "bmp", "gif", "tif", "ppm"])
def test_colour(tmp_path, ending):
    options = {"quality": 95} if ending in ("jpg", "JPEG", "webp") else {}
    path = saved(tmp_path, f"a.{ending}", halves(RED, BLUE), **options)
    assert_halves(read_image(path, 16), RED, BLUE, tolerance=12 if options else 0)


@pytest.mark.parametrize("ending", ["png", "jpg", "pgm"])
def test_grey(tmp_path, ending):
    path = saved(tmp_path, f"a.{ending}", halves(200, 40, "L"))
    assert_halves(read_image(path, 16), (200,) * 3, (40,) * 3)


def test_one_bit(tmp_path):
    path = saved(tmp_path, "a.png", halves(1, 0, "1"))
    assert_halves(read_image(path, 16), WHITE, BLACK)


def test_one_bit_is_smoothed_like_grey(tmp_path):
    stripes = np.zeros((64, 64), bool)
    stripes[:, ::2] = True
    pixels = read_image(saved(tmp_path, "a.png", Image.fromarray(stripes)), 16)
    assert np.abs(pixels[:, 2:-2, 2:-2].astype(int) - 128).max() < 8


def test_palette(tmp_path):
    path = saved(tmp_path, "a.png", halves(RED, GREEN).convert("P", palette=Image.Palette.ADAPTIVE))
    assert Image.open(path).mode == "P"
    assert_halves(read_image(path, 16), RED, GREEN)


def test_palette_is_smoothed_in_colour_not_in_index(tmp_path):
    image = Image.new("P", (64, 64))
    image.putpalette([*RED, *GREEN, *BLUE])
    image.putdata([2 * (x % 2) for _ in range(64) for x in range(64)])
    pixels = read_image(saved(tmp_path, "a.png", image), 16)[:, 2:-2, 2:-2].astype(int)
    assert np.abs(pixels - np.array([128, 0, 128])[:, None, None]).max() < 8


@pytest.mark.parametrize("ending", ["png", "gif"])
def test_palette_with_one_transparent_colour(tmp_path, ending):
    image = halves(0, 1, "P")
    image.putpalette([*BLACK, *GREEN])
    path = saved(tmp_path, f"a.{ending}", image, transparency=0)
    assert Image.open(path).mode == "P"
    assert_halves(read_image(path, 16), WHITE, GREEN)


def test_palette_with_half_transparent_colours(tmp_path):
    image = halves(0, 1, "P")
    image.putpalette([*BLACK, *GREEN])
    path = saved(tmp_path, "a.png", image, transparency=bytes([128, 255]))
    assert_halves(read_image(path, 16), (127,) * 3, GREEN)


def test_rgba_is_laid_over_white(tmp_path):
    path = saved(tmp_path, "a.png", halves((255, 0, 0, 128), (0, 0, 255, 0), "RGBA"))
    assert_halves(read_image(path, 16), (255, 127, 127), WHITE)


def test_colours_of_transparent_pixels_do_not_bleed(tmp_path):
    path = saved(tmp_path, "a.png", halves((0, 0, 0, 0), (255, 255, 255, 255), "RGBA"))
    assert (read_image(path, 16) >= 254).all()


def test_grey_with_alpha(tmp_path):
    path = saved(tmp_path, "a.png", halves((0, 0), (100, 255), "LA"))
    assert Image.open(path).mode == "LA"
    assert_halves(read_image(path, 16), WHITE, (100,) * 3)


def test_one_transparent_colour_without_alpha_channel(tmp_path):
    path = saved(tmp_path, "a.png", halves(BLACK, RED), transparency=BLACK)
    assert Image.open(path).mode == "RGB"
    assert_halves(read_image(path, 16), WHITE, RED)


@pytest.mark.parametrize("ending", ["jpg", "tif"])
def test_cmyk(tmp_path, ending):
    path = saved(tmp_path, f"a.{ending}", halves((0, 255, 255, 0), (255, 255, 0, 0), "CMYK"))
    assert Image.open(path).mode == "CMYK"
    assert_halves(read_image(path, 16), RED, BLUE, tolerance=12)


def saved_depth(folder: Path, ending: str, depth: np.ndarray) -> Path:
    """Write sixteen bits of grey, as PGM too, which old versions of Pillow do not."""
    if ending != "pgm":
        return saved(folder, f"a.{ending}", Image.fromarray(depth))
    path = folder / "a.pgm"
    path.write_bytes(b"P5 %d %d 65535\n" % depth.shape[::-1] + depth.astype(">u2").tobytes())
    return path


@pytest.mark.parametrize("ending", ["png", "tif", "pgm"])
def test_sixteen_bit_grey(tmp_path, ending):
    depth = np.full((20, 40), 65535, np.uint16)
    depth[:, :20] = 32768
    path = saved_depth(tmp_path, ending, depth)
    assert Image.open(path).mode in ("I;16", "I")
    assert_halves(read_image(path, 16), (128,) * 3, WHITE)


def test_sixteen_bit_grey_big_endian_tiff(tmp_path):
    depth = np.full((20, 40), 0x40FF, ">u2")
    depth[:, :20] = 0xC000
    path = saved(tmp_path, "a.tif", Image.frombytes("I;16B", (40, 20), depth.tobytes()))
    assert_halves(read_image(path, 16), (0xC0,) * 3, (0x40,) * 3, tolerance=0)


def sixteen_bit_colours(path: Path, value: int) -> Path:
    """Write a PNG of sixteen bits a channel, which Pillow only reads."""
    head = (4).to_bytes(4, "big") * 2 + bytes([16, 6, 0, 0, 0])
    rows = (b"\0" + (value.to_bytes(2, "big") * 3 + b"\xff\xff") * 4) * 4
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + b"".join(len(d).to_bytes(4, "big") + k + d + zlib.crc32(k + d).to_bytes(4, "big") for k, d in chunks)
    )
    return path


@pytest.mark.parametrize("ending", ["png", "tif", "pgm"])
def test_the_largest_of_sixteen_bits(tmp_path, ending):
    depth = np.full((20, 40), 17, np.uint16)
    depth[3, 5] = 4095
    assert peak(saved_depth(tmp_path, ending, depth)) == 4095
    assert peak(saved(tmp_path, f"b.{ending}", halves(255, 255, "L"))) is None


def test_the_largest_of_sixteen_bit_colours_is_told_by_the_upper_half(tmp_path):
    assert peak(sixteen_bit_colours(tmp_path / "a.png", 4095)) == 0x0F00  # opaque, which does not count
    assert peak(saved(tmp_path, "b.png", halves(WHITE, WHITE))) is None


def upright() -> Image.Image:
    """Red above, blue below left, green below right: no turn or flip leaves it as it is."""
    image = Image.new("RGB", (40, 20), RED)
    image.paste(BLUE, (0, 10, 20, 20))
    image.paste(GREEN, (20, 10, 40, 20))
    return image


UNDO = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,  # the camera's turn: viewers turn it by 270 degrees
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tif"])
@pytest.mark.parametrize("orientation", UNDO)
def test_exif_orientation(tmp_path, orientation, ending):
    stored = upright() if UNDO[orientation] is None else upright().transpose(UNDO[orientation])
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path, f"a.{ending}", stored, exif=exif, **({"quality": 95} if ending in ("jpg", "webp") else {}))
    pixels = read_image(path, 16).astype(int)
    for colour, (y, x) in ((RED, (3, 3)), (RED, (3, 12)), (BLUE, (12, 3)), (GREEN, (12, 12))):
        assert np.abs(pixels[:, y, x] - colour).max() < 40, (orientation, y, x, pixels[:, y, x])


def test_damaged_exif_does_not_matter(tmp_path):
    path = saved(tmp_path, "a.jpg", halves(RED, BLUE), quality=95, exif=b"Exif\0\0II*\0\xff\xff\xff\xff garbage")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_halves(read_image(path, 16), RED, BLUE, tolerance=12)


@pytest.mark.parametrize("ending", ["gif", "webp", "png", "tif"])
def test_animations_give_their_first_frame(tmp_path, ending):
    options = {"lossless": True} if ending == "webp" else {}
    path = saved(
        tmp_path,
        f"a.{ending}",
        halves(RED, BLUE),
        save_all=True,
        append_images=[halves(GREEN, BLACK), halves(BLACK, RED)],
        **options,
    )
    assert Image.open(path).n_frames == 3
    assert_halves(read_image(path, 16), RED, BLUE)


@pytest.mark.parametrize("ending", ["png", "jpg", "gif"])
def test_one_pixel(tmp_path, ending):
    path = saved(tmp_path, f"a.{ending}", Image.new("RGB", (1, 1), (200, 100, 50)))
    assert np.abs(read_image(path, 16).astype(int) - np.array([200, 100, 50])[:, None, None]).max() <= 3


@pytest.mark.parametrize(
    ("width", "height", "ending"), [(20_000, 300, "jpg"), (20_000, 40, "png"), (30, 20_000, "png")]
)
def test_very_long_pictures(tmp_path, width, height, ending):
    path = saved(tmp_path, f"a.{ending}", halves(RED, BLUE, size=(width, height)))
    assert_halves(read_image(path, 16), RED, BLUE)


def test_large_pictures_are_averaged_not_sampled(tmp_path):
    noise = np.random.default_rng(0).integers(0, 2, (1600, 1600, 1), np.uint8).repeat(3, 2) * 255
    pixels = read_image(saved(tmp_path, "a.png", Image.fromarray(noise)), 16)
    assert np.abs(pixels.astype(int) - 128).max() < 16


def test_reducing_early_changes_nothing_visible(tmp_path):
    ramp = np.linspace(0, 255, 1200)
    image = Image.fromarray(
        np.stack([ramp[None] + 0 * ramp[:, None], ramp[:, None] + 0 * ramp, ramp[::-1] + 0 * ramp[:, None]], 2).astype(
            np.uint8
        )
    )
    exact = np.asarray(image.resize((32, 32), Image.Resampling.BICUBIC)).transpose(2, 0, 1).astype(int)
    for ending in ("png", "jpg"):
        assert np.abs(read_image(saved(tmp_path, f"a.{ending}", image), 32) - exact).max() <= 4


def test_bytes_and_pillow_and_files_agree(tmp_path):
    path = saved(tmp_path, "a.jpg", upright().resize((400, 200)))
    from_file = read_image(path, 24)
    assert (from_bytes(path.read_bytes(), 24) == from_file).all()
    with Image.open(saved(tmp_path, "a.png", upright())) as image:
        assert (from_pil(image, 24) == read_image(tmp_path / "a.png", 24)).all()
        assert image.size == (40, 20)


@pytest.mark.parametrize("name", ["two words.png", "寫真 ñ.png", "صورة.png", "a'b\"c.png"])
def test_any_name(tmp_path, name):
    assert_halves(read_image(saved(tmp_path, name, halves(RED, BLUE)), 16), RED, BLUE)


def test_dimensions_come_from_the_header(tmp_path):
    path = saved(tmp_path, "a.jpg", halves(RED, BLUE, size=(640, 480)))
    path.write_bytes(path.read_bytes()[:1000])
    assert dimensions(path) == (640, 480)


def test_endings_count_in_any_case():
    assert all(is_picture(Path(name)) for name in ("a.JPG", "b.jpeg", "c.Png", "d.webp", "e.tiff", "f.b.bmp"))
    assert not any(is_picture(Path(name)) for name in ("a.txt", "jpg", ".png", "b.jpg.part", "c.svg"))
    assert all(ending == ending.lower() and ending.startswith(".") for ending in EXTENSIONS)


def refusal(path: Path) -> str:
    with pytest.raises(BadImage) as caught:
        read_image(path, 16)
    assert caught.value.name == str(path)
    assert str(caught.value) == f"cannot read {str(path)!r}: {caught.value.reason}"
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, InputError)
    return caught.value.reason


@pytest.mark.parametrize("ending", ["jpg", "png", "gif", "bmp", "ppm", "tif"])
def test_truncated(tmp_path, ending):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8))
    path = saved(tmp_path, f"a.{ending}", noise)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert refusal(path) == "it is truncated"


def test_truncated_webp(tmp_path):
    path = saved(tmp_path, "a.webp", halves(RED, BLUE, size=(300, 300)), lossless=True)
    path.write_bytes(path.read_bytes()[:-20])
    assert refusal(path).startswith("it is damaged or of a kind that is not supported (")


@pytest.mark.parametrize("ending", ["jpg", "png", "gif", "webp", "bmp", "tif", "ppm"])
def test_random_damage_is_read_or_refused(tmp_path, ending):
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (24, 24, 3), np.uint8))
    whole = saved(tmp_path, f"a.{ending}", noise).read_bytes()
    outcomes = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(60):
            data = bytearray(whole)
            for place in rng.integers(0, min(len(data), 400), 3):
                data[place] = rng.integers(256)
            try:
                outcomes.add(from_bytes(bytes(data), 16).shape)
            except BadImage:
                outcomes.add("refused")
    assert outcomes <= {(3, 16, 16), "refused"}
    assert "refused" in outcomes


def test_text_named_like_a_picture(tmp_path):
    path = tmp_path / "a.png"
    path.write_text("not a picture")
    assert refusal(path) == "its content is not a picture of a known kind"


def test_formats_that_start_programs_are_not_tried(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (8, 8)).save(path, format="EPS")
    assert refusal(path) == "its content is not a picture of a known kind"


def test_empty_file(tmp_path):
    path = tmp_path / "a.png"
    path.touch()
    assert refusal(path) == "it is empty"
    with pytest.raises(BadImage, match="cannot read 'upload': it is empty"):
        from_bytes(b"", 16, "upload")


def test_no_permission(tmp_path, monkeypatch):
    path = saved(tmp_path, "a.png", halves(RED, BLUE))

    def refuse(self, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    assert refusal(path) == "there is no permission to read it"


def test_missing(tmp_path):
    assert refusal(tmp_path / "a.png") == "it does not exist"


def test_dangling_and_circular_links(tmp_path):
    (tmp_path / "a.png").symlink_to(tmp_path / "nowhere.png")
    (tmp_path / "b.png").symlink_to(tmp_path / "b.png")
    assert refusal(tmp_path / "a.png") == "it does not exist"
    assert refusal(tmp_path / "b.png") == "too many levels of symbolic links"


def test_directory(tmp_path):
    assert refusal(tmp_path) == "it is a directory"


def test_pipe_does_not_wait(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    assert refusal(tmp_path / "a.png") == "it is not an ordinary file"


def empty_png(width: int, height: int) -> bytes:
    """A PNG that promises more than it holds."""
    small = io.BytesIO()
    Image.new("L", (1, 1)).save(small, "PNG")
    data = bytearray(small.getvalue())
    data[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(("width", "height"), [(10_001, 10_000), (20_000, 20_000)])
def test_over_the_pixel_limit(tmp_path, width, height):
    path = tmp_path / "a.png"
    path.write_bytes(empty_png(width, height))
    assert refusal(path).startswith("it has more than the 100,000,000 pixels that are allowed")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_at_the_pixel_limit_is_not_over_it(tmp_path):
    assert MAX_PIXELS == 100_000_000
    path = tmp_path / "a.png"
    path.write_bytes(empty_png(10_000, 10_000))
    assert dimensions(path) == (10_000, 10_000)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_large_picture_within_the_limit(tmp_path):
    path = saved(tmp_path, "a.png", halves(1, 0, "1", size=(20_000, 4_900)))
    assert_halves(read_image(path, 16), WHITE, BLACK)


def test_a_crop_without_pixels_is_refused_not_answered():
    with pytest.raises(BadImage, match=r"it has no pixels \(0 x 4\)"):
        from_pil(Image.new("RGB", (9, 9)).crop((4, 4, 4, 8)), 16)


def test_floating_point_pixels_are_refused_not_guessed(tmp_path):
    path = saved(tmp_path, "a.tif", Image.fromarray(np.full((4, 4), 0.5, np.float32)))
    assert refusal(path) == "its pixels are floating-point numbers of unknown range"


@pytest.mark.parametrize("pixels", [np.full((4, 4), 70_000, np.int32), np.full((4, 4), 200, np.int32)])
def test_integers_of_more_than_sixteen_bits_are_refused_not_guessed(tmp_path, pixels):
    path = saved(tmp_path, "a.tif", Image.fromarray(pixels))
    assert refusal(path) == "its pixels are 32-bit or signed integers of unknown range"
    with pytest.raises(BadImage, match="of unknown range"):
        from_pil(Image.fromarray(pixels), 16)


def test_verdicts_travel_between_processes():
    verdict = pickle.loads(pickle.dumps(BadImage("a.png", "it is empty")))
    assert (str(verdict), verdict.reason) == ("cannot read 'a.png': it is empty", "it is empty")


def photograph(mode="RGB", width=61, height=47):
    """Smooth colours with some noise, of odd sides: what decoders round differently if they do."""
    y, x = np.mgrid[:height, :width]
    waves = np.stack([np.sin(x / 9), np.cos(y / 7), np.sin((x + y) / 5)], 2) * 100 + 128
    noise = np.random.default_rng(0).normal(0, 12, (height, width, 3))
    return Image.fromarray(np.clip(waves + noise, 0, 255).astype(np.uint8)).convert(mode)


JPEGS = {
    "4:4:4": (photograph(), {"subsampling": 0}),
    "4:2:2": (photograph(), {"subsampling": 1}),
    "4:2:0": (photograph(), {"subsampling": 2}),
    "progressive": (photograph(), {"progressive": True}),
    "low quality": (photograph(), {"quality": 10}),
    "grey": (photograph("L"), {}),
    "four inks": (photograph("CMYK"), {}),
    "stored as RGB": (photograph(), {"keep_rgb": True}),
    "square": (photograph(width=32, height=32), {}),
    "square and grey": (photograph("L", 32, 32), {}),
    "turned": (
        photograph(width=32, height=32),
        {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"},
    ),
    "large": (photograph(width=640, height=480), {}),
}


@pytest.mark.parametrize("kind", JPEGS)
@pytest.mark.parametrize("size", [16, 32, 100])
def test_both_jpeg_decoders_make_the_same_bits(tmp_path, kind, size, monkeypatch):
    image, options = JPEGS[kind]
    path = saved(tmp_path, "a.jpg", image, **options)
    with_both = read_image(path, size)
    monkeypatch.setattr(room, "decode_jpeg", None)
    assert np.array_equal(with_both, read_image(path, size))


def test_the_quick_decoder_is_used_where_it_is_installed(tmp_path, monkeypatch):
    decode_jpeg = pytest.importorskip("simplejpeg").decode_jpeg
    calls = []
    monkeypatch.setattr(room, "decode_jpeg", lambda *given: calls.append(given) or decode_jpeg(*given))
    read_image(saved(tmp_path, "a.jpg", photograph()), 32)
    read_image(saved(tmp_path, "a.png", photograph()), 32)
    assert len(calls) == 1


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_jpeg_fares_alike_with_both_decoders(tmp_path, damage, monkeypatch):
    path = saved(tmp_path, "a.jpg", photograph(width=200, height=200))
    content = bytearray(path.read_bytes())
    if damage == "cut":
        del content[len(content) // 2 :]
    else:
        content[len(content) // 2 : len(content) // 2 + 40] = bytes(range(40))
    path.write_bytes(content)

    def outcome():
        try:
            return read_image(path, 64).tobytes()
        except BadImage as bad:
            return bad.reason

    with_both = outcome()
    monkeypatch.setattr(room, "decode_jpeg", None)
    assert with_both == outcome()
