"""S3 on this machine, whose signatures are checked, and a network in front of it that can
fail. Of PyPI's moto: the store's own calls, errors and ETags. And as much of Google's
store and of WebHDFS as readers ask of them: no package has these."""

import contextlib
import http.server
import itertools
import json
import logging
import re
import socket
import threading
import urllib.parse
import urllib.request

import boto3
from moto.server import ThreadedMotoServer

_EVERYTHING = json.dumps({"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "*", "Resource": "*"}]})
REGION = "us-east-1"


class S3:
    """A store with the bucket "logs"."""

    def __init__(self):
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        with contextlib.redirect_stdout(None):
            self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
            self._server.start()
        self.port = self._server.get_host_and_port()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._post("reset", b"")
        # Another store of this process may check them.
        self._post("reset-auth", b"1000000")
        iam = self._client("iam", "anyone", "anything")
        iam.create_user(UserName="reader")
        iam.put_user_policy(UserName="reader", PolicyName="all",
                            PolicyDocument=_EVERYTHING)
        self._iam = iam
        self.key, self.secret = self._new_key_of("reader")
        self._users = itertools.count()
        # From here on signatures are checked.
        self._post("reset-auth", b"0")
        self._iam = self._client("iam", self.key, self.secret)
        self.client = self._client("s3", self.key, self.secret)
        self.client.create_bucket(Bucket="logs")

    def new_key(self):
        """The key of another user, and its secret."""
        user = f"reader-{next(self._users)}"
        self._iam.create_user(UserName=user)
        self._iam.put_user_policy(UserName=user, PolicyName="all",
                                  PolicyDocument=_EVERYTHING)
        return self._new_key_of(user)

    def _new_key_of(self, user):
        made = self._iam.create_access_key(UserName=user)["AccessKey"]
        return made["AccessKeyId"], made["SecretAccessKey"]

    def put(self, path, data):
        self.client.put_object(Bucket="logs", Key=path, Body=data)

    def environment(self, port=None, key=None, secret=None):
        """Of a process that reads it."""
        return {"AWS_ACCESS_KEY_ID": key or self.key,
                "AWS_SECRET_ACCESS_KEY": secret or self.secret,
                **self.place(port)}

    def place(self, port=None):
        """The same without a key."""
        return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
                "AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": REGION}

    def close(self):
        self._server.stop()

    def _client(self, service, key, secret):
        return boto3.client(service, endpoint_url=self.endpoint, region_name=REGION,
                            aws_access_key_id=key, aws_secret_access_key=secret)

    def _post(self, action, data):
        urllib.request.urlopen(urllib.request.Request(
            f"{self.endpoint}/moto-api/{action}", data, {"Content-Type": "text/plain"},
            method="POST")).close()


class Network:
    """Between readers and a store: forwards requests, or fails.

    Attributes:
        requests: first lines of all that came.
        cut: cuts so many more connections in the middle of an object.
        stall: stops so many more there.
        expired: keys that are answered as expired, by the store's rules.
        on_expired: called when one is, with the key.
        on_request: called with each first line.
    """

    # Of a response, what still comes.
    CUT_AFTER = 20_000

    def __init__(self, store_port):
        self._store_port = store_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.requests = []
        self.cut = self.stall = 0
        self.expired = set()
        self.on_expired = self.on_request = lambda _: None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self):
        if self._closed.is_set():
            return
        self._closed.set()
        # Wakes accept().
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(30)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, client.makefile("rb") as file:
            try:
                while self._one(client, file):
                    pass
            except OSError:
                pass

    def _one(self, client, file):
        """A request without a body. False: the connection is over."""
        head = b""
        while (line := file.readline()) not in (b"\r\n", b""):
            head += line
        if not head:
            return False
        first = head.split(b"\r\n", 1)[0].decode()
        self.requests.append(first)
        self.on_request(first)
        key = re.search(rb"Credential=(\w+)/", head)
        if key is not None and key[1].decode() in self.expired:
            self.on_expired(key[1].decode())
            client.sendall(_expired(is_head=first.startswith("HEAD")))
            return True
        with socket.create_connection(("127.0.0.1", self._store_port)) as store:
            # One request a connection: its end is that of the response.
            head = re.sub(rb"(?im)^connection:.*\r\n", b"", head)
            store.sendall(head + b"Connection: close\r\n\r\n")
            sent = 0
            while data := store.recv(1 << 16):
                if sent + len(data) > self.CUT_AFTER and "GET" in first:
                    fault = self._fault()
                    if fault:
                        client.sendall(data[:max(0, self.CUT_AFTER - sent)])
                        if fault == "stall":
                            self._closed.wait(120)
                        client.shutdown(socket.SHUT_RDWR)
                        return False
                client.sendall(data)
                sent += len(data)
        return False

    def _fault(self):
        with self._lock:
            if self.cut:
                self.cut -= 1
                return "cut"
            if self.stall:
                self.stall -= 1
                return "stall"
        return None


