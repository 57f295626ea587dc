"""What several tests start from."""

import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import paint_tta as pt
import pytest
from numpy.typing import NDArray

Images = NDArray[np.uint8]


@pytest.fixture(scope="session")
def foggy() -> Images:
    """Sixteen images in fog."""
    return pt.corrupt(pt.embedded_images(16), "fog", 5)


@pytest.fixture
def tent() -> pt.Adapter:
    """The bare method of the paper, which trains the norms of the embedded model."""
    return pt.adapt("embedded", method="tent", guard=False, stream=False, lr=0.01)


def as_floats(images: Images) -> NDArray[np.float32]:
    """`[B, H, W, 3]` bytes as `[B, 3, H, W]` in [0, 1]."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32) / np.float32(255)


def write_png(path: Path, image: Images) -> None:
    """A file without loss, written with nothing but zlib."""
    height, width, _ = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunks)


@pytest.fixture
def paint() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """The command of this package."""

    def run(*words: object) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "paint_tta", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True)

    return run
