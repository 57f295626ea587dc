"""Arrays of other libraries come and go in shared memory."""

from typing import Any

import numpy as np
import paint_tta as pt
import pytest
from paint_tta._arrays import like, to_numpy

from .conftest import Images, as_floats


class Foreign:
    """An array of a library that numpy has never heard of."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.asked = 0

    def __dlpack__(self, **options: Any) -> Any:
        self.asked += 1
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_dlpack_is_read_in_place(tent: pt.Adapter, foggy: Images) -> None:
    foreign = Foreign(as_floats(foggy))
    assert np.shares_memory(to_numpy(foreign), foreign.array)
    assert foreign.asked == 1
    assert np.array_equal(tent.predict(foreign), tent.predict(foreign.array))


def test_logits_can_be_taken_over_by_dlpack(tent: pt.Adapter, foggy: Images) -> None:
    logits = tent.predict(foggy)
    assert np.shares_memory(np.from_dlpack(logits), logits)
    assert logits.flags.c_contiguous and logits.flags.writeable
    assert logits.base is not None, "numpy does not own the memory: it was handed over"


def test_tensors_are_read_and_answered_in_place(tent: pt.Adapter, foggy: Images) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(as_floats(foggy)).requires_grad_()
    assert to_numpy(tensor).ctypes.data == tensor.data_ptr()
    logits = tent.predict(as_floats(foggy))
    assert like(tensor, logits).data_ptr() == logits.ctypes.data
    answer = tent(tensor)
    assert isinstance(answer, torch.Tensor) and np.array_equal(answer.numpy(), logits)


def test_channels_last_tensors_are_the_same_images(tent: pt.Adapter, foggy: Images) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(as_floats(foggy)).contiguous(memory_format=torch.channels_last)
    assert np.array_equal(tent.predict(tensor).numpy(), tent.predict(as_floats(foggy)))
