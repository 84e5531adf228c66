#!/usr/bin/env python3
"""An npm registry of the packages in a folder; what is not there comes from the registry that npm is set to.

    tests/packages/registry.py FOLDER REGISTRY FILE

Writes its address into FILE.
"""

import base64
import hashlib
import http.server
import json
import pathlib
import sys
import tarfile
import urllib.parse


def packages(folder):
    """The package.json of each package, and the file that it is in."""
    for file in sorted(pathlib.Path(folder).glob("*.tgz")):
        with tarfile.open(file) as archive:
            yield json.load(archive.extractfile("package/package.json")), file


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = urllib.parse.unquote(self.path).lstrip("/")
        for package, file in packages(sys.argv[1]):
            if path == file.name:
                return self.answer(file.read_bytes(), "application/octet-stream")
            if path == package["name"]:
                digest = base64.b64encode(hashlib.sha512(file.read_bytes()).digest()).decode()
                address = f"http://127.0.0.1:{self.server.server_port}/{file.name}"
                package["dist"] = {"tarball": address, "integrity": f"sha512-{digest}"}
                version = package["version"]
                about = {"name": package["name"], "dist-tags": {"latest": version}, "versions": {version: package}}
                return self.answer(json.dumps(about).encode(), "application/json")
        if "ember-inference" in path:
            return self.send_error(404)
        self.send_response(302)
        self.send_header("Location", sys.argv[2].rstrip("/") + self.path)
        self.end_headers()

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
pathlib.Path(sys.argv[3]).write_text(f"http://127.0.0.1:{server.server_port}/")
server.serve_forever()
