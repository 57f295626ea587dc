"""The package is typed, and says so."""

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

PROGRAM = """
import numpy as np
import paint_tta as pt
import torch

adapter = pt.adapt("embedded", method="tent", lr=0.01)
reveal_type(adapter(np.zeros((1, 32, 32, 3), np.uint8)))
reveal_type(adapter(torch.zeros(1, 3, 32, 32)))
reveal_type(adapter.last)
reveal_type(adapter.model_state())
adapter.save(1)
pt.list(3)
"""


def checked(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", *words], capture_output=True, text=True)


def test_the_package_passes_mypy_strict(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    pytest.importorskip("torch")
    done = checked("--cache-dir", str(tmp_path), "-p", "paint_tta")
    assert done.returncode == 0, done.stdout


def test_a_program_sees_the_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    pytest.importorskip("torch")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    said = checked("--cache-dir", str(tmp_path / "cache"), str(program)).stdout
    assert 'is "numpy.ndarray[' in said and "floating[numpy._typing" in said or "float32" in said, said
    assert 'is "torch._tensor.Tensor"' in said, said
    assert "paint_tta._adapter.Last | None" in said, said
    assert 'Argument 1 to "save" of "Adapter" has incompatible type "int"' in said, said
    assert 'Argument 1 to "list" has incompatible type "int"' in said, said
    assert "Found 2 errors" in said, said


def test_stubs_name_everything_the_native_module_has() -> None:
    from paint_tta import _paint

    stubs = files("paint_tta").joinpath("_paint.pyi").read_text()
    public = [name for name in dir(_paint) if not name.startswith("_")]
    assert len(public) > 12
    for name in public:
        assert f"def {name}(" in stubs or f"class {name}" in stubs, name
