"""Opening a model for adaptation."""

import tempfile
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from . import _paint
from ._adapter import Adapter
from ._paint import WeightsError
from ._weights import write_weights


def adapt(
    model: Any,
    method: str = "auto",
    *,
    seed: int = 0,
    device: str = "cpu",
    precision: str = "f32",
    guard: bool | Mapping[str, Any] = True,
    stream: bool | Mapping[str, Any] = True,
    source: Mapping[str, Any] | None = None,
    backbone: str | None = None,
    num_heads: int | None = None,
    preprocess: Mapping[str, Any] | None = None,
    class_names: Sequence[str] | None = None,
    **settings: Any,
) -> Adapter:
    """Opens a model and the method that adapts it.

    `model` is a file of weights with its `config.json` beside it, a dictionary of arrays, or a timm or torchvision
    module; `"embedded"` is the small CIFAR-10 model in this package. `"auto"` chooses the method as `paint adapt` does:
    `keel`, or PAINT for a transformer without a file of source statistics (arrays and modules never have one);
    `adapter.method` names it. Further keyword arguments are settings of the method: `pt.explain(name)` lists them.

    As in `paint adapt`, a guard watches for harm without labels, and a stream takes single images and runs of one class
    as they come; `guard=False, stream=False` gives the bare method. A dictionary sets their keys.

    `preprocess` says what neither the files nor the module say: `mean`, `std`, `input_size` (height and width),
    `crop_pct`, `interpolation`, `crop_mode`. `source` has the keys `name`, `path`, `options`, `images` and `seed`, for
    methods that look at source images first.
    """
    document: dict[str, Any] = {
        "seed": seed,
        "device": device,
        "precision": precision,
        "model": {"backbone": backbone, "num_heads": num_heads, **(preprocess or {})},
        "method": {**settings, "name": method},
        "source": dict(source) if source is not None else None,
        "guard": _table(guard),
        "stream": _table(stream),
    }
    if isinstance(model, (str, PathLike)):
        document["model"]["weights"] = fspath(model)
        return Adapter(_paint.Adapter(document))
    with tempfile.TemporaryDirectory(prefix="paint-") as folder:
        weights = Path(folder, "model.safetensors")
        write_weights(
            model,
            weights,
            architecture=backbone,
            num_heads=num_heads,
            preprocess=preprocess,
            class_names=class_names,
        )
        document["model"]["weights"] = str(weights)
        if not hasattr(model, "state_dict"):
            return Adapter(_paint.Adapter(document))
        from . import torch

        try:
            torch.check_parity(model, document)
            return Adapter(_paint.Adapter(document))
        except WeightsError as error:
            # The file is gone by then.
            message = str(error).replace(f"{weights}: ", "").replace(f": {weights}", "")
            raise WeightsError(f"{torch.name(model)}: {message}") from None


def _table(given: bool | Mapping[str, Any]) -> dict[str, Any] | None:
    if isinstance(given, bool):
        return {} if given else None
    return dict(given)
