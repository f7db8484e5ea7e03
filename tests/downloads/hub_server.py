"""Simulates Hugging Face's hub on the loopback interface for tests. It serves made-up repositories, and fails on demand.

Large files are served at a second address, to which the hub redirects, as the real one redirects to its storage.
"""
import collections
import hashlib
import http.server
import json
import socket
import threading
import time
import urllib.parse

Request = collections.namedtuple("Request", "place method path headers")


def git_hash(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class File:
    def __init__(self, content, is_large):
        self.content = content
        self.git_hash = git_hash(content)
        self.sha256 = hashlib.sha256(content).hexdigest() if is_large else None
        self.etag = self.sha256 or self.git_hash


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Ignores errors of connections: tests kill clients, which closes their connections."""


class Fault:
    """A failure that the simulation injects into its answers to the requests at the address `place` ("hub" or "storage") whose path
    contains `part`. It is injected `times` times."""

    def __init__(self, place, part, times=1, **what):
        self.place, self.part, self.times, self.what = place, part, times, what


# The hub and the storage have two different addresses of this machine. huggingface_hub 1.33 follows a redirect to another port of the same
# host, but it takes the metadata of a large file from a redirect to another host, which is how the real hub answers.
HOSTS = {"hub": "127.0.0.1", "storage": "127.0.0.2"}


class Hub:
    def __init__(self, page_size=1000, context=None):
        self.repositories = {}  # maps (kind, name) of a repository to its {"commit", "files", "refs"}
        self.requests = []
        self.faults = []
        self.page_size = page_size
        self.lock = threading.Lock()
        self.servers = {}
        for place in HOSTS:
            server = Server((HOSTS[place], 0), handler_class(self, place))
            if context:
                server.socket = context.wrap_socket(server.socket, server_side=True)
            self.servers[place] = server
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.scheme = "https" if context else "http"
        self.endpoint = self.address("hub")

    def address(self, place):
        return f"{self.scheme}://{HOSTS[place]}:{self.servers[place].server_port}"

    def close(self):
        for server in self.servers.values():
            server.shutdown()
            server.server_close()

    def add(self, name, files, kind="models", large=lambda path: path.endswith((".safetensors", ".bin")), refs=("main",)):
        entries = {path: File(content, large(path)) for path, content in files.items()}
        commit = hashlib.sha1(repr(sorted((path, file.etag) for path, file in entries.items())).encode()).hexdigest()
        repository = self.repositories.setdefault((kind, name), {"commits": {}, "refs": {}})
        repository["commits"][commit] = entries
        for ref in refs:
            repository["refs"][ref] = commit
        return commit

    def fail(self, *words, **what):
        self.faults.append(Fault(*words, **what))

    def take_fault(self, place, method, path):
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and fault.place == place and fault.part in path and method == fault.what.get("method", "GET"):
                    fault.times -= 1
                    return fault.what
        return {}

    def count(self, place, part, method="GET"):
        return sum(r.place == place and r.method == method and part in r.path for r in self.requests)


def handler_class(hub, place):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16

        def log_message(self, *_):
            pass

        def do_HEAD(self):
            self.answer()

        def do_GET(self):
            self.answer()

        def answer(self):
            with hub.lock:
                hub.requests.append(Request(place, self.command, self.path, dict(self.headers)))
            fault = hub.take_fault(place, self.command, self.path)
            try:
                if "status" in fault:
                    self.refuse(fault["status"], fault.get("code", ""), fault.get("headers", {}))
                elif place == "storage":
                    self.send_content(hub.storage_file(self.path), {}, fault)
                else:
                    self.answer_hub(fault)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def refuse(self, status, code="", headers=None):
            self.send_response(status)
            if code:
                self.send_header("X-Error-Code", code)
                self.send_header("X-Error-Message", f"made up: {code}")
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def send_json(self, value, headers=None):
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            for name, text in (headers or {}).items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def answer_hub(self, fault):
            url = urllib.parse.urlsplit(self.path)  # self.path is a complete URL if the server is used as a proxy
            parts = [urllib.parse.unquote(part) for part in url.path.strip("/").split("/")]
            if parts[0] == "api":
                self.answer_api(parts, dict(urllib.parse.parse_qsl(url.query)))
                return
            kind = "models"
            if parts[0] == "datasets":
                kind, parts = "datasets", parts[1:]
            at = parts.index("resolve")
            repository = hub.repositories.get((kind, "/".join(parts[:at])))
            if not repository:
                self.refuse(401, "RepoNotFound")
                return
            commit = repository["refs"].get(parts[at + 1], parts[at + 1])
            file = repository["commits"].get(commit, {}).get("/".join(parts[at + 2:]))
            if not file:
                self.send_response(404)
                self.send_header("X-Error-Code", "EntryNotFound")
                self.send_header("X-Repo-Commit", commit)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            headers = {"X-Repo-Commit": commit, "ETag": f'"{fault.get("etag", file.etag)}"'}
            if file.sha256 is None:
                self.send_content(file, headers, fault)
                return
            headers["X-Linked-Etag"], headers["X-Linked-Size"] = headers["ETag"], str(len(file.content))
            headers["Location"] = hub.address("storage") + "/stored/" + file.sha256 + "?signature=x"
            self.refuse(302, headers=headers)

        def answer_api(self, parts, query):
            kind = parts[1]
            at = next((i for i, part in enumerate(parts) if part in ("revision", "tree")), len(parts))
            repository = hub.repositories.get((kind, "/".join(parts[2:at])))
            if not repository:
                self.refuse(401, "RepoNotFound")
                return
            revision = "/".join(parts[at + 1:]) or "main"
            commit = repository["refs"].get(revision, revision)
            if commit not in repository["commits"]:
                self.refuse(404, "RevisionNotFound")
                return
            files = repository["commits"][commit]
            if at < len(parts) and parts[at] == "tree":
                entries = [self.entry(path, file) for path, file in sorted(files.items())]
                folders = {path.rsplit("/", 1)[0] for path in files if "/" in path}
                entries += [{"type": "directory", "path": folder, "oid": "0" * 40, "size": 0} for folder in sorted(folders)]
                begin = int(query.get("cursor", 0))
                headers = {}
                if begin + hub.page_size < len(entries):
                    address = f"{hub.endpoint}{self.path.split('?')[0]}?recursive=true&cursor={begin + hub.page_size}"
                    headers["Link"] = f'<{address}>; rel="next"'
                self.send_json(entries[begin:begin + hub.page_size], headers)
            else:
                self.send_json({"id": "/".join(parts[2:at]), "sha": commit, "private": False, "tags": [], "downloads": 0, "likes": 0,
                                "siblings": [{"rfilename": path} for path in sorted(files)]})

        @staticmethod
        def entry(path, file):
            entry = {"type": "file", "path": path, "oid": file.git_hash, "size": len(file.content)}
            if file.sha256:
                entry["lfs"] = {"oid": file.sha256, "size": len(file.content), "pointerSize": 134}
            return entry

        def send_content(self, file, headers, fault):
            content = fault.get("content", file.content)
            begin = 0
            asked = self.headers.get("Range", "")
            if asked.startswith("bytes=") and not fault.get("ignores_range"):
                begin = int(asked[6:].split("-")[0])
            if begin and begin >= len(content):
                self.refuse(416, headers={"Content-Range": f"bytes */{len(content)}"})
                return
            body = content[begin:]
            self.send_response(206 if begin else 200)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body) + fault.get("length_error", 0)))
            for name, value in fault.get("headers", {}).items():
                self.send_header(name, value)
            if begin:
                self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
            self.end_headers()
            if self.command == "HEAD":
                return
            if "cut" in fault:
                self.wfile.write(body[:fault["cut"]])
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
            elif "stall" in fault:
                self.wfile.write(body[:fault["stall"]])
                self.wfile.flush()
                time.sleep(fault.get("seconds", 60))
                self.close_connection = True
            else:
                self.wfile.write(body)
                self.wfile.flush()
                if "length_error" in fault:
                    self.close_connection = True

    return Handler


def storage_file(hub, path):
    wanted = path.split("/stored/")[1].split("?")[0]
    for repository in hub.repositories.values():
        for files in repository["commits"].values():
            for file in files.values():
                if file.sha256 == wanted:
                    return file
    raise KeyError(path)


Hub.storage_file = storage_file
