"""The PAINT-shaped adaptation step in PyTorch, as a worker of compare_torch.py or by itself.

One step: query forward through the frozen source, prompted forward, mixed forward of the whole
batch (every sample confident, the worst case), one backward into the prompt and blocks 0..2, SGD,
final forward. Source and adapted model share the tensors that never change, which is kinder to
PyTorch's memory than the usual deep copy.

    python bench/paint_step_torch.py time --backbone vit_tiny_patch4_32 --batch 50 --threads 2 --mode eager
    python bench/paint_step_torch.py make --backbone vit_tiny_patch4_32 --batch 50 --folder DIR
    python bench/paint_step_torch.py check --folder DIR --dump ours.safetensors

`time` answers each line on stdin with one JSON line, so that two programs can take turns; without a
pipe (`--once`) it measures once. `make` writes weights, inputs and PyTorch's values; `check` compares.
"""

import argparse
import copy
import json
import resource
import statistics
import sys
import time
from pathlib import Path

import timm
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from timm.models.vision_transformer import VisionTransformer

sys.path.insert(0, str(Path(__file__).parent.parent / "fixtures"))
from gaps import absolute_gap, largest, largest_key, relative_gap  # noqa: E402

BACKBONES = {
    "vit_tiny_patch4_32": dict(img_size=32, patch_size=4, embed_dim=192, depth=12, num_heads=3, num_classes=10),
    "vit_base_patch16_224": dict(img_size=224, patch_size=16, embed_dim=768, depth=12, num_heads=12, num_classes=1000),
    "vit_large_patch16_224": dict(
        img_size=224, patch_size=16, embed_dim=1024, depth=24, num_heads=16, num_classes=1000
    ),
    # Relatives of the ViT, as timm builds them: LayerScale; a norm before the blocks and the quick GELU.
    "vit_small_patch14_dinov2": dict(img_size=224, embed_dim=384, num_classes=1000),
    "vit_large_patch14_dinov2": dict(img_size=224, embed_dim=1024, num_classes=1000),
    "vit_base_patch16_clip_quickgelu_224": dict(img_size=224, embed_dim=768, num_classes=1000),
}
PROMPT_TOKENS, TRAINED_BLOCKS, LAMBDA = 2, 3, 0.3
LR_PROMPT, LR_BLOCKS = 0.05, 1e-3
MEAN = STD = 0.5


def build(backbone, seed=0):
    """Random weights; the norms and biases are not left at 1 and 0, so that their gradients are tested."""
    torch.manual_seed(seed)
    spec = BACKBONES[backbone]
    if "depth" in spec:
        vit = VisionTransformer(**spec, norm_layer=lambda d, **_: torch.nn.LayerNorm(d, eps=1e-6))
    else:
        vit = timm.create_model(backbone, num_classes=spec["num_classes"], img_size=spec["img_size"])
    with torch.no_grad():
        for name, p in vit.named_parameters():
            if p.ndim == 1:
                p.add_(0.05 * torch.randn(p.shape))
            elif name not in ("cls_token", "pos_embed"):
                p.copy_(torch.randn(p.shape) * p[0].numel() ** -0.5)
    return vit.eval()


def inputs(backbone, batch, seed=1):
    g = torch.Generator().manual_seed(seed)
    spec = BACKBONES[backbone]
    images = torch.rand((batch, 3, spec["img_size"], spec["img_size"]), generator=g)
    prompt = torch.randn((PROMPT_TOKENS, spec["embed_dim"]), generator=g)
    labels = torch.randint(0, spec["num_classes"], (batch,), generator=g)
    return images, prompt, labels


def prompted(vit, images, prompt):
    """[CLS, prompt, patches]; the prompt has no position embedding and the head reads CLS."""
    b = images.shape[0]
    patches = vit.patch_embed((images - MEAN) / STD) + vit.pos_embed[:, 1:]
    cls = (vit.cls_token + vit.pos_embed[:, :1]).expand(b, -1, -1)
    x = vit.norm_pre(torch.cat([cls, prompt.expand(b, -1, -1), patches], dim=1))
    return vit.head(vit.norm(vit.blocks(x))[:, 0])


def query(vit, images):
    return vit.forward_features((images - MEAN) / STD)[:, 0]


