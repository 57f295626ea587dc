"""Predictions of published CIFAR-10 networks in PyTorch, their agreement with ours, and the speed of both.

    python bench/cifar_predictions.py agree --binary B --backbone cifar_resnet20 --weights W.th --images test_batch.bin
    python bench/cifar_predictions.py time --binary B --backbone cifar_resnet56 --batch 50

`B` is `cargo build --release -p paint-nn --example cifar_predictions`. `test_batch.bin` is CIFAR-10's binary test file.
The networks are those of `fixtures/make_cnn.py`, with PyTorch's own batch norm. Both programs take turns in `time`.
"""

import argparse
import csv
import io
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "fixtures"))
import make_cnn  # noqa: E402

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
HALF = ([0.5] * 3, [0.5] * 3)
# name -> network, and mean and standard deviation of its published weights
NETWORKS = {
    f"cifar_resnet{6 * n + 2}": (lambda n=n: make_cnn.CifarResnet(n, 16, classes=10), IMAGENET) for n in (3, 5, 7, 9)
}
NETWORKS["cifar_resnet26_gn"] = (lambda: make_cnn.CifarResnet(4, 16, groups=8, classes=10), HALF)
NETWORKS["wide_resnet28_10"] = (lambda: make_cnn.WideResnet(4, 10, 16, classes=10), HALF)
NETWORKS["wide_resnet40_2"] = (lambda: make_cnn.WideResnet(6, 2, 16, classes=10), HALF)


def build(name):
    make_cnn.Norm = torch.nn.BatchNorm2d
    model, statistics_ = NETWORKS[name]
    return model().eval(), statistics_


def agree(a):
    model, (mean, std) = build(a.backbone)
    saved = torch.load(a.weights, map_location="cpu", weights_only=False)
    state = saved.get("state_dict", saved.get("net"))
    model.load_state_dict({k.removeprefix("module."): v for k, v in state.items()}, strict=False)
    records = np.fromfile(a.images, np.uint8).reshape(-1, 3073)[: a.count]
    labels = torch.from_numpy(records[:, 0].astype(np.int64))
    images = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32)).float() / 255
    scale = [torch.tensor(v)[None, :, None, None] for v in (mean, std)]
    with torch.inference_mode():
        theirs = torch.cat([model((x - scale[0]) / scale[1])[1].argmax(1) for x in images.split(100)])
    text = [",".join(map(str, v)) for v in (mean, std)]
    command = [a.binary, "predict", a.backbone, a.weights, *text, a.images, str(a.count)]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    ours = torch.tensor([int(row["class"]) for row in csv.DictReader(io.StringIO(found))])
    right = [100 * (p == labels).double().mean().item() for p in (theirs, ours)]
    same = 100 * (theirs == ours).double().mean().item()
    print(
        f"{a.backbone}, {len(labels)} images: PyTorch {right[0]:.2f} %, ours {right[1]:.2f} %, same class {same:.3f} %"
    )
    sys.exit(same < 99.9)


def time_one(run, rounds):
    """Medians by the clock and of the processor, in milliseconds."""
    clock, cpu = [], []
    for _ in range(rounds + 1):
        start = time.perf_counter(), time.process_time()
        run()
        clock.append((time.perf_counter() - start[0]) * 1e3)
        cpu.append((time.process_time() - start[1]) * 1e3)
    return statistics.median(clock[1:]), statistics.median(cpu[1:])


def speed(a):
    torch.set_num_threads(a.threads)
    model, _ = build(a.backbone)
    x = torch.rand(a.batch, 3, 32, 32)

    def forward():
        with torch.inference_mode():
            model.eval()(x)

    def adapt():
        logits = model.train()(x)[1]
        loss = -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()
        model.zero_grad()
        loss.backward()

    for _ in range(a.turns):
        command = [a.binary, "time", a.backbone, str(a.batch), str(a.rounds)]
        environment = {"RAYON_NUM_THREADS": str(a.threads)}
        print(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout, end="")
        for what, run, norms in [("forward", forward, None), ("norms", adapt, True), ("all", adapt, False)]:
            for m in model.modules():
                for p in m.parameters(recurse=False):
                    p.requires_grad_(not norms or isinstance(m, (torch.nn.BatchNorm2d, torch.nn.GroupNorm)))
            clock, cpu = time_one(run, a.rounds)
            print(f"PyTorch, {what}: {clock:.1f} ms, CPU {cpu:.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = parser.add_subparsers(required=True)
    for name, run in [("agree", agree), ("time", speed)]:
        p = sub.add_parser(name)
        p.set_defaults(run=run)
        p.add_argument("--binary", required=True)
        p.add_argument("--backbone", required=True, choices=NETWORKS)
        if name == "agree":
            p.add_argument("--weights", required=True)
            p.add_argument("--images", required=True)
            p.add_argument("--count", type=int, default=10_000)
        else:
            p.add_argument("--batch", type=int, default=50)
            p.add_argument("--threads", type=int, default=2)
            p.add_argument("--rounds", type=int, default=5)
            p.add_argument("--turns", type=int, default=2)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
