"""Giving mapped pages back."""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray


def drop_pages(array: NDArray[np.uint8]) -> None:
    """Tell the system that this process needs the pages of a mapped array no more; reading them maps them again.

    Only whole pages of the array; nothing for an array that is no view of a mapping, or where there is no `madvise`.
    """
    owner = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    if not isinstance(owner, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    start = array.ctypes.data - np.frombuffer(owner, np.uint8).ctypes.data
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (start + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if end > first:
        owner.madvise(mmap.MADV_DONTNEED, first, end - first)