def loss_of(logits, mixed_logits, labels, pair, lam):
    """Mutual information (Eq. 6) plus cross-entropy with mixed labels over B (Eq. 9)."""
    log_p = logits.log_softmax(dim=1)
    p_bar = log_p.exp().mean(dim=0)
    mi = -(log_p.exp() * log_p).sum(dim=1).mean() + (p_bar * p_bar.log()).sum()
    ce = lam * F.cross_entropy(mixed_logits, labels) + (1 - lam) * F.cross_entropy(mixed_logits, pair)
    return mi + ce


def trained_names(vit):
    own = tuple(f"blocks.{i}." for i in range(TRAINED_BLOCKS))
    return [n for n, _ in vit.named_parameters() if n.startswith(own)]


def freeze_all_but(vit, names):
    for n, p in vit.named_parameters():
        p.requires_grad_(n in names)


class Step:
    """The state between steps: source, adapted model, prompt, key, optimizer."""

    def __init__(self, backbone, batch, mode, device, precision):
        self.autocast = lambda: torch.autocast(device, torch.bfloat16, enabled=precision == "bf16")
        self.model = build(backbone).to(device)
        names = trained_names(self.model)
        self.source = copy.deepcopy(self.model).requires_grad_(False)
        kept = dict(self.model.named_parameters())
        for n, p in self.source.named_parameters():
            if n not in names:
                p.data = kept[n].data
        freeze_all_but(self.model, names)
        images, prompt, _ = inputs(backbone, batch)
        self.images, self.prompt = images.to(device), prompt.to(device).requires_grad_()
        self.key = None
        groups = [dict(params=[kept[n] for n in names], lr=LR_BLOCKS), dict(params=[self.prompt], lr=LR_PROMPT)]
        self.optimizer = torch.optim.SGD(groups)
        compiled = torch.compile if mode == "compile" else lambda f: f
        self.query, self.prompted, self.loss = compiled(query), compiled(prompted), compiled(loss_of)

    def __call__(self):
        with self.autocast():
            self.step()

    def step(self):
        x = self.images
        with torch.no_grad():
            q = self.query(self.source, x)
            q_bar = q.mean(dim=0)
            self.key = q_bar if self.key is None else 0.8 * self.key + 0.2 * q_bar
            F.cosine_similarity(q, self.key[None]).mean().item()
        logits = self.prompted(self.model, x, self.prompt)
        labels = logits.detach().argmax(dim=1)
        order = torch.randperm(len(x), device=x.device)
        mixed = LAMBDA * x + (1 - LAMBDA) * x[order]
        loss = self.loss(logits, self.prompted(self.model, mixed, self.prompt), labels, labels[order], LAMBDA)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            return self.prompted(self.model, x, self.prompt).argmax(dim=1).tolist()


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def resident_bytes(field):
    """VmHWM is the peak of this process alone; ru_maxrss may carry the parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


def measure(step, repeat, cuda):
    wall, cpu = [], []
    for _ in range(repeat):
        t, c = time.perf_counter(), cpu_seconds()
        step()  # ends with tolist(), which waits for the device
        wall.append(1e3 * (time.perf_counter() - t))
        cpu.append(1e3 * (cpu_seconds() - c))
    memory = torch.cuda.max_memory_allocated() if cuda else resident_bytes("VmHWM")
    return dict(ms_per_step=statistics.median(wall), cpu_ms_per_step=statistics.median(cpu), peak_memory_bytes=memory)


def product_gflops(rounds=20):
    """The rate of the product that our own program takes as its peak, the fastest of a few."""
    rows, inner, columns = 1344, 256, 768
    x, y = torch.randn(rows, inner), torch.randn(inner, columns)
    times = []
    for _ in range(rounds):
        t = time.perf_counter()
        x @ y
        times.append(time.perf_counter() - t)
    return 2 * rows * inner * columns / min(times) / 1e9


def serve(a):
    torch.set_num_threads(a.threads)
    imported = resident_bytes("VmRSS")
    tf32 = a.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    rate = product_gflops()
    step = Step(a.backbone, a.batch, a.mode, a.device, a.precision)
    for _ in range(2 if a.mode == "eager" else 3):
        step()
    answer = lambda d: print(json.dumps(d), flush=True)
    cuda = a.device.startswith("cuda")
    if a.once:
        return answer(measure(step, a.repeat, cuda))
    answer(dict(ready=True, imported_bytes=imported, product_gflops=rate))
    for _ in sys.stdin:
        answer(measure(step, a.repeat, cuda))


def values(vit, images, prompt, labels):
    """Logits of the prompted forward and the gradients of the contract in README.md."""
    names = trained_names(vit)
    freeze_all_but(vit, names)
    vit.zero_grad(set_to_none=True)
    prompt = prompt.clone().requires_grad_()
    mixed = LAMBDA * images + (1 - LAMBDA) * images.flip(0)
    logits = prompted(vit, images, prompt)
    loss_of(logits, prompted(vit, mixed, prompt), labels, labels.flip(0), LAMBDA).backward()
    named = dict(vit.named_parameters())
    out = {f"grad.{n}": named[n].grad for n in names} | {"grad.prompt": prompt.grad, "logits": logits}
    return {k: v.detach().contiguous() for k, v in out.items()}


def make(a):
    torch.set_num_threads(a.threads)
    folder = Path(a.folder)
    folder.mkdir(parents=True, exist_ok=True)
    vit = build(a.backbone)
    images, prompt, labels = inputs(a.backbone, a.batch)
    spec = BACKBONES[a.backbone]
    size = [3, spec["img_size"], spec["img_size"]]
    preprocess = dict(input_size=size, mean=[MEAN] * 3, std=[STD] * 3, interpolation="bilinear", crop_pct=1.0)
    config = dict(architecture=a.backbone, num_classes=spec["num_classes"])
    if "depth" in spec:
        config["model_args"] = {k: v for k, v in spec.items() if k != "num_classes"} | dict(mlp_ratio=4.0)
    (folder / "config.json").write_text(json.dumps(config | dict(pretrained_cfg=preprocess), indent=1))
    save_file({n: p.detach().contiguous() for n, p in vit.named_parameters()}, folder / "weights.safetensors")
    save_file(dict(images=images, prompt=prompt, labels=labels.float()), folder / "inputs.safetensors")
    single = values(vit, images, prompt, labels)
    save_file(single, folder / "torch.safetensors")
    if a.double:
        double = values(vit.double(), images.double(), prompt.double(), labels)
        save_file({k: v.float() for k, v in double.items()}, folder / "torch64.safetensors")


def differences(ours, want):
    """(largest absolute logit gap, per gradient max|a-b| / max|b|, largest key-bias gap)."""
    missing = sorted(set(want) ^ set(ours))
    if missing:
        raise SystemExit(f"tensors in only one of the two dumps: {missing}")
    relative, key_bias = {}, []
    for name, b in want.items():
        a = ours[name]
        if a.shape != b.shape:
            raise SystemExit(f"{name}: expected shape {tuple(b.shape)}, got {tuple(a.shape)}")
        if name.endswith("attn.qkv.bias"):
            # Its gradient is zero but for rounding, so a relative gap says nothing.
            third = len(b) // 3
            key_bias.append(absolute_gap(a[third : 2 * third], b[third : 2 * third]))
            keep = torch.ones(len(b), dtype=torch.bool)
            keep[third : 2 * third] = False
            a, b = a[keep], b[keep]
        relative[name] = relative_gap(a, b)
    return absolute_gap(ours["logits"], want["logits"]), relative, largest(key_bias)


def check(a):
    want = load_file(Path(a.folder) / "torch.safetensors")
    dumps = [("paint", a.dump)] if a.dump else []
    if (Path(a.folder) / "torch64.safetensors").exists():
        dumps.append(("PyTorch float64", Path(a.folder) / "torch64.safetensors"))
    for title, path in dumps:
        logits, relative, key_bias = differences(load_file(path), want)
        worst = largest_key(relative)
        same = (load_file(path)["logits"].argmax(1) == want["logits"].argmax(1)).float().mean().item()
        print(json.dumps(dict(
            against=f"{title} vs PyTorch float32", logits_max_abs=logits, logits_rel=relative["logits"],
            same_class=same, grad_max_rel=relative[worst], worst=worst, prompt_rel=relative["grad.prompt"],
            key_bias_max_abs=key_bias,
        )))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["time", "make", "check"])
    parser.add_argument("--backbone", choices=sorted(BACKBONES), default="vit_tiny_patch4_32")
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=["f32", "tf32", "bf16"], default="f32")
    parser.add_argument("--once", action="store_true", help="measure once instead of answering stdin")
    parser.add_argument("--folder", help="where make writes and check reads")
    parser.add_argument("--dump", help="our values, written by paint bench step --dump")
    parser.add_argument("--double", action="store_true", help="make: also the float64 values")
    a = parser.parse_args()
    {"time": serve, "make": make, "check": check}[a.what](a)


if __name__ == "__main__":
    main()
