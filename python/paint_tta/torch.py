"""Adapters in PyTorch programs: a module for evaluation loops, and weights to and from modules."""

from typing import Any

import torch
from torch import Tensor, nn

from . import _paint
from ._adapter import Adapter
from ._arrays import to_numpy
from ._paint import ImageError, WeightsError

# Of logits of size one: f32 sums in another order, over the twenty-four blocks of a large transformer.
_TOLERANCE = 1e-3


class AdaptingModel(nn.Module):
    """An adapter where an evaluation loop expects a module: it adapts to every batch and returns logits.

    Loaders usually normalise their images. Say so with `normalized=True`, and the model's mean and standard deviation
    are taken out again. With `adapting = False` batches are predicted and nothing is learnt. Tensors of other devices
    are brought to the CPU and back.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, adapter: Adapter, *, normalized: bool = False) -> None:
        super().__init__()
        self.adapter = adapter
        self.adapting = True
        self.normalized = normalized
        model = adapter.model
        for key in ("mean", "std"):
            channels = torch.tensor(model[key], dtype=torch.float32).view(1, 3, 1, 1)
            self.register_buffer(key, channels, persistent=False)

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        device = images.device
        if images.is_floating_point():
            images = images.float()
            if self.normalized:
                # Rounding may leave [0, 1] by a little.
                images = (images * self.std.to(device) + self.mean.to(device)).clamp(0, 1)
        elif self.normalized:
            raise ImageError(f"images: expected normalised floats, got {images.dtype}")
        call = self.adapter if self.adapting else self.adapter.predict
        return call(images.cpu()).to(device)


def load_into(module: nn.Module, adapter: Adapter) -> None:
    """Loads the adapted weights into the module that the adapter was opened from, or one of the same names."""
    state = {name: torch.from_numpy(array) for name, array in adapter.model_state().items()}
    missing, unexpected = module.load_state_dict(state, strict=False)
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]
    if missing or unexpected:
        raise WeightsError(
            f"{name(module)}: expected the names of the adapted network, got a module without {unexpected[:3]} "
            f"and with {missing[:3]} beside them"
        )


def name(module: nn.Module) -> str:
    """What a module is called: timm's name of the architecture, or the class."""
    known = _pretrained(module).get("architecture")
    return str(known) if known else type(module).__name__


def describe(module: nn.Module) -> dict[str, Any]:
    """What timm and the module itself say about its weights, as timm's `config.json` has it."""
    pretrained = _pretrained(module)
    keys = ("mean", "std", "input_size", "crop_pct", "interpolation", "crop_mode", "label_names")
    config: dict[str, Any] = {
        "pretrained_cfg": {key: pretrained[key] for key in keys if pretrained.get(key) is not None},
        "model_args": {},
    }
    if pretrained.get("architecture"):
        config["architecture"] = pretrained["architecture"]
    for part in module.modules():
        heads = getattr(part, "num_heads", None)
        if isinstance(heads, int):
            config["model_args"]["num_heads"] = heads
            break
    return config


def check_parity(module: nn.Module, document: dict[str, Any]) -> None:
    """Refuses a module that computes something else than the network that its weights are taken for."""
    frozen = _paint.Adapter({**document, "method": {"name": "source"}, "guard": None, "stream": None, "source": None})
    model = frozen.about()["model"]
    images = torch.rand(2, 3, *model["input_size"], generator=torch.Generator().manual_seed(0))
    channels = [torch.tensor(model[key], dtype=torch.float32).view(1, 3, 1, 1) for key in ("mean", "std")]
    ours = torch.from_numpy(frozen.predict(to_numpy(images)))
    was_training = module.training
    try:
        weight = next(module.parameters())
        with torch.no_grad():
            normalized = ((images - channels[0]) / channels[1]).to(weight.device, weight.dtype)
            theirs = module.eval()(normalized).float().cpu()
    finally:
        module.train(was_training)
    if theirs.shape != ours.shape:
        raise WeightsError(f"expected logits of shape {list(ours.shape)}, got {list(theirs.shape)} from the module")
    scale = max(1.0, float(theirs.abs().max()))
    # Half precision keeps three digits.
    allowed = _TOLERANCE * scale * (1 if weight.dtype == torch.float32 else 50)
    found = float((theirs - ours).abs().max())
    if not found <= allowed:
        network = model.get("backbone") or "a vision transformer"
        raise WeightsError(
            f"its weights are those of {network}, but the module computes something else: expected logits within "
            f"{allowed:.1e}, found a difference of {found:.1e}"
        )


def _pretrained(module: nn.Module) -> dict[str, Any]:
    found = getattr(module, "pretrained_cfg", None) or getattr(module, "default_cfg", None) or {}
    return dict(found)
