"""Pictures as PNG files, with what they were drawn from."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

COMPRESSION = 4
"""zlib's level, as ComfyUI saves pictures."""


def pixels(picture: NDArray[np.float32]) -> NDArray[np.uint8]:
    """uint8 of values from -1 to 1, cut to that range and rounded down as ComfyUI does."""
    return (255 * np.clip((picture + 1) / 2, 0, 1)).astype(np.uint8)


def png(picture: NDArray[np.uint8], texts: Mapping[str, str]) -> bytes:
    """A PNG of (height, width, 3) with text chunks."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    info = PngInfo()
    for name, text in texts.items():
        info.add_itxt(name, text)
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG", pnginfo=info, compress_level=COMPRESSION)
    return file.getvalue()


def enlarged(picture: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """The same picture in another size, smoothed."""
    from PIL import Image

    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BILINEAR))
