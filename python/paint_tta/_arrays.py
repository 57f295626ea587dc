"""Images of other libraries as numpy's, and logits back, in shared memory."""

import sys
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from ._paint import ImageError

if TYPE_CHECKING:
    import torch


class SupportsDLPack(Protocol):
    """An array of any library that shares memory by DLPack."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...

    def __dlpack_device__(self) -> Any: ...


def is_tensor(images: object) -> "TypeGuard[torch.Tensor]":
    """Whether these are torch's. Nobody has a tensor before torch is imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(images, torch.Tensor)


def to_numpy(images: object) -> NDArray[Any]:
    """The same memory as an array of numpy's, unless its elements lie out of order."""
    if is_tensor(images):
        if images.device.type != "cpu":
            raise ImageError(f"images: expected a tensor on the CPU, got one on {images.device}: give images.cpu()")
        images = images.detach()
    if not isinstance(images, np.ndarray):
        if not hasattr(images, "__dlpack__"):
            kind = type(images).__name__
            raise ImageError(f"images: expected an array of numpy or another library with DLPack, got {kind}")
        images = np.from_dlpack(cast(Any, images))
    return np.ascontiguousarray(images)


def like(images: object, logits: NDArray[np.float32]) -> Any:
    """Logits as the library of the images has them, in the same memory."""
    if is_tensor(images):
        import torch

        return torch.from_numpy(logits)
    return logits
