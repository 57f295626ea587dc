"""What the comparisons share: a quiet machine, and a PyTorch program that measures when it is its turn."""

import json
import os
import subprocess
import sys
import tempfile

MOST_LOAD = 0.5


def require_quiet():
    """PyTorch's threads spin while they wait; a third busy thread makes them several times slower."""
    load = os.getloadavg()[0]
    if load > MOST_LOAD:
        raise SystemExit(
            f"load average {load:.2f}, above {MOST_LOAD}: other work would distort the ratios. Stop it, wait a minute, "
            "and start again."
        )


class Worker:
    """Says a line of JSON when it is ready, and one after each turn; nothing is measured where it cannot start."""

    def __init__(self, name, script, *flags, env=None):
        pipe, self.log, self.samples = subprocess.PIPE, tempfile.TemporaryFile("w+"), []
        command = [sys.executable, str(script), *map(str, flags)]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.log, text=True, env=env)
        line = self.process.stdout.readline()
        self.ready = json.loads(line) if line else None
        if self.ready is None:
            self.process.wait()
            self.log.seek(0)
            reason = (self.log.read().strip().splitlines() or ["no message"])[-1]
            print(f"skipped: {name} did not start: {reason}", file=sys.stderr, flush=True)

    def turn(self):
        if self.ready is not None:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
            self.samples.append(json.loads(self.process.stdout.readline()))

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.log.close()
