"""What an adapter does with batches."""

from pathlib import Path

import numpy as np
import paint_tta as pt
import pytest

from .conftest import Images, as_floats


def test_a_step_predicts_and_changes_the_model(tent: pt.Adapter, foggy: Images) -> None:
    before = tent.predict(foggy)
    logits = tent(foggy)
    assert logits.shape == (16, 10) and logits.dtype == np.float32
    assert np.array_equal(logits, before), "TENT predicts before its step"
    assert not np.array_equal(tent.predict(foggy), before)


def test_the_method_is_chosen_by_the_network_unless_it_is_named(tent: pt.Adapter) -> None:
    chosen = pt.adapt("embedded")
    assert (chosen.method, tent.method) == ("keel", "tent")
    assert repr(chosen) == "<paint_tta.Adapter keel on vit_tiny_patch4_32, 10 classes>"


def test_bytes_and_floats_give_the_same_bits(foggy: Images) -> None:
    adapters = [pt.adapt("embedded", method="tent", guard=False, stream=False) for _ in range(2)]
    for _ in range(2):
        bytes_, floats = adapters[0](foggy), adapters[1](as_floats(foggy))
        assert bytes_.tobytes() == floats.tobytes()


def test_images_of_another_size_are_resized(tent: pt.Adapter, foggy: Images) -> None:
    large = foggy.repeat(2, axis=1).repeat(2, axis=2)
    assert tent.predict(large).shape == (16, 10)


def test_elements_out_of_order_are_read_in_order(tent: pt.Adapter, foggy: Images) -> None:
    flipped = foggy[:, :, ::-1]
    assert not flipped.flags.c_contiguous
    assert np.array_equal(tent.predict(flipped), tent.predict(flipped.copy()))


def test_a_saved_state_continues_and_reset_forgets(tent: pt.Adapter, foggy: Images, tmp_path: Path) -> None:
    source = tent.predict(foggy)
    tent(foggy)
    tent.save(tmp_path / "state.safetensors")
    adapted = tent.predict(foggy)
    other = pt.adapt("embedded", method="tent", guard=False, stream=False, lr=0.01)
    other.load(tmp_path / "state.safetensors")
    assert np.array_equal(other.predict(foggy), adapted)
    assert np.array_equal(other(foggy), tent(foggy))
    other.reset()
    assert other.last is None
    assert np.array_equal(other.predict(foggy), source)


def test_the_last_batch_is_told(foggy: Images) -> None:
    adapter = pt.adapt("embedded", method="paint", guard=False, stream=False)
    assert adapter.last is None
    adapter(foggy)
    last = adapter.last
    assert last is not None and last.prompt is not None
    assert last.prompt.allocated and last.condition == 0
    assert last.scalars["prompts"] == 1 and last.ms > 0 and last.guard is None


def test_the_guard_undoes_a_step_on_one_class(foggy: Images) -> None:
    one = np.repeat(foggy[:1], 50, axis=0)
    adapter = pt.adapt("embedded", method="tent", stream=False, lr=0.01)
    source = adapter.predict(foggy)
    adapter(one)
    last = adapter.last
    assert last is not None and last.guard is not None
    assert last.guard.action == "skipped the step" and "one class" in last.guard.reason
    assert adapter.guard is not None and adapter.guard["steps"] == 1
    assert np.array_equal(adapter.predict(foggy), source)
    bare = pt.adapt("embedded", method="tent", guard=False, stream=False, lr=0.01)
    bare(one)
    assert bare.guard is None and not np.array_equal(bare.predict(foggy), source)


def test_single_images_are_learnt_from_when_enough_have_come(foggy: Images) -> None:
    adapter = pt.adapt("embedded", method="tent", guard=False, stream={"buffer": 4}, lr=0.01)
    source = adapter.predict(foggy)
    for image in foggy[:3]:
        adapter(image[None])
        assert np.array_equal(adapter.predict(foggy), source)
    adapter(foggy[3:4])
    assert not np.array_equal(adapter.predict(foggy), source)


def test_the_adapted_weights_have_timms_names(tent: pt.Adapter, foggy: Images) -> None:
    source, _ = tent.model_state(), tent(foggy)
    adapted = tent.model_state()
    assert adapted.keys() == source.keys()
    assert adapted["patch_embed.proj.weight"].shape == (192, 3, 4, 4)
    changed = {name for name in source if not np.array_equal(source[name], adapted[name])}
    assert "blocks.0.norm1.weight" in changed and "blocks.0.attn.qkv.weight" not in changed


def test_arrays_make_the_same_model_as_their_file(tent: pt.Adapter, foggy: Images) -> None:
    arrays = tent.model_state()
    preprocess = {key: tent.model[key] for key in ("mean", "std", "input_size")}
    again = pt.adapt(arrays, method="source", guard=False, stream=False, num_heads=3, preprocess=preprocess)
    assert np.array_equal(again.predict(foggy), tent.predict(foggy))
    assert again.class_names == [] and tent.class_names[0] == "airplane"


def test_settings_and_model_are_told(tent: pt.Adapter) -> None:
    assert tent.settings["lr"] == 0.01 and tent.model["input_size"] == [32, 32]
    assert tent.num_classes == 10 and "vit_tiny_patch4_32" in repr(tent)


@pytest.mark.parametrize("corruption", ["gaussian_noise", "fog"])
def test_a_corruption_is_a_function_of_its_seed(corruption: str) -> None:
    images = pt.embedded_images(2)
    first = pt.corrupt(images, corruption, severity=3, seed=1)
    assert np.array_equal(first, pt.corrupt(images, corruption, severity=3, seed=1))
    assert not np.array_equal(first, pt.corrupt(images, corruption, severity=3, seed=2))
    twice = pt.corrupt(np.repeat(images[:1], 2, axis=0), corruption, severity=3)
    assert not np.array_equal(twice[0], twice[1]), "each image has draws of its own"


def test_tables_are_listed_and_names_explained() -> None:
    assert {"name": "source", "what": "the source model, frozen"} in pt.list("methods")
    (paint,) = pt.explain("paint")
    assert any(key["key"] == "eta" for key in paint["keys"])
    assert [found["kind"] for found in pt.explain("cifar10-c")] == ["dataset", "protocol"]
