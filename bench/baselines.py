"""PAINT and baselines over the fifteen corruptions of CIFAR-10 at severity 5, never reset: results/baselines-200.md.

    python bench/baselines.py run --paint target/release/paint --cifar CIFAR --model vit --weights W --out OUT \\
        [METHOD...]
    python bench/baselines.py table --out OUT

`CIFAR` holds the official binary files, or `test/` and `source/` with `images.npy` and `labels.npy` in each; `--model`
is `vit` (the embedded ViT-Tiny/4) or `resnet56` (published weights). A method runs with the published rate at batch 50
and, if `--grid` is given, with the best of that grid of factors on the four held-out corruptions, which are no part of
the fifteen. Runs that are there already are not repeated, and `--jobs` of them go on at a time: on a GPU run the rows
whose time counts alone, with `--jobs 1` and without `--grid`, before the others. Milliseconds are what a method took
for a batch, wall time; memory is the GPU's, or the process's.
"""

import argparse
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HELD_OUT = ["speckle_noise", "gaussian_blur", "spatter", "saturate"]
MODELS = {
    "vit": ("vit_cifar10", []),
    "resnet56": ("cnn_cifar10", ["--backbone", "cifar_resnet56", "--set", "model.mean=[0.485,0.456,0.406]", "--set",
                                 "model.std=[0.229,0.224,0.225]", "--set", "model.input_size=[32,32]"]),
}  # fmt: skip
# method -> the keys of its rates, further settings, source data
METHODS = {
    "source": ([], [], "none"), "bn_adapt": ([], [], "none"), "tent": (["lr"], [], "none"), "eta": (["lr"], [], "none"),
    "eata": (["lr"], [], "2,000 images"), "sar": (["lr"], [], "none"), "cpl": (["lr"], [], "none"),
    "cotta": (["lr"], [], "none"),
    "rmt": (["lr"], ["warmup_images=2500"], "2,000 labelled"),
    "rmt_source_free": (["lr"], ["variant=source_free"], "2,000 labelled, once"),
    "santa": (["lr"], [], "2,000 labelled, once"), "vdp": (["lr"], [], "none"),
    "paint": (["lr_prompts", "lr_blocks"], [], "none"),
}  # fmt: skip


def images(folder):
    if (Path(folder) / "test").is_dir():
        return ["--dataset", "npy", "--data", f"{folder}/test/images.npy", "--source-dataset", "npy", "--source-data",
                f"{folder}/source/images.npy"]  # fmt: skip
    return ["--dataset", "cifar10", "--data", folder, "--source-dataset", "cifar10", "--source-data", folder, "--set",
            "source.options.split=train"]  # fmt: skip


def run(args, method, name, settings, domains=None, limit=None):
    out, limit = Path(args.out) / args.model / name, limit or args.limit
    if not (out / "summary.json").exists():
        preset, extra = MODELS[args.model]
        command = [args.paint, "run", *images(args.cifar), "--corrupt", "--weights", args.weights, *extra,
                   "--method", method.removesuffix("_source_free"), "--limit", str(limit), "--batch-size", "50",
                   "--device", args.device, "--precision", args.precision,
                   "--out", str(out), "--overwrite", "--json", "--set", "checkpoint_every=0"]  # fmt: skip
        if method == "paint":
            settings = ["preset=paper_adam", *settings]
        elif method != "source":
            settings = [f"preset={preset}", *settings]
        for setting in settings:
            command += ["--set", f"method.{setting}"]
        if domains:
            command += ["--set", f"scenario.domains={json.dumps(domains)}"]
        child = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if child.returncode:
            reason = (child.stderr.strip().splitlines() or ["no message"])[-1]
            print(f"{args.model} {name}: {reason}", flush=True)
            return None
    summary = json.loads((out / "summary.json").read_text())
    print(f"{args.model} {name}: {summary['mean_accuracy']:.2f}", flush=True)
    return summary


def resolved_rates(args, name, keys):
    lines = (Path(args.out) / args.model / name / "config.toml").read_text().splitlines()
    values = dict(line.split(" = ", 1) for line in lines if " = " in line)
    return {key: float(values[key]) for key in keys}


def tune(args, method, keys, settings):
    """The factor of the published rates that does best on the held-out corruptions."""
    found = {}
    for factor in [1.0, *(args.grid if keys else [])]:
        name = f"held_out/{method}_{factor:g}"
        rates = []
        if factor != 1.0:
            rates = [f"{k}={v * factor:.6g}" for k, v in resolved_rates(args, f"held_out/{method}_1", keys).items()]
        summary = run(args, method, name, settings + rates, HELD_OUT, args.held_out_limit)
        if summary:
            found[factor] = summary["mean_accuracy"]
    best = max(found, key=found.get, default=1.0)
    return best, [f"{k}={v * best:.6g}" for k, v in resolved_rates(args, f"held_out/{method}_1", keys).items()]


def run_one(args, method):
    keys, settings, _ = METHODS[method]
    if run(args, method, method, settings) and args.grid:
        best, rates = tune(args, method, keys, settings)
        if best != 1.0:
            run(args, method, f"{method}@{best:g}", settings + rates)


def run_all(args):
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda method: run_one(args, method), args.methods or METHODS))


def table(args):
    for model in sorted(p.name for p in Path(args.out).iterdir()):
        rows = [p for p in (Path(args.out) / model).iterdir() if (p / "summary.json").exists()]
        order = {m: i for i, m in enumerate(METHODS)}
        rows.sort(key=lambda p: (order[p.name.split("@")[0]], p.name))
        print(f"\n{model}\n")
        for i, folder in enumerate(rows):
            summary = json.loads((folder / "summary.json").read_text())
            if i == 0:
                names = [d["name"].split("_")[0] for d in summary["domains"]]
                head = ["", *names, "mean", "ms a batch", "MiB", "trained", "source data"]
                print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
            name, _, factor = folder.name.partition("@")
            label = f"{name}, rate x{factor}" if factor else name
            accuracies = [f"{d['accuracy']:.1f}" for d in summary["domains"]]
            timing = summary["timing"]
            ms = "" if factor else f"{timing['ms_per_batch']:.1f}"
            memory, trained = f"{timing['peak_memory_mib']:.0f}", f"{summary['cost']['trainable']:,}"
            cells = [label, *accuracies, f"{summary['mean_accuracy']:.2f}", ms, memory, trained, METHODS[name][2]]
            print("| " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("methods", nargs="*")
    for flag in ("paint", "cifar", "model", "weights", "out"):
        parser.add_argument(f"--{flag}")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="f32")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=int, default=200, help="images per domain")
    parser.add_argument("--grid", type=lambda text: [float(x) for x in text.split(",")], default=[])
    parser.add_argument("--held-out-limit", type=int, default=100)
    args = parser.parse_intermixed_args()
    (run_all if args.what == "run" else table)(args)


if __name__ == "__main__":
    main()
