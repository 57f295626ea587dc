"""Keeps an image classifier accurate, without labels, while the world it looks at drifts.

`adapt` opens a model; the object it returns adapts to every batch it is called with. `run` and `bench` measure methods
on labelled streams, `corrupt` makes such streams, `tune` finds the best settings for a model, `list` and `explain` say
what there is. For PyTorch's evaluation loops, `paint_tta.torch` wraps an adapter as a module.
"""

from ._adapter import Adapter, Guard, Last, Prompt
from ._measure import bench, run, tune
from ._open import adapt
from ._paint import Error, ImageError, OutOfMemoryError, RequestError, StateError, WeightsError
from ._tables import corrupt, embedded_images, explain, list
from ._weights import write_weights

__all__ = [
    "Adapter",
    "Error",
    "Guard",
    "ImageError",
    "Last",
    "OutOfMemoryError",
    "Prompt",
    "RequestError",
    "StateError",
    "WeightsError",
    "adapt",
    "bench",
    "corrupt",
    "embedded_images",
    "explain",
    "list",
    "run",
    "tune",
    "write_weights",
]
