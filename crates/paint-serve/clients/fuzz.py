"""Broken requests for as long as asked: heads, JSON, tensors and image files with bytes changed, cut, doubled or
swapped.

    PAINT=target/release/paint python crates/paint-serve/clients/fuzz.py [minutes]

The server must answer each with a status of the protocol or close the connection, log no panic, keep its memory, and
answer a good request in between.
"""

import base64
import io
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter

from kill import PAINT, free_port
from PIL import Image

MINUTES = float(sys.argv[1]) if len(sys.argv) > 1 else 10
KNOWN = {0, 200, 400, 404, 408, 409, 413, 415, 429, 431, 500, 501, 503, 505}
# The embedded model, the bodies that may be read at a time, and room for what they decode to.
MOST_MEMORY = 1 << 30


def files(rng):
    image = Image.effect_noise((rng.choice([1, 8, 32, 200]), rng.choice([1, 32, 65])), 80).convert("RGB")
    out = io.BytesIO()
    image.save(out, rng.choice(["PNG", "JPEG", "WEBP", "BMP"]))
    return out.getvalue()


def good(rng):
    """A head, JSON and bytes that make a request."""
    kind = rng.choice(["UINT8", "FP32", "BYTES", "JSON", "FILE"])
    count = rng.choice([1, 2, 5])
    tensor = {"name": "images", "datatype": kind, "shape": [count]}
    raw = b""
    if kind == "BYTES":
        raw = b"".join(len(file).to_bytes(4, "little") + file for file in (files(rng) for _ in range(count)))
    elif kind == "FILE":
        tensor |= {"datatype": "BYTES", "data": [base64.b64encode(files(rng)).decode() for _ in range(count)]}
    elif kind == "JSON":
        tensor |= {"datatype": "UINT8", "shape": [1, 4, 4, 3], "data": [rng.randrange(256) for _ in range(48)]}
    else:
        tensor["shape"] = [count, 32, 32, 3] if kind == "UINT8" else [count, 3, 32, 32]
        raw = rng.randbytes(count * 3072) if kind == "UINT8" else b"\0\0\0\x3f" * (count * 3072)
    if raw:
        tensor["parameters"] = {"binary_data_size": len(raw)}
    request = {
        "inputs": [tensor],
        "parameters": {"sequence_id": rng.choice([0, 7, "a"]), "mode": rng.choice(["predict-first", "adapt-first"])},
    }
    if rng.random() < 0.5:
        request["outputs"] = [
            {"name": "logits", "parameters": {"classification": 3, "binary_data": rng.random() < 0.5}}
        ]
    return json.dumps(request).encode(), raw


def broken(rng, data):
    """Some bytes changed."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        if not data:
            break
        at = rng.randrange(len(data))
        match rng.randrange(6):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at] = rng.choice(b'\0\xff{}[]",:-9eE.\r\n%')
            case 2:
                del data[at : at + rng.randrange(1, 40)]
            case 3:
                data[at:at] = data[at : at + rng.randrange(1, 40)]
            case 4:
                data[at:at] = rng.choice(
                    [b"99999999999999999999", b"-1", b"null", b"1e999", b"[" * 200, b"\\ud800", b"true"]
                )
            case 5:
                data[at : at + 4] = rng.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x80"])
    return bytes(data)


def request(rng):
    text, raw = good(rng)
    part = rng.randrange(5)
    if part == 1:
        text = broken(rng, text)
    if part == 2 and raw:
        raw = broken(rng, raw)
    if part == 3:
        text, raw = broken(rng, text), broken(rng, raw)
    body = text + raw
    head = b"POST /v2/models/paint/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Paint-Stream: " + rng.choice(
        [b"7", b"a", b""]
    )
    head += b"\r\nInference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n" % (len(text), len(body))
    if part == 4:
        head = broken(rng, head)
    return head + body


def send(port, data):
    """The status; 0 if the server closed without one."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(data)
            answer = connection.recv(64)
            while connection.recv(1 << 16):
                pass
    except OSError:
        return 0
    return int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/1.") else 0


def memory(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))


def main():
    rng, statuses, begun = random.Random(0), Counter(), time.monotonic()
    port, admin = free_port(), free_port()
    with tempfile.TemporaryDirectory() as state, tempfile.TemporaryFile() as log:
        command = [PAINT, "serve", "--demo", "--method", "tent", "--no-guard", "--no-stream", "--state", state]
        command += ["--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"]
        server = subprocess.Popen(command, stderr=log)
        fine = request(random.Random(5))
        while send(port, fine) == 0 and server.poll() is None:
            time.sleep(0.1)
        while time.monotonic() - begun < 60 * MINUTES and server.poll() is None:
            statuses[send(port, request(rng))] += 1
        alive = [send(port, b"GET /v2/health/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") for _ in range(3)]
        peak = memory(server.pid) if server.poll() is None else 0
        server.terminate()
        status = server.wait(60)
        log.seek(0)
        panics = [line for line in log.read().decode(errors="replace").splitlines() if "panic" in line]
    odd = set(statuses) - KNOWN
    print(
        f"{sum(statuses.values())} requests in {MINUTES} minutes: {dict(sorted(statuses.items()))}; "
        f"peak {peak >> 20} MiB; {len(panics)} panics; ready after it: {alive}; exit {status}; "
        f"load average {os.getloadavg()[0]:.1f}"
    )
    for line in panics[:5]:
        print(line)
    sys.exit(bool(panics or odd or peak > MOST_MEMORY or alive != [200] * 3 or status))


if __name__ == "__main__":
    main()
