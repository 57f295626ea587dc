"""Several threads, and the interpreter lock."""

import threading
import time

import numpy as np
import paint_tta as pt
from numpy.typing import NDArray

from .conftest import Images


def adapted(foggy: Images) -> NDArray[np.float32]:
    adapter = pt.adapt("embedded", method="tent", guard=False, stream=False, lr=0.01)
    for _ in range(3):
        adapter(foggy)
    return adapter.predict(foggy)


def test_threads_with_adapters_of_their_own_do_not_disturb_each_other(foggy: Images) -> None:
    expected, found = adapted(foggy), []
    threads = [threading.Thread(target=lambda: found.append(adapted(foggy))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and all(np.array_equal(logits, expected) for logits in found)


def test_threads_that_share_an_adapter_take_turns(tent: pt.Adapter, foggy: Images) -> None:
    alone = pt.adapt("embedded", method="tent", guard=False, stream=False, lr=0.01)
    for _ in range(4):
        alone(foggy)
    threads = [threading.Thread(target=lambda: [tent(foggy) for _ in range(2)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(tent.predict(foggy), alone.predict(foggy)), "four steps, whoever made them"


def test_other_threads_run_while_the_model_works(tent: pt.Adapter) -> None:
    images = pt.embedded_images(200)
    ticks: list[float] = []
    over = threading.Event()

    def tick() -> None:
        while not over.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    begun = time.perf_counter()
    tent(images)
    ended = time.perf_counter()
    over.set()
    other.join()
    meanwhile = [moment for moment in ticks if begun < moment < ended]
    # With the lock held the other thread would not have run once in the middle of the step.
    assert len(meanwhile) > 5, f"{len(meanwhile)} in {ended - begun:.3f} s"
