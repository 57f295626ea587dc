"""Arrays and modules as files of weights that every `paint` command reads."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _paint
from ._arrays import to_numpy
from ._paint import RequestError


def write_weights(
    model: Any,
    path: str | PathLike[str],
    *,
    architecture: str | None = None,
    preprocess: Mapping[str, Any] | None = None,
    num_heads: int | None = None,
    class_names: Sequence[str] | None = None,
) -> None:
    """Writes the weights of a torch module, or of a dictionary of arrays, as safetensors with `config.json` beside
    them.

    What timm knows of a module is written too; what is given here counts more. `preprocess` has timm's keys: `mean`,
    `std`, `input_size` (height and width), `crop_pct`, `interpolation`, `crop_mode`.
    """
    config: dict[str, Any] = {"pretrained_cfg": {}, "model_args": {}}
    if hasattr(model, "state_dict"):
        from . import torch

        config = torch.describe(model)
        model = model.state_dict()
    if not isinstance(model, Mapping):
        kind = type(model).__name__
        raise RequestError(f"weights: expected a file, a dictionary of arrays or a torch module, got {kind}")
    if architecture is not None:
        config["architecture"] = architecture
    if num_heads is not None:
        config["model_args"]["num_heads"] = num_heads
    if class_names is not None:
        config["pretrained_cfg"]["label_names"] = list(class_names)
    config["pretrained_cfg"].update(_timm(preprocess or {}))
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _paint.write_weights(path, dict(_floats(model)))
    path.with_name("config.json").write_text(json.dumps(config, indent=2) + "\n")


def _timm(preprocess: Mapping[str, Any]) -> dict[str, Any]:
    """timm writes the channels into the size of the input."""
    config = dict(preprocess)
    if len(config.get("input_size", ())) == 2:
        config["input_size"] = [3, *config["input_size"]]
    return config


def _floats(arrays: Mapping[str, Any]) -> "Sequence[tuple[str, NDArray[np.float32]]]":
    """Every array of numbers that a network computes with, as float32. Counters, such as those of batch norms, are
    none."""
    floats = []
    for name, array in arrays.items():
        # numpy has no bfloat16.
        array = array.float().cpu() if hasattr(array, "is_floating_point") and array.is_floating_point() else array
        array = to_numpy(array)
        if np.issubdtype(array.dtype, np.floating):
            floats.append((name, np.ascontiguousarray(array, dtype=np.float32).reshape(array.shape)))
    return floats
