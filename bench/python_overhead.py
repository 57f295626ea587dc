"""What a call from Python costs beyond the Rust step inside it.

    pip install target/wheels/paint_tta-*.whl
    python bench/python_overhead.py --rounds 20

The step is timed inside (`adapter.last.ms`), the call outside, in the same call, so that no other load on the machine
comes between the two. Prints, for each kind of images, the median of both and of their difference in percent.
"""

import argparse
import statistics
import time

import numpy as np
import paint_tta as pt


def measure(adapter, images, rounds):
    """Milliseconds outside and inside, and the part of the call that is not the step, in percent."""
    samples = []
    for _ in range(rounds + 1):
        begun = time.perf_counter()
        adapter(images)
        outside = 1e3 * (time.perf_counter() - begun)
        samples.append((outside, adapter.last.ms, 100 * (outside - adapter.last.ms) / adapter.last.ms))
    return [statistics.median(column) for column in zip(*samples[1:], strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", default="embedded")
    parser.add_argument("--methods", default="source,tent,paint")
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    print("| method | images | call, ms | step, ms | overhead, % |")
    print("|---|---|---:|---:|---:|")
    for method in args.methods.split(","):
        adapter = pt.adapt(args.weights, method=method, guard=False, stream=False)
        height, width = adapter.model["input_size"]
        bytes_ = np.random.default_rng(0).integers(0, 256, (args.batch, height, width, 3), dtype=np.uint8)
        floats = np.ascontiguousarray(bytes_.transpose(0, 3, 1, 2), dtype=np.float32) / np.float32(255)
        for kind, images in (("uint8", bytes_), ("float32", floats)):
            outside, inside, overhead = measure(adapter, images, args.rounds)
            print(f"| {method} | {kind} | {outside:.2f} | {inside:.2f} | {overhead:.3f} |", flush=True)


if __name__ == "__main__":
    main()
