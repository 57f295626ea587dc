"""Measured runs and benchmarks."""

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

from . import _paint

Listener = Callable[[dict[str, Any]], object]


def run(
    config: Mapping[str, Any] | str | PathLike[str],
    *,
    set: Mapping[str, Any] | None = None,
    earlier: str = "keep",
    on_event: Listener | None = None,
) -> dict[str, Any]:
    """Runs one method on one stream of labelled images, as `paint run --config` does, and returns `summary.json`.

    `config` is a TOML file or its content as a dictionary; `set` replaces dotted keys, such as `{"method.eta": 0.5}`.
    `earlier` says what to do with an earlier run in the same folder: `keep` it and refuse, `resume` or `overwrite` it.
    `on_event` is called with every line of `events.jsonl`. Ctrl-C ends the run after the current batch; `resume`
    continues.
    """
    config = dict(config) if isinstance(config, Mapping) else config
    return _paint.run(config, set or {}, earlier, on_event)


def bench(*, on_event: Listener | None = None, **flags: Any) -> dict[str, Any]:
    """Compares methods under a pinned protocol, as `paint bench` does, and returns `summary.json`.

    Keyword arguments are the flags of the command: `protocol="cifar10-c"`, `methods=["source", "paint"]`,
    `seeds="0..4"`, `data="CIFAR-10-C"`, `out="out/bench"`, `no_timing=True`; a list repeats `set`, `sweep` and `preset`
    and is joined by commas elsewhere. Finished runs in the folder are not run again. Ctrl-C ends after the current
    batches.
    """
    return _paint.bench(_words(flags), on_event)


def tune(*, on_event: Listener | None = None, **flags: Any) -> dict[str, Any]:
    """Finds the best settings of a method for a model, as `paint tune` does, and returns `tune.json`.

    Keyword arguments are the flags of the command: `method="tent"`, `weights="model.safetensors"`, `data="labelled"`,
    `search=["lr=1e-5..1e-2"]`, `candidates=27`, `limit=450`, `seeds="0..2"`, `out="out/tune"`. The choice lies in
    `OUT/preset.toml`, and in the result: `pt.adapt(weights, tuned["method"], **tuned["settings"])`. Finished runs in
    the folder are not run again. Ctrl-C ends after the current batches; the same call continues.
    """
    return _paint.tune(_words(flags), on_event)


_REPEATED = ("set", "sweep", "search", "preset")


def _words(flags: Mapping[str, Any]) -> list[str]:
    """Keyword arguments as flags: a list repeats some of them and is joined by commas elsewhere."""
    words: list[str] = []
    for key, value in flags.items():
        flag = "--" + key.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif key in _REPEATED and isinstance(value, (list, tuple)):
            words.extend(f"{flag}={item}" for item in value)
        elif isinstance(value, (list, tuple)):
            words.append(f"{flag}={','.join(map(str, value))}")
        else:
            words.append(f"{flag}={value}")
    return words
