"""Times every corruption, severity 5 at 224x224, beside the original algorithm in Python, one thread each.

    cargo bench -p paint-data --bench corruption --no-run     # prints the program's path
    python bench/compare_corruptions.py PROGRAM [ROUNDS]

The Python side is fixtures/corruptions/reference.py with the libraries of the published generators (frost textures
decoded once). Both sides get the same synthetic picture and take turns, so that a busy machine slows both; the figures
are medians over rounds.
"""

import os

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MAGICK_THREAD_LIMIT"):
    os.environ[threads] = "1"

import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "fixtures" / "corruptions"))

import cv2
import make
import numpy as np
import reference

cv2.setNumThreads(1)


def rust_round(program, picture):
    output = subprocess.run([program, "40", picture], capture_output=True, text=True, check=True).stdout
    return {line.split()[0]: float(line.split()[1]) for line in output.splitlines()}


def python_round(image, textures):
    times = {}
    for name in reference.PARAMETERS:
        extra = {"textures": textures} if name == "frost" else {}
        repeats = 1 if name == "glass_blur" else 5
        readings = []
        for _ in range(repeats):
            start = time.perf_counter()
            reference.corrupt(name, image, 5, 1, **extra)
            readings.append((time.perf_counter() - start) * 1e3)
        times[name] = statistics.median(readings)
    return times


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    image = make.synthetic(224, 224)
    textures = [np.random.randint(0, 256, (600, 900, 3), dtype=np.uint8)] * 5
    rust, python = [], []
    with tempfile.NamedTemporaryFile() as picture:
        picture.write(image.tobytes())
        picture.flush()
        for _ in range(rounds):
            rust.append(rust_round(program, picture.name))
            python.append(python_round(image, textures))
    names = list(reference.PARAMETERS)
    ratios = {}
    print(f"{'corruption':<18} {'Rust ms':>9} {'images/s':>9} {'Python ms':>10} {'ratio':>7}")
    for name in names:
        ours = statistics.median(round_[name] for round_ in rust)
        theirs = statistics.median(round_[name] for round_ in python)
        ratios[name] = theirs / ours
        print(f"{name:<18} {ours:>9.3f} {1e3 / ours:>9.0f} {theirs:>10.2f} {ratios[name]:>7.1f}")
    fifteen = [ratios[name] for name in names[:15]]
    print(
        f"the fifteen: geometric mean {statistics.geometric_mean(fifteen):.1f}, "
        f"median {statistics.median(fifteen):.1f}, least {min(fifteen):.1f}"
    )


if __name__ == "__main__":
    main()
