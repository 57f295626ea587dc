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
    `on_event` is called with every line of `events.jsonl`. Ctrl-C ends the run after the present batch; `resume` continues.
    """
    config = dict(config) if isinstance(config, Mapping) else config
    return _paint.run(config, set or {}, earlier, on_event)


def bench(*, on_event: Listener | None = None, **flags: Any) -> dict[str, Any]:
    """Compares methods under a pinned protocol, as `paint bench` does, and returns `summary.json`.

    Keyword arguments are the flags of the command: `protocol="cifar10-c"`, `methods=["source", "paint"]`, `seeds="0..4"`,
    `data="CIFAR-10-C"`, `out="out/bench"`, `no_timing=True`; a list repeats `set` and `sweep` and is joined by commas
    elsewhere. Finished runs in the folder are not run again. Ctrl-C ends after the present batches.
    """
    words: list[str] = []
    for key, value in flags.items():
        flag = "--" + key.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif key in ("set", "sweep") and not isinstance(value, str):
            words.extend(f"{flag}={item}" for item in value)
        elif isinstance(value, (list, tuple)):
            words.append(f"{flag}={','.join(map(str, value))}")
        else:
            words.append(f"{flag}={value}")
    return _paint.bench(words, on_event)
