"""TENT in PyTorch with a state for each stream, as somebody would write it behind a model server; the embedded
network."""

import json
import os
from pathlib import Path

import numpy as np
import timm
import torch
from safetensors.torch import load_file

MODEL = Path(__file__).parents[2] / "crates" / "paint-run" / "assets" / "vit_tiny_patch4_32_cifar10"
LR, MOMENTUM, SIDE = 1e-3, 0.9, 32


class Streams:
    """The norms of each stream and their momentum, put into the one network for a step."""

    def __init__(self):
        torch.set_num_threads(int(os.environ.get("THREADS", os.cpu_count())))
        args = json.loads((MODEL / "config.json").read_text())["model_args"]
        self.model = timm.models.VisionTransformer(**args)
        weights = load_file(MODEL / "model.safetensors")
        self.model.load_state_dict({name: value.float() for name, value in weights.items()})
        self.model.eval().requires_grad_(False)
        norms = [part for part in self.model.modules() if isinstance(part, torch.nn.LayerNorm)]
        self.trained = [parameter.requires_grad_() for norm in norms for parameter in norm.parameters()]
        self.source = [parameter.detach().clone() for parameter in self.trained]
        self.states = {}

    def step(self, stream, pixels):
        """Bytes of `[B, 32, 32, 3]` to float32 logits `[B, 10]` of the step."""
        state = self.states.setdefault(
            stream, ([p.clone() for p in self.source], [torch.zeros_like(p) for p in self.source])
        )
        x = torch.from_numpy(np.frombuffer(pixels, np.uint8).reshape(-1, SIDE, SIDE, 3).copy())
        x = x.permute(0, 3, 1, 2).float().div_(255).sub_(0.5).div_(0.5)
        with torch.no_grad():
            for parameter, value in zip(self.trained, state[0]):
                parameter.copy_(value)
        logits = self.model(x)
        log_p = logits.log_softmax(dim=1)
        gradients = torch.autograd.grad(-(log_p.exp() * log_p).sum(dim=1).mean(), self.trained)
        for value, momentum, gradient in zip(*state, gradients):
            value.sub_(momentum.mul_(MOMENTUM).add_(gradient), alpha=LR)
        return logits.detach().numpy()
