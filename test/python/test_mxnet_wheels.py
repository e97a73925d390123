#!/usr/bin/env python3
"""The tests with MXNet if its wheels cannot be downloaded: they are skipped with the reason, and do not count as
passed.
"""
import http.server
import os
import subprocess
import sys
import threading
import unittest

from installed import HERE

WHEEL = "mxnet-1.9.1-py3-none-any.whl"


class Index(http.server.BaseHTTPRequestHandler):
    """An index with a file that claims to be MXNet's wheel."""

    def do_GET(self):  # pylint: disable=invalid-name
        page = f'<a href="/{WHEEL}">{WHEEL}</a>'.encode()
        content, kind = (b"no archive", "application/zip") if self.path.endswith(WHEEL) else (page, "text/html")
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class Wheels(unittest.TestCase):
    def with_index(self, address):
        """Runs test_mxnet.py with a pip that has only this index. Returns (exit code, output)."""
        only = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        done = subprocess.run([sys.executable, str(HERE / "test_mxnet.py"), "debugoptimized"], text=True, check=False,
                              timeout=100, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**only, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": address, "PIP_RETRIES": "0",
                                   "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
        return done.returncode, done.stdout

    def test_an_index_that_does_not_answer_skips_them_and_says_so(self):
        code, said = self.with_index("http://127.0.0.1:9/simple")  # to discard
        self.assertEqual(code, 77, said)
        self.assertIn("skipped: Could not find a version that satisfies the requirement mxnet==1.9.1", said)

    def test_whatever_else_goes_wrong_with_a_wheel_fails_them(self):
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
            threading.Thread(target=server.serve_forever).start()
            code, said = self.with_index(f"http://127.0.0.1:{server.server_port}/simple")
            server.shutdown()
        self.assertEqual(code, 1, said)
        self.assertIn("pip install --only-binary :all: mxnet==1.9.1", said)
        self.assertNotIn("skipped", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
