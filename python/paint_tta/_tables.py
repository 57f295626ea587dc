"""What can be named, and images to try things with."""

import builtins
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _paint
from ._arrays import to_numpy


def list(topic: str) -> builtins.list[dict[str, str]]:
    """The rows of a table, each with `name` and `what`: methods, backbones, devices, datasets, corruptions, scenarios,
    protocols, presets or tables."""
    return _paint.list(topic)


def explain(name: str) -> builtins.list[dict[str, Any]]:
    """All that is known of a method, network, dataset, scenario, protocol or recipe: what it is, every key with its
    default, range and meaning, the presets. A name that stands for several things is explained as all of them."""
    return _paint.explain(name)


def corrupt(images: Any, corruption: str, severity: int = 5, seed: int = 0) -> NDArray[np.uint8]:
    """Images uint8 `[B, H, W, 3]` under a corruption of CIFAR-10-C or ImageNet-C, at a severity of 1 to 5. The same
    seed gives the same pixels."""
    return _paint.corrupt(to_numpy(images), corruption, severity, seed)


def embedded_images(count: int) -> NDArray[np.uint8]:
    """The first images of CIFAR-10's test set, of which this package has 1,000: uint8 `[B, 32, 32, 3]`."""
    return _paint.embedded_images(count)