def _expired(is_head):
    body = b"" if is_head else (
        b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>ExpiredToken</Code>'
        b"<Message>The provided token has expired.</Message></Error>")
    return (b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/xml\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body


class Gs:
    """Google's store with the bucket "logs": lists, tells of objects, and gives them.

    Attributes:
        objects: by name, what is in it.
        refused: answers that the key may do nothing.
    """

    def __init__(self):
        self.objects = {}
        self.refused = False
        self._changes = 0
        self._changed = {}
        self._http = _Http(self.serve)
        self.environment = {
            "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{self._http.port}"}

    def put(self, name, data):
        self._changes += 1
        self.objects[name] = data
        self._changed[name] = f"2026-11-29T00:00:{self._changes:02}Z"

    def close(self):
        self._http.close()

    def serve(self, request):
        url = urllib.parse.urlsplit(request.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        name = urllib.parse.unquote(
            url.path.partition("/storage/v1/b/logs/o")[2].lstrip("/"))
        if self.refused:
            _respond(request, 403, json.dumps({"error": {
                "code": 403, "message": "the caller does not have access"}}).encode())
        elif not name:
            _respond(request, 200, json.dumps({"items": [
                self._described(each) for each in sorted(self.objects)
                if each.startswith(query.get("prefix", ""))]}).encode())
        elif name not in self.objects:
            _respond(request, 404, b'{"error": {"code": 404, "message": "no such object"}}')
        elif query.get("alt") == "media":
            data = self.objects[name]
            first, last = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get(
                "Range", "bytes=0-")).groups()
            begin, end = int(first), int(last) + 1 if last else len(data)
            _respond(request, 206, data[begin:end], {
                "Content-Range": f"bytes {begin}-{min(end, len(data)) - 1}/{len(data)}"})
        else:
            _respond(request, 200, json.dumps(self._described(name)).encode())

    def _described(self, name):
        return {"name": name, "bucket": "logs", "generation": "7", "metageneration": "1",
                "size": str(len(self.objects[name])), "updated": self._changed[name],
                "timeCreated": self._changed[name], "id": f"logs/{name}/7"}


class WebHdfs:
    """A namenode and a datanode.

    Attributes:
        files: by path, what is in them.
        refused: the namenode says that the user may do nothing.
        fail: the datanode answers so many more requests with an error.
    """

    def __init__(self):
        self.files = {}
        self.refused = False
        self.fail = 0
        self._changes = 0
        self._changed = {}
        self._namenode = _Http(self._serve)
        self._datanode = _Http(self._serve_blocks)
        self.url = f"webhdfs://127.0.0.1:{self._namenode.port}"

    def put(self, path, data):
        self._changes += 1
        self.files[path] = data
        self._changed[path] = self._changes

    def close(self):
        self._namenode.close()
        self._datanode.close()

    def _serve(self, request):
        path, query = self._asked(request)
        below = path.rstrip("/") + "/"
        names = sorted({each[len(below):].split("/")[0] for each in self.files
                        if each.startswith(below)})
        if self.refused:
            self._raise(request, 403, "AccessControlException", "Permission denied")
        elif path not in self.files and not names:
            self._raise(request, 404, "FileNotFoundException", f"no {path}")
        elif query["op"] == "GETFILESTATUS":
            _respond(request, 200, json.dumps({
                "FileStatus": self._status(path, "")}).encode())
        elif query["op"] == "LISTSTATUS":
            _respond(request, 200, json.dumps({"FileStatuses": {"FileStatus": [
                self._status(below + name, name) for name in names]}}).encode())
        else:
            _respond(request, 307, b"", {
                "Location": f"http://127.0.0.1:{self._datanode.port}{request.path}"})

    def _serve_blocks(self, request):
        path, query = self._asked(request)
        if self.fail:
            self.fail -= 1
            self._raise(request, 500, "IOException", "no live block")
            return
        begin = int(query["offset"])
        _respond(request, 200, self.files[path][begin:begin + int(query["length"])])

    def _status(self, path, name):
        is_file = path in self.files
        return {"pathSuffix": name, "type": "FILE" if is_file else "DIRECTORY",
                "length": len(self.files[path]) if is_file else 0,
                "modificationTime": self._changed.get(path, 0)}

    @staticmethod
    def _asked(request):
        url = urllib.parse.urlsplit(request.path)
        return (urllib.parse.unquote(url.path.removeprefix("/webhdfs/v1")),
                dict(urllib.parse.parse_qsl(url.query)))

    @staticmethod
    def _raise(request, code, name, text):
        _respond(request, code, json.dumps({"RemoteException": {
            "exception": name, "message": text}}).encode())


class _Http:
    """Serves GET on a port until it is closed."""

    def __init__(self, serve):

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                serve(self)

            def log_message(self, format, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):

            def handle_error(self, request, client_address):
                """A reader that is done with a connection resets it."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)


def _respond(request, code, body, headers=()):
    request.send_response(code)
    request.send_header("Content-Type", "application/json")
    for name, value in dict(headers).items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)
