"""timm's and torchvision's modules, with random weights: no download."""

from typing import Any

import numpy as np
import paint_tta as pt
import pytest

torch = pytest.importorskip("torch")
timm = pytest.importorskip("timm")
torchvision = pytest.importorskip("torchvision")
from paint_tta import torch as paint_torch  # noqa: E402

IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "input_size": [64, 96]}


def normalized(images: Any, model: dict[str, Any]) -> Any:
    mean, std = (torch.tensor(model[key]).view(1, 3, 1, 1) for key in ("mean", "std"))
    return (images - mean) / std


def source(module: Any, **more: Any) -> pt.Adapter:
    return pt.adapt(module, method="source", guard=False, stream=False, **more)


@pytest.fixture(scope="module")
def vit() -> Any:
    torch.manual_seed(0)
    return timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=10).eval()


@pytest.fixture(scope="module")
def resnet() -> Any:
    """With running statistics of its own: those of a fresh network, 0 and 1, would hide a mistake."""
    torch.manual_seed(0)
    module = torchvision.models.resnet50(num_classes=7)
    with torch.no_grad():
        for _ in range(3):
            module(torch.randn(8, 3, 64, 96))
    return module.eval()


def test_the_logits_of_a_timm_vit_are_torchs(vit: Any) -> None:
    adapter = source(vit, preprocess={"input_size": [64, 64]})
    images = torch.rand(4, 3, 64, 64)
    with torch.no_grad():
        expected = vit(normalized(images, adapter.model))
    # Sums in another order; measured 1e-6.
    assert float((adapter.predict(images) - expected).abs().max()) < 1e-4


def test_the_logits_of_a_torchvision_resnet_are_torchs(resnet: Any) -> None:
    adapter = source(resnet, backbone="resnet50", preprocess=IMAGENET)
    images = torch.rand(4, 3, 64, 96)
    with torch.no_grad():
        expected = resnet(normalized(images, IMAGENET))
    assert float((adapter.predict(images) - expected).abs().max()) < 1e-4


def test_an_unknown_architecture_is_refused_by_name() -> None:
    with pytest.raises(pt.WeightsError, match="^maxvit_tiny_tf_224: the weights of a MaxViT"):
        source(timm.create_model("maxvit_tiny_tf_224", num_classes=3))
    small = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.LazyLinear(2))
    small(torch.rand(1, 3, 64, 96))
    with pytest.raises(pt.WeightsError, match="^Sequential: "):
        source(small, preprocess=IMAGENET)


def test_a_module_that_computes_something_else_is_refused(vit: Any) -> None:
    """The arrays are those of a vision transformer; the activation is not."""
    torch.manual_seed(0)
    other = timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=10, act_layer=torch.nn.Sigmoid)
    with pytest.raises(pt.WeightsError, match="the module computes something else"):
        source(other, preprocess={"input_size": [64, 64]})


def test_a_module_without_preprocessing_asks_for_it(resnet: Any) -> None:
    with pytest.raises(pt.RequestError, match="no preprocessing for these weights"):
        source(resnet, backbone="resnet50")


def test_a_module_keeps_its_mode_and_weights(vit: Any) -> None:
    before = {name: value.clone() for name, value in vit.state_dict().items()}
    vit.train()
    adapter = pt.adapt(vit, method="tent", guard=False, stream=False, preprocess={"input_size": [64, 64]})
    adapter(torch.rand(8, 3, 64, 64))
    assert vit.training
    vit.eval()
    assert all(torch.equal(value, before[name]) for name, value in vit.state_dict().items())


def test_adapted_weights_load_into_the_module() -> None:
    torch.manual_seed(1)
    module = timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=10).eval()
    adapter = pt.adapt(module, method="tent", guard=False, stream=False, lr=0.05, preprocess={"input_size": [64, 64]})
    images = torch.rand(8, 3, 64, 64)
    adapter(images)
    with torch.no_grad():
        before = module(normalized(images, adapter.model))
        paint_torch.load_into(module, adapter)
        after = module(normalized(images, adapter.model))
    assert float((adapter.predict(images) - after).abs().max()) < 1e-4 < float((before - after).abs().max())
    with pytest.raises(pt.WeightsError, match="^ResNet: "):
        paint_torch.load_into(torchvision.models.resnet18(), adapter)


def test_an_evaluation_loop_adapts(vit: Any) -> None:
    """As a program has it that was written for a plain module."""
    adapter = pt.adapt(vit, method="tent", guard=False, stream=False, lr=0.05, preprocess={"input_size": [64, 64]})
    model = paint_torch.AdaptingModel(adapter, normalized=True).eval()
    images = torch.rand(8, 3, 64, 64)
    loader = [normalized(images, adapter.model)] * 2
    with torch.no_grad():
        first, second = (model(batch) for batch in loader)
        expected = vit(loader[0])
    assert float((first - expected).abs().max()) < 1e-4
    assert not torch.equal(first, second)
    model.adapting = False
    assert torch.equal(model(loader[0]), model(loader[0]))
    with pytest.raises(pt.ImageError, match="expected normalised floats, got torch.uint8"):
        model(torch.zeros(1, 64, 64, 3, dtype=torch.uint8))


def test_half_precision_weights_are_widened(vit: Any) -> None:
    torch.manual_seed(0)
    half = timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=10).to(torch.bfloat16)
    adapter = source(half, preprocess={"input_size": [64, 64]})
    images = torch.rand(2, 3, 64, 64)
    full = source(vit, preprocess={"input_size": [64, 64]}).predict(images)
    assert 0 < float(np.abs((adapter.predict(images) - full).numpy()).max()) < 0.1
