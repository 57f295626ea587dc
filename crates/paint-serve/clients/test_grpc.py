"""NVIDIA's gRPC client, and TLS, against a program built with both.

Usage:
    pip install 'tritonclient[grpc]'; cargo build --release -p paint-cli --features grpc,tls
    PAINT=target/release/paint python crates/paint-serve/clients/test_grpc.py
"""

import http.client
import json
import os
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.request

import numpy as np
import tritonclient.grpc as triton
from test_triton import PAINT, free_port, images
from tritonclient.utils import InferenceServerException

MODEL = "paint"


class Served:
    def __init__(self, *flags):
        self.folder = tempfile.TemporaryDirectory()
        self.http, self.grpc = free_port(), free_port()
        command = [
            PAINT,
            "serve",
            "--demo",
            "--method",
            "tent",
            "--no-stream",
            "--no-guard",
            "--state",
            self.folder.name,
        ]
        command += [
            "--listen",
            f"127.0.0.1:{self.http}",
            "--admin",
            "127.0.0.1:0",
            "--grpc",
            f"127.0.0.1:{self.grpc}",
            *flags,
        ]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def wait(self, client):
        for _ in range(600):
            assert self.process.poll() is None, "the server ended: was it built with --features grpc,tls?"
            try:
                if client.is_server_ready():
                    return client
            except InferenceServerException:
                time.sleep(0.05)
        raise RuntimeError("the server did not become ready")

    def stop(self):
        self.process.terminate()
        assert self.process.wait(60) == 0
        self.folder.cleanup()


def infer(client, pixels, name="logits", datatype="UINT8", class_count=0, **more):
    tensor = triton.InferInput("images", list(pixels.shape), datatype)
    tensor.set_data_from_numpy(pixels)
    return client.infer(MODEL, [tensor], outputs=[triton.InferRequestedOutput(name, class_count)], **more)


class Grpc(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = Served()
        cls.client = cls.served.wait(triton.InferenceServerClient(f"127.0.0.1:{cls.served.grpc}"))

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.served.stop()

    def test_server_and_model_are_described(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_model_ready(MODEL))
        self.assertIn("sequence", self.client.get_server_metadata().extensions)
        told = self.client.get_model_metadata(MODEL)
        self.assertEqual(list(told.inputs[0].shape), [-1, 32, 32, 3])
        self.assertEqual([output.name for output in told.outputs], ["logits", "probabilities"])

    def test_both_ways_say_the_same(self):
        logits = infer(self.client, images(5), parameters={"adapt": False}).as_numpy("logits")
        tensor = {"name": "images", "datatype": "UINT8", "shape": [5, 32, 32, 3], "data": images(5).ravel().tolist()}
        body = json.dumps({"inputs": [tensor], "parameters": {"adapt": False}}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.served.http}/v2/models/paint/infer", body) as answer:
            text = json.load(answer)["outputs"][0]["data"]
        np.testing.assert_array_equal(logits, np.array(text, np.float32).reshape(5, 10))
        chw = (images(5).transpose(0, 3, 1, 2) / np.float32(255)).astype(np.float32)
        floats = infer(self.client, chw, datatype="FP32", parameters={"adapt": False})
        np.testing.assert_array_equal(floats.as_numpy("logits"), logits)

    def test_sequences_learn_apart(self):
        adapt = {"parameters": {"mode": "adapt-first"}}
        first = [infer(self.client, images(10), sequence_id=7, sequence_start=step == 0, **adapt) for step in range(3)]
        again = [
            infer(self.client, images(10), sequence_id="seven", headers={"x-paint-stream": "seven"}, **adapt)
            for _ in range(3)
        ]
        for one, two in zip(first, again):
            np.testing.assert_array_equal(one.as_numpy("logits"), two.as_numpy("logits"))
        facts = [answer.get_response().parameters for answer in first]
        self.assertEqual([fact["step"].int64_param for fact in facts], [1, 2, 3])
        self.assertEqual(facts[0]["stream"].string_param, "7")

    def test_classification(self):
        best = infer(self.client, images(3), "probabilities", class_count=2).as_numpy("probabilities")
        self.assertEqual(best.shape, (3, 2))
        self.assertEqual(len(best[0][0].decode().split(":")), 3)

    def test_errors_are_the_clients_own(self):
        for status, ask in [
            ("NOT_FOUND", lambda: self.client.get_model_metadata("other")),
            ("INVALID_ARGUMENT", lambda: infer(self.client, images(257))),
            ("INVALID_ARGUMENT", lambda: infer(self.client, images(1), parameters={"mode": "later"})),
            ("UNIMPLEMENTED", lambda: self.client.get_model_config(MODEL)),
        ]:
            with self.assertRaises(InferenceServerException) as raised:
                ask()
            self.assertIn(status, raised.exception.status())
            self.assertIn("expected", raised.exception.message())


class Tls(unittest.TestCase):
    def test_every_address_is_encrypted(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
            make = [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
            ]
            make += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert]
            subprocess.run(make, check=True, capture_output=True)
            served = Served("--tls-cert", cert, "--tls-key", key)
            self.addCleanup(served.stop)
            client = triton.InferenceServerClient(f"localhost:{served.grpc}", ssl=True, root_certificates=cert)
            served.wait(client)
            self.assertEqual(infer(client, images(2)).as_numpy("logits").shape, (2, 10))
            trusted = ssl.create_default_context(cafile=cert)
            with urllib.request.urlopen(f"https://localhost:{served.http}/v2", context=trusted) as answer:
                self.assertEqual(json.load(answer)["name"], "paint")
            # The server's answer to plain text is a TLS alert.
            with self.assertRaises((OSError, http.client.HTTPException)):
                urllib.request.urlopen(f"http://localhost:{served.http}/v2", timeout=5)
            with self.assertRaises(OSError):
                urllib.request.urlopen(f"https://localhost:{served.http}/v2", timeout=5)
            client.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
