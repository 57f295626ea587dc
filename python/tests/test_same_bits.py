"""One adaptation from Python, from the command line and from a Rust program: the same state, bit for bit.

The command and the program are those that cargo built, in the folder that PAINT_BUILD names (`target/debug` if it does
not).
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import paint_tta as pt
import pytest

from .conftest import Images, write_png

BUILD = Path(os.environ.get("PAINT_BUILD", Path(__file__).parents[2] / "target" / "debug"))


def arrays(state: Path) -> dict[str, bytes]:
    """The arrays of a safetensors file, without its seal: it covers the place in the list of files, which only the
    command has."""
    content = state.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8:start])
    header.pop("__metadata__", None)
    spans = {
        name: entry["data_offsets"] for name, entry in header.items() if "sha256" not in name and "seal" not in name
    }
    return {name: content[start + begin : start + end] for name, (begin, end) in spans.items()}


@pytest.fixture(scope="module")
def images() -> Images:
    return pt.corrupt(pt.embedded_images(100), "fog", 5)


@pytest.fixture(scope="module")
def folder(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    for index, image in enumerate(images):
        write_png(folder / f"{index:03}.png", image)
    return folder


@pytest.fixture(scope="module")
def ours(images: Images, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Two batches of fifty, as the other two read them."""
    state = tmp_path_factory.mktemp("python") / "state.safetensors"
    adapter = pt.adapt("embedded", method="paint", guard=False, stream=False)
    for batch in np.split(images, 2):
        adapter(batch)
    adapter.save(state)
    return arrays(state)


def ran(command: list[object]) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_command_line_learns_the_same(folder: Path, ours: dict[str, bytes], tmp_path: Path) -> None:
    program = BUILD / "paint"
    if not program.exists():
        pytest.skip(f"cargo has not built {program}")
    state = tmp_path / "state.safetensors"
    flags = ["--method", "paint", "--in-order", "--batch-size", 50, "--no-guard", "--no-stream", "--state", state]
    ran([program, "adapt", "--weights", "embedded", "--images", folder, *flags])
    assert len(ours) > 10 and arrays(state) == ours


def test_a_rust_program_learns_the_same(folder: Path, ours: dict[str, bytes], tmp_path: Path) -> None:
    program = BUILD / "examples" / "adapt_folder"
    if not program.exists():
        pytest.skip(f"cargo has not built {program}")
    state = tmp_path / "state.safetensors"
    ran([program, "embedded", folder, state])
    assert len(ours) > 10 and arrays(state) == ours
