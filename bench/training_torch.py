"""Training steps in PyTorch, as `paint train` does them: the same network, batch, draws, loss and update.

A process that answers every line on its standard input with the time of some steps, for `compare_training.py`. Images
lie on the device as bytes; a batch is made there with whole-batch operations; AdamW is the fused one; gradients are
clipped and weights averaged with the multi-tensor functions; bf16 is autocast. Nothing is read back inside a turn.
"""

import argparse
import contextlib
import json
import sys
import time

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer

SIDE, CLASSES, PAD = 32, 10, 4
LUMA = (0.299, 0.587, 0.114)


def look(images, index, draws):
    """Crop, flip and colours of one view of each sample."""
    b, device = len(index), images.device
    offset = draws["offset"] - PAD
    ys = torch.arange(SIDE, device=device)[None] + offset[:, :1]
    xs = torch.arange(SIDE, device=device)[None].expand(b, -1)
    xs = torch.where(draws["flip"][:, None], SIDE - 1 - xs, xs) + offset[:, 1:]
    inside = ((ys >= 0) & (ys < SIDE))[:, None, :, None] & ((xs >= 0) & (xs < SIDE))[:, None, None, :]
    ys, xs = ys.clamp(0, SIDE - 1), xs.clamp(0, SIDE - 1)
    x = images[index[:, None, None], :, ys[:, :, None], xs[:, None, :]].permute(0, 3, 1, 2)
    x = x.float().div(255) * inside
    luma = torch.tensor(LUMA, device=device)[None, :, None, None]
    brightness, contrast, saturation = (f[:, None, None, None] for f in draws["factors"])
    x = (x * brightness).clamp(0, 1)
    mean = (x * luma).sum(1, keepdim=True).mean((2, 3), keepdim=True)
    x = (x * contrast + (1 - contrast) * mean).clamp(0, 1)
    grey = (x * luma).sum(1, keepdim=True)
    x = (x * saturation + (1 - saturation) * grey).clamp(0, 1)
    tone = draws["tone"][:, None, None, None]
    grey = (x * luma).sum(1, keepdim=True).expand_as(x)
    x = torch.where(tone < 0.1, grey, x)
    return torch.where((tone >= 0.1) & (tone < 0.2) & (x >= 0.5), 1 - x, x)


def rectangle(centre, half):
    """Masks `[B, 1, H, W]` of rectangles cut at the border."""
    at = torch.arange(SIDE, device=centre.device)[None]
    rows, columns = (
        ((at >= centre[:, i, None] - half[:, i, None]) & (at < centre[:, i, None] + half[:, i, None])) for i in (0, 1)
    )
    return (rows[:, :, None] & columns[:, None, :])[:, None]


def make_batch(images, labels, index, partner, first, second, mix):
    a, b = look(images, index, first), look(images, partner, second)
    cut, lam = mix["cut"], mix["lambda"]
    box = (
        rectangle(mix["centre"], ((1 - lam).sqrt() * SIDE / 2)[:, None].expand(-1, 2).floor())
        & cut[:, None, None, None]
    )
    share = torch.where(cut, 1 - box.float().mean((1, 2, 3)), lam)
    weight = torch.where(cut, torch.ones_like(lam), lam)[:, None, None, None]
    x = torch.where(box, b, weight * a + (1 - weight) * b)
    erased = rectangle(mix["erase_centre"], mix["erase_half"]) & mix["erased"][:, None, None, None]
    x = torch.where(erased, 0.5, x)
    smooth = lambda y: F.one_hot(y, CLASSES) * 0.9 + 0.1 / CLASSES
    y = share[:, None] * smooth(labels[index]) + (1 - share[:, None]) * smooth(labels[partner])
    return (x - 0.5) / 0.5, y


def draw(b, images, device):
    """All random choices of a batch, drawn on the device."""
    view = lambda: {
        "offset": torch.randint(0, 2 * PAD + 1, (b, 2), device=device),
        "flip": torch.rand(b, device=device) < 0.5,
        "factors": torch.rand(3, b, device=device) * 0.6 + 0.7,
        "tone": torch.rand(b, device=device),
    }
    index = torch.randint(0, images, (b,), device=device)
    cut = torch.rand(b, device=device) < 0.5
    gamma = torch._standard_gamma(torch.where(cut, 1.0, 0.8).expand(2, b))
    mixed = torch.rand(b, device=device) < 0.8
    mix = {
        "cut": cut,
        "lambda": torch.where(mixed, gamma[0] / gamma.sum(0), 1.0),
        "centre": torch.randint(0, SIDE, (b, 2), device=device),
        "erased": torch.rand(b, device=device) < 0.25,
        "erase_centre": torch.randint(0, SIDE, (b, 2), device=device),
        "erase_half": torch.rand(b, 2, device=device) * 8 + 2,
    }
    return index, index[torch.randint(0, b, (b,), device=device)], view(), view(), mix


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="bf16", choices=["f32", "tf32", "bf16"])
    parser.add_argument("--mode", default="eager", choices=["eager", "compile", "graphs"])
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--images", type=int, default=50000)
    args = parser.parse_args()
    device = torch.device(args.device)
    torch.set_float32_matmul_precision("highest" if args.precision == "f32" else "high")
    torch.manual_seed(0)
    images = torch.randint(0, 256, (args.images, 3, SIDE, SIDE), dtype=torch.uint8, device=device)
    labels = torch.randint(0, CLASSES, (args.images,), device=device)
    model = VisionTransformer(
        img_size=SIDE, patch_size=4, embed_dim=192, depth=12, num_heads=3, num_classes=CLASSES, drop_path_rate=0.1
    ).to(device)
    bare = lambda n, p: p.ndim == 1 or n in ("cls_token", "pos_embed")
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if not bare(n, p)], "weight_decay": 0.05},
        {"params": [p for n, p in named if bare(n, p)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, fused=True)
    params = [p for _, p in named]
    average = [p.detach().clone() for p in params]
    forward, batch = model, make_batch
    if args.mode != "eager":
        kind = "reduce-overhead" if args.mode == "graphs" else "default"
        forward, batch = torch.compile(model, mode=kind), torch.compile(make_batch)
    bf16 = torch.autocast(device.type, torch.bfloat16) if args.precision == "bf16" else contextlib.nullcontext()

    def step():
        x, y = batch(images, labels, *draw(args.batch, args.images, device))
        with bf16:
            logits = forward(x)
        loss = -(y * F.log_softmax(logits.float(), 1)).sum(1).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(average, params, 2e-4)
        return loss

    def turn(steps):
        begun = time.perf_counter()
        for _ in range(steps):
            loss = step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begun, float(loss.detach())

    turn(max(3, args.steps // 4))
    print(json.dumps({"ready": True}), flush=True)
    for _ in sys.stdin:
        seconds, loss = turn(args.steps)
        rate = args.steps * args.batch / seconds
        print(
            json.dumps({"images_per_second": rate, "ms_per_step": 1e3 * seconds / args.steps, "loss": loss}), flush=True
        )


if __name__ == "__main__":
    main()
