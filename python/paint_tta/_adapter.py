"""A model that adapts to the images it is shown."""

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from . import _paint
from ._arrays import SupportsDLPack, like, to_numpy

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Prompt:
    """The prompt that a batch used."""

    index: int
    allocated: bool
    reliability: float | None


@dataclass(frozen=True)
class Guard:
    """What the guard did about a batch."""

    action: str
    reason: str


@dataclass(frozen=True)
class Last:
    """What is known of the last batch that was adapted to.

    `scalars` are the method's own figures; `condition` is the number of the condition that the batch was taken for,
    where the method tells conditions apart; `guard` is empty where the guard did nothing; `ms` is the time in the
    method.
    """

    scalars: dict[str, float]
    prompt: Prompt | None
    guard: Guard | None
    ms: float

    @property
    def condition(self) -> int | None:
        if self.prompt is not None:
            return self.prompt.index
        domain = self.scalars.get("domain")
        return None if domain is None else int(domain)


class Adapter:
    """A pre-trained classifier and the method that adapts it; `paint_tta.adapt` opens one.

    Images are uint8 `[B, H, W, 3]` of any size, or float32 `[B, 3, H, W]` in [0, 1] at the model's size; do not
    normalise them, the model does. They come as numpy arrays, as torch tensors, or from any library with DLPack. Logits
    are float32 `[B, C]`: a tensor for a tensor, otherwise a numpy array. Several threads may call; they take turns, and
    none holds the interpreter lock while the model works. Ctrl-C takes effect after the current batch.
    """

    def __init__(self, native: _paint.Adapter) -> None:
        self._native = native
        self._last: Last | None = None

    @overload
    def __call__(self, images: "torch.Tensor") -> "torch.Tensor": ...

    @overload
    def __call__(self, images: NDArray[Any] | SupportsDLPack) -> NDArray[np.float32]: ...

    def __call__(self, images: Any) -> Any:
        """Adapts to a batch and predicts it. A step that fails leaves everything as it was."""
        logits, said = self._native.step(to_numpy(images))
        prompt, guard = said["prompt"], said["guard"]
        self._last = Last(
            scalars=said["scalars"],
            prompt=Prompt(**prompt) if prompt else None,
            guard=Guard(**guard) if guard else None,
            ms=said["ms"],
        )
        return like(images, logits)

    @overload
    def predict(self, images: "torch.Tensor") -> "torch.Tensor": ...

    @overload
    def predict(self, images: NDArray[Any] | SupportsDLPack) -> NDArray[np.float32]: ...

    def predict(self, images: Any) -> Any:
        """Predicts a batch with the current state, which does not change."""
        return like(images, self._native.predict(to_numpy(images)))

    @property
    def last(self) -> Last | None:
        """The last batch that was adapted to; nothing before the first."""
        return self._last

    def reset(self) -> None:
        """Goes back to the source model."""
        self._native.reset()
        self._last = None

    def save(self, path: str | PathLike[str]) -> None:
        """Writes everything that adaptation changed. The file is replaced as a whole or stays as it was."""
        self._native.save(path)

    def load(self, path: str | PathLike[str]) -> None:
        """Continues from a saved state. One that is damaged, or of other weights or settings, is refused."""
        self._native.load(path)

    def model_state(self) -> dict[str, NDArray[np.float32]]:
        """The weights as adaptation left them, by timm's names; prompts and statistics are no part of them."""
        return self._native.model_state()

    @property
    def model(self) -> dict[str, Any]:
        """The network and its preprocessing, with everything that the files beside the weights say."""
        model: dict[str, Any] = self._native.about()["model"]
        return model

    @property
    def method(self) -> str:
        """The name of the method, also where `"auto"` chose it."""
        method: str = self._native.about()["method"]
        return method

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the method, with every default."""
        settings: dict[str, Any] = self._native.about()["settings"]
        return settings

    @property
    def class_names(self) -> list[str]:
        """What the model calls its classes; empty if they have no names."""
        class_names: list[str] = self._native.about()["class_names"]
        return class_names

    @property
    def num_classes(self) -> int:
        """How many classes the model tells apart."""
        num_classes: int = self._native.about()["num_classes"]
        return num_classes

    @property
    def guard(self) -> dict[str, Any] | None:
        """What the guard saw and did so far; nothing if there is none."""
        guard: dict[str, Any] | None = self._native.about()["guard"]
        return guard

    def __repr__(self) -> str:
        about = self._native.about()
        network = about["model"].get("backbone") or "vit"
        return f"<paint_tta.Adapter {about['method']} on {network}, {about['num_classes']} classes>"
