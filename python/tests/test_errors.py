"""Errors are exceptions that say what was expected and what was found."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paint_tta as pt
import pytest

from .conftest import Images


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: pt.adapt("embedded", method="tint"), pt.RequestError, 'unknown method "tint": known are source'),
        (lambda: pt.adapt("embedded", "paint", etta=0.4), pt.RequestError, "unknown field `etta`"),
        (lambda: pt.adapt("embedded", "paint", eta="high"), pt.RequestError, "eta"),
        (lambda: pt.adapt("embedded", "paint", eta=object()), pt.RequestError, "eta: expected a number, text"),
        (lambda: pt.adapt("embedded", "paint", eta=2**70), pt.RequestError, "expected 64 bits"),
        (lambda: pt.adapt("embedded", guard={"sure": 7.0}), pt.RequestError, "sure must lie in"),
        (lambda: pt.adapt("embedded", device="cuda:0"), pt.RequestError, "cuda"),
        (lambda: pt.adapt("no/such.safetensors"), pt.WeightsError, "no/such.safetensors"),
        (lambda: pt.adapt(7), pt.RequestError, "expected a file, a dictionary of arrays or a torch module, got int"),
        (lambda: pt.list("colours"), pt.RequestError, 'expected one of methods, .*got "colours"'),
        (lambda: pt.explain("pant"), pt.RequestError, 'got "pant"'),
        (lambda: pt.corrupt(pt.embedded_images(1), "mist"), pt.RequestError, "mist"),
        (lambda: pt.corrupt(pt.embedded_images(1), "fog", 9), pt.RequestError, "severity"),
        (lambda: pt.run({"out": "out"}), pt.RequestError, "missing field `model`"),
        (lambda: pt.run({}, earlier="later"), ValueError, "expected keep, resume or overwrite"),
        (lambda: pt.bench(protocol="none", methods="tent"), pt.RequestError, "expected a file or one of"),
        (lambda: pt.bench(colour="red"), pt.RequestError, "--colour"),
        (lambda: pt.bench(protocol="embedded", methods="tent", dry_run=True), pt.RequestError, "dry-run"),
        (lambda: pt.bench(protocol="embedded", methods="tent", threads=1), pt.RequestError, "RAYON_NUM_THREADS"),
    ],
)
def test_a_wrong_request_is_told(call: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((1, 3, 8, 8), np.float32), r"expected at least one image \[3, 32, 32\], found shape \[1, 3, 8, 8\]"),
        (np.zeros((0, 3, 32, 32), np.float32), "expected at least one image"),
        (np.zeros((0, 32, 32, 3), np.uint8), "expected at least one image"),
        (np.zeros((1, 0, 0, 3), np.uint8), "expected"),
        (np.full((1, 3, 32, 32), 117, np.float32), r"expected pixels in \[0, 1\], found a mean of 117"),
        (np.full((1, 3, 32, 32), np.nan, np.float32), "expected finite pixels"),
        (np.zeros((1, 3, 32, 32)), r"got float64 \(1, 3, 32, 32\)"),
        (np.zeros((32, 32, 3), np.uint8), r"got uint8 \(32, 32, 3\)"),
        (np.zeros((1, 32, 32, 4), np.uint8), r"got uint8 \(1, 32, 32, 4\)"),
        ([[1]], "got list"),
    ],
)
def test_images_that_do_not_fit_are_refused_and_change_nothing(
    tent: pt.Adapter, foggy: Images, images: Any, message: str
) -> None:
    before = tent.predict(foggy)
    for call in (tent, tent.predict):
        with pytest.raises(pt.ImageError, match=message):
            call(images)
    assert np.array_equal(tent.predict(foggy), before)


def test_a_state_that_is_missing_damaged_or_of_another_method_is_refused(
    tent: pt.Adapter, foggy: Images, tmp_path: Path
) -> None:
    state = tmp_path / "state.safetensors"
    with pytest.raises(pt.StateError, match="state.safetensors"):
        tent.load(state)
    tent(foggy)
    tent.save(state)
    other = pt.adapt("embedded", method="sar", guard=False, stream=False)
    with pytest.raises(pt.StateError, match="method.name"):
        other.load(state)
    content = bytearray(state.read_bytes())
    content[-1] ^= 1
    state.write_bytes(content)
    with pytest.raises(pt.StateError, match="state.safetensors"):
        tent.load(state)


def test_a_method_that_changes_no_parameter_has_no_weights_to_give() -> None:
    adapter = pt.adapt("embedded", method="source", guard=False, stream=False)
    with pytest.raises(pt.RequestError, match="got source"):
        adapter.model_state()


def test_every_exception_is_of_one_family() -> None:
    for kind in (pt.RequestError, pt.WeightsError, pt.ImageError, pt.StateError, pt.OutOfMemoryError):
        assert issubclass(kind, pt.Error)
