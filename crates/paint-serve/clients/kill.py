"""Kills `paint serve` at random moments under load, again and again, and looks for steps that were answered and lost.

    PAINT=target/release/paint python crates/paint-serve/clients/kill.py [kills]

Each stream has one client, which sends a batch, waits for the answer and sends the next; what was not answered is sent
again. An answer names the step that it is. With --checkpoint-every 1 the next answer after a kill must be the step
after the last one answered, or one more: a step that was saved before its answer could leave.
"""

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PAINT = os.environ.get("PAINT", "target/release/paint")
STREAMS, BATCH = 3, 4


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def body(rng):
    pixels = bytes(rng.randrange(256) for _ in range(48)) * (BATCH * 64)
    tensor = {"name": "images", "datatype": "UINT8", "shape": [BATCH, 32, 32, 3]}
    tensor["parameters"] = {"binary_data_size": len(pixels)}
    text = json.dumps({"inputs": [tensor]}).encode()
    return text + pixels, len(text)


class Client(threading.Thread):
    """One stream. Statuses that are `expected` while a server is gone are no faults."""

    def __init__(self, port, name, expected=(503,)):
        super().__init__(daemon=True)
        self.port, self.name, self.done, self.expected = port, name, False, expected
        self.last, self.answers, self.faults, self.repeated = 0, 0, [], 0

    def run(self):
        rng = random.Random(self.name)
        while not self.done:
            payload, length = body(rng)
            while not self.done and not self.send(payload, length):
                time.sleep(0.02)

    def send(self, payload, length):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            headers = {"X-Paint-Stream": self.name, "Inference-Header-Content-Length": str(length)}
            connection.request("POST", "/v2/models/paint/infer", payload, headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            return False
        if answer.status != 200:
            if answer.status not in self.expected:
                self.faults.append((answer.status, text[:200]))
            return False
        step = json.loads(text)["parameters"]["step"]
        if step not in (self.last + 1, self.last + 2):
            self.faults.append(("step", step, "after", self.last))
        self.repeated += step == self.last + 2
        self.last, self.answers = step, self.answers + 1
        return True


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rng = random.Random(0)
    port, admin = free_port(), free_port()
    with tempfile.TemporaryDirectory() as state:
        command = [PAINT, "serve", "--demo", "--method", "tent", "--mode", "adapt-first", "--checkpoint-every", "1"]
        command += ["--no-guard", "--no-stream", "--state", state, "--snapshot-every", "7"]
        command += ["--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"]
        clients = [Client(port, f"s{number}") for number in range(STREAMS)]
        for client in clients:
            client.start()
        for _ in range(kills):
            server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            time.sleep(0.6 + 1.2 * rng.random())
            server.send_signal(signal.SIGKILL)
            server.wait()
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(3)
        for client in clients:
            client.done = True
        for client in clients:
            client.join(60)
        server.terminate()
        status = server.wait(60)
        shown = [
            subprocess.run(
                [PAINT, "state", "list", os.path.join(state, "paint", f"{c.name}.safetensors")], capture_output=True
            )
            for c in clients
        ]
    faults = [fault for client in clients for fault in client.faults]
    torn = [show.stderr.decode() for show in shown if show.returncode != 0]
    answers, repeated = sum(c.answers for c in clients), sum(c.repeated for c in clients)
    print(
        f"{kills} kills, {answers} answers, {repeated} steps saved but not answered, {len(faults)} faults, "
        f"{len(torn)} torn files, last exit {status}"
    )
    for fault in (faults + torn)[:10]:
        print(fault)
    sys.exit(bool(faults or torn or status))


if __name__ == "__main__":
    main()
