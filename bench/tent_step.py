"""A TENT loop on a timm network with random weights, in PyTorch or with `paint_tta`, as a worker of compare_tent.py.

    python bench/tent_step.py make  --backbone vit_tiny_patch16_224 --folder DIR
    python bench/tent_step.py torch --backbone vit_tiny_patch16_224 --folder DIR --batch 50 --repeat 3
    python bench/tent_step.py paint --backbone vit_tiny_patch16_224 --folder DIR --batch 1 --repeat 50 --work predict

`make` writes the module's weights where both read them; `--image-size` replaces the size that timm gives. The workers
answer each line on stdin with one JSON line. The worker of `paint_tta` never imports torch, so its memory is its own.
"""

import argparse
import contextlib
import json
import resource
import statistics
import sys
import time
from pathlib import Path

import numpy as np

LR, MOMENTUM = 1e-3, 0.9
WEIGHTS = "model.safetensors"
CLASSES = 1000


def images(batch, side):
    return np.random.default_rng(0).random((batch, 3, side, side), dtype=np.float32)


def network(args):
    """The module, with a classifier where timm has features only, and the side of its images."""
    import timm

    size = {} if args.image_size is None else {"img_size": args.image_size}
    model = timm.create_model(args.backbone, num_classes=CLASSES, **size)
    return model, args.image_size or model.pretrained_cfg["input_size"][1]


def make(args):
    import paint_tta as pt
    import torch

    torch.manual_seed(0)
    model, side = network(args)
    pt.write_weights(model, Path(args.folder) / WEIGHTS, preprocess={"input_size": [side, side]})


def torch_step(args):
    """As the authors have it: the norms train, the entropy of the batch is the loss, the logits are those before the
    step."""
    import torch
    from safetensors.torch import load_file

    model, side = network(args)
    source = model
    model.load_state_dict(load_file(Path(args.folder) / WEIGHTS))
    model.eval().requires_grad_(False)
    if args.precision == "int8":
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    norms = [part for part in model.modules() if isinstance(part, torch.nn.LayerNorm)]
    trained = [parameter.requires_grad_() for norm in norms for parameter in norm.parameters()]
    optimizer = torch.optim.SGD(trained, lr=LR, momentum=MOMENTUM)
    cfg = source.pretrained_cfg
    model.to(args.device)
    mean, std = (torch.tensor(cfg[key], device=args.device).view(1, 3, 1, 1) for key in ("mean", "std"))
    x = torch.from_numpy(images(args.batch, side))
    forward = torch.compile(model, mode=args.compile) if args.compile else model
    torch.set_float32_matmul_precision("high" if args.precision == "tf32" else "highest")
    is_bf16 = args.precision == "bf16"
    products = torch.autocast(args.device, torch.bfloat16) if is_bf16 else contextlib.nullcontext()

    def logits_of(x):
        with products:
            return forward((x.to(args.device) - mean) / std).float()

    @torch.inference_mode()
    def predict():
        return logits_of(x).cpu().numpy()

    def step():
        logits = logits_of(x)
        log_p = logits.log_softmax(dim=1)
        loss = -(log_p.exp() * log_p).sum(dim=1).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return logits.detach().cpu().numpy()

    return predict if args.work == "predict" else step


def paint_step(args):
    import paint_tta as pt

    weights = Path(args.folder) / WEIGHTS
    bare = dict(guard=False, stream=False)
    device = "cuda:0" if args.device == "cuda" else "cpu"
    where = dict(device=device, precision=args.precision)
    adapter = pt.adapt(weights, method="tent", optimizer="momentum", lr=LR, **where, **bare)
    x = images(args.batch, adapter.model["input_size"][0])
    return lambda: adapter.predict(x) if args.work == "predict" else adapter(x)


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def serve(args, build):
    """Says what the imports cost and what the first three steps predict, then measures whenever it is its turn."""
    __import__("torch" if args.which == "torch" else "paint_tta")
    imported = peak_bytes()
    step = build(args)
    first = [step()[:2, :8].tolist() for _ in range(3)]
    print(json.dumps({"imported_bytes": imported, "first": first}), flush=True)
    for _ in sys.stdin:
        wall, cpu = [], cpu_seconds()
        for _ in range(args.repeat):
            begun = time.perf_counter()
            step()
            wall.append(1e3 * (time.perf_counter() - begun))
        cpu = 1e3 * (cpu_seconds() - cpu) / args.repeat
        sample = {"ms_per_step": statistics.median(wall), "cpu_ms_per_step": cpu, "peak_memory_bytes": peak_bytes()}
        print(json.dumps(sample), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=["make", "torch", "paint"])
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--work", choices=["step", "predict"], default="step")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--compile", metavar="MODE", help="PyTorch's own compiler, in this mode")
    precisions = ["f32", "tf32", "bf16", "fp8", "int8"]
    parser.add_argument("--precision", choices=precisions, default="f32", help="PyTorch has int8 on the CPU, no fp8")
    args = parser.parse_args()
    if args.which == "torch" and args.precision == "int8" and (args.work, args.device) != ("predict", "cpu"):
        parser.error("PyTorch's layers of 8 bits have no gradient and no GPU: --work predict --device cpu")
    if args.which == "torch" and (args.precision == "fp8" or args.precision == "tf32" and args.device == "cpu"):
        parser.error(f"PyTorch has no {args.precision} here")
    if args.which == "make":
        make(args)
    else:
        serve(args, torch_step if args.which == "torch" else paint_step)


if __name__ == "__main__":
    main()
