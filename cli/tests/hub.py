"""A hub on this machine, for tests: the parts of Hugging Face's HTTP interface that `ember pull` uses, and ways to fail.

`resolve` sends large files on to another host, as the hub does (`localhost` instead of `127.0.0.1`), and small ones to another path.
"""

import hashlib
import http.server
import json
import ssl
import threading
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def is_large(name):
    return name.endswith((".gguf", ".safetensors"))


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def checksum(name, data):
    return hashlib.sha256(data).hexdigest() if is_large(name) else git_sha1(data)


class Hub:
    """`repositories` are files by repository and name. `quirks` are ways to fail, by what they are about."""

    def __init__(self, certificate=None):
        self.repositories = {}
        self.quirks = {}
        # What was asked for: method, path, Range, Authorization, and the host.
        self.requests = []
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                hub.answer(self, True)

            def do_HEAD(self):
                hub.answer(self, False)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.scheme = "https"
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def endpoint(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def quirk(self, name):
        """Uses up one of a number of failures."""
        left = self.quirks.get(name, 0)
        self.quirks[name] = max(left - 1, 0)
        return left > 0

    def answer(self, request, with_body):
        path = urllib.parse.urlsplit(request.path)
        host = request.headers.get("host", "").split(":")[0]
        self.requests.append((request.command, path.path, request.headers.get("range"), request.headers.get("authorization"), host))
        parts = [urllib.parse.unquote(part) for part in path.path.strip("/").split("/")]
        if self.quirk("busy"):
            return self.send(request, 429, {"Retry-After": "1"}, b"", with_body)
        if self.quirk("sick"):
            return self.send(request, 503, {}, b"", with_body)
        if self.quirks.get("patience"):
            return self.send(request, 429, {"Retry-After": str(self.quirks["patience"])}, b"", with_body)
        if parts[:2] == ["api", "models"] and parts[4:5] == ["revision"]:
            return self.list(request, "/".join(parts[2:4]), parts[5], with_body)
        if parts[:1] == ["cdn"]:
            return self.content(request, "/".join(parts[1:3]), "/".join(parts[3:]), with_body)
        if parts[:1] == ["cached"]:
            return self.content(request, "/".join(parts[1:3]), "/".join(parts[3:]), with_body, etag=True)
        if parts[2:3] == ["resolve"]:
            return self.resolve(request, "/".join(parts[:2]), parts[3], "/".join(parts[4:]), with_body)
        return self.send(request, 404, {}, b"", with_body)

    def allowed(self, request, repository, with_body):
        """Answers those who may not read a repository."""
        if repository.startswith("gated/") and request.headers.get("authorization") != "Bearer secret":
            self.send(request, 401, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"}, b"", with_body)
        elif repository not in self.repositories:
            self.send(request, 401, {"X-Error-Code": "RepoNotFound"}, b"", with_body)
        else:
            return True
        return False

    def list(self, request, repository, revision, with_body):
        if not self.allowed(request, repository, with_body):
            return
        if revision not in ("main", COMMIT, "refs/pr/1"):
            return self.send(request, 404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"}, b"", with_body)
        siblings = []
        for name, data in self.repositories[repository].items():
            sibling = {"rfilename": name}
            if not self.quirks.get("terse"):
                sibling.update(size=len(data), blobId=git_sha1(data))
                if is_large(name):
                    sibling["lfs"] = {"sha256": checksum(name, data), "size": len(data), "pointerSize": 130}
            siblings.append(sibling)
        body = json.dumps({"id": repository, "sha": COMMIT, "siblings": siblings}).encode()
        self.send(request, 200, {"Content-Type": "application/json"}, body, with_body)

    def resolve(self, request, repository, commit, name, with_body):
        if not self.allowed(request, repository, with_body):
            return
        data = self.repositories[repository].get(name)
        if commit != COMMIT or data is None:
            return self.send(request, 404, {"X-Error-Code": "EntryNotFound"}, b"", with_body)
        quoted = urllib.parse.quote(f"{repository}/{name}")
        headers = {"X-Repo-Commit": COMMIT}
        if self.quirks.get("circle"):
            headers["Location"] = request.path
        elif is_large(name):
            headers |= {"X-Linked-Etag": f'"{checksum(name, data)}"', "X-Linked-Size": str(len(data))}
            headers["Location"] = f"{self.quirks.get('elsewhere', f'http://localhost:{self.port}')}/cdn/{quoted}"
            if self.scheme == "https":
                headers["Location"] = self.quirks.get("elsewhere", f"/cdn/{quoted}")
        else:
            headers["Location"] = f"/cached/{quoted}"
        self.send(request, 302 if is_large(name) else 307, headers, b"", with_body)

    def content(self, request, repository, name, with_body, etag=False):
        data = self.repositories[repository][name]
        headers = {"ETag": f'"{checksum(name, data)}"'} if etag else {"ETag": '"an-etag-of-the-store-2"'}
        if self.quirks.get("wrong") == name:
            data = bytes([data[0] ^ 1]) + data[1:]
        if self.quirks.get("longer") == name:
            data += b"more"
        first, status = 0, 200
        asked = request.headers.get("range")
        if asked and self.quirk("out of range"):
            return self.send(request, 416, {}, b"no such range", with_body)
        if asked and not self.quirks.get("no ranges"):
            first = int(asked.removeprefix("bytes=").removesuffix("-"))
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
            status = 206
        cut = None
        if with_body and is_large(name) and self.quirk("drop"):
            cut = max((len(data) - first) // 2, 1)
        if with_body and is_large(name) and self.quirk("drop at once"):
            cut = 0
        self.send(request, status, headers, data[first:], with_body, cut)

    def send(self, request, status, headers, body, with_body, cut=None):
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if with_body:
            request.wfile.write(body if cut is None else body[:cut])
        if cut is not None:
            request.wfile.flush()
            request.close_connection = True
