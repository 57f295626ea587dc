"""TENT behind LitServe: JSON with base64, as its documents have it.

Usage:
    python bench/serve/litserve_app.py 8006
"""

import base64
import sys

import litserve as ls
from tent import Streams


class Tent(ls.LitAPI):
    def setup(self, device):
        self.streams = Streams()

    def decode_request(self, request):
        return request["stream"], base64.b64decode(request["images"])

    def predict(self, data):
        return self.streams.step(*data)

    def encode_response(self, output):
        return {"logits": base64.b64encode(output.tobytes()).decode()}


if __name__ == "__main__":
    server = ls.LitServer(Tent(), accelerator="cpu", workers_per_device=1, timeout=120)
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, log_level="error")
