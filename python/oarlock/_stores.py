"""Where files lie: the disk, S3 and Google's store by pyarrow, others by fsspec.

Credentials are found by each store's own chain (environment, files, the machine), and by
nothing else: a URL with a key in it is refused.
"""

import importlib
import os
import re
import threading
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple, TypeVar

from oarlock import errors

_WANT_PYARROW = ("columnar files are read with pyarrow, which is not installed; install "
                 "it: pip install pyarrow")
# In a URL's query: what signs it, or is a key.
_SECRETS = re.compile(
    r"[?&](access_key|secret_key|session_token|x-amz-[a-z-]+|x-goog-[a-z-]+|awsaccesskeyid"
    r"|signature|sig|sas|token|access_token|password|secret|key)=", re.IGNORECASE)
# Of S3, as the SDK names them; and those that it does not know.
_S3_ERROR = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))?")
_S3_UNKNOWN = re.compile(r"ExceptionName: (\w+)")
_S3_REFUSALS = {
    "AccessDenied": 403, "AccountProblem": 403, "AllAccessDisabled": 403,
    "AuthFailure": 401, "AuthorizationHeaderMalformed": 400, "ExpiredToken": 400,
    "ExpiredTokenException": 400, "IncompleteSignature": 403, "InvalidAccessKeyId": 403,
    "InvalidClientTokenId": 403, "InvalidSecurity": 403, "InvalidSignature": 403,
    "InvalidToken": 400, "MissingAuthenticationToken": 403, "NotSignedUp": 403,
    "OptInRequired": 403, "RequestExpired": 403, "RequestTimeTooSkewed": 403,
    "SignatureDoesNotMatch": 403, "TokenRefreshRequired": 400, "UnrecognizedClient": 403,
    "UnrecognizedClientException": 403, "ValidationException": 403,
}
_GS_REFUSAL = re.compile(r"\b(PERMISSION_DENIED|UNAUTHENTICATED)\b")
# Curl notices that a transfer stands still only some seconds after its limit.
_S3_NOTICES_S = 7.0

_Result = TypeVar("_Result")


def pyarrow(module: str = "pyarrow") -> Any:
    """A module of pyarrow's."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise errors.FailedPreconditionError(_WANT_PYARROW) from None


def first_line(error: BaseException) -> str:
    """Of the text of an error."""
    return (str(error).splitlines() or [type(error).__name__])[0]


class Place(NamedTuple):
    """A path in a file system, and what stands before it in its URL."""

    filesystem: Any
    path: str
    prefix: str


class Stat(NamedTuple):
    """What tells a file from another one of the same name."""

    size: int
    mark: str


class Stores:
    """File systems, each made once. Thread-safe.

    Args:
        read_timeout_s: how long the reader may be silent; waits for a store are shorter.
    """

    def __init__(self, read_timeout_s: float = 60.0) -> None:
        self._read_timeout_s = read_timeout_s or 60.0
        self._lock = threading.Lock()
        # By scheme and bucket: the file system, and how often it was made.
        self._made: Dict[Tuple[str, str], Tuple[Any, int]] = {}

    def locate(self, url: str) -> Place:
        """Where that is. A path without a scheme is one of the disk."""
        if "://" not in url:
            return Place(self._filesystem("file", "", url)[0], os.path.abspath(url), "")
        scheme, bucket, inner = _split(url)
        if scheme == "file":
            return Place(self._filesystem("file", "", url)[0], "/" + inner, "file://")
        if scheme in ("s3", "gs"):
            return Place(self._filesystem(scheme, bucket, url)[0],
                         f"{bucket}/{inner}".rstrip("/"), f"{scheme}://")
        system = self._filesystem(scheme, bucket, url)[0]
        path = _fsspec(url).core.strip_protocol(url)
        if "://" in path:
            return Place(system, path, "")
        if bucket and f"/{inner}".startswith(path):
            # The host is no part of it, as in webhdfs://host:port/path; and a mark of a
            # pattern, "?", was taken for the begin of a query.
            return Place(system, f"/{inner}", f"{scheme}://{bucket}")
        return Place(system, path, f"{scheme}://")

    def call(self, url: str, action: Callable[[Place], _Result]) -> _Result:
        """action(where that is); a key that is refused is read anew, once."""
        before = self.version(url)
        try:
            return action(self.locate(url))
        except Exception as error:
            if not self.renew(url, error, before):
                raise
        try:
            return action(self.locate(url))
        except Exception as error:
            self.raise_refusal(url, error)
            raise

    def version(self, url: str) -> int:
        """How often the store's key was read."""
        if "://" not in url or url.startswith("file://"):
            return 0
        scheme, bucket, _ = _split(url)
        with self._lock:
            return self._made.get((scheme, bucket), (None, 0))[1]

    def renew(self, url: str, error: BaseException, version: int) -> bool:
        """Whether the error says that the store has refused the key; then reads it anew,
        where nobody has done so since `version`."""
        if "://" not in url or _refusal_of(url, error) is None:
            return False
        scheme, bucket, _ = _split(url)
        with self._lock:
            made = self._made.get((scheme, bucket))
            if made is None or made[1] <= max(version, 1):
                count = 1 if made is None else made[1]
                self._made[(scheme, bucket)] = (
                    self._make(scheme, bucket, url, anew=True), count + 1)
        return True

    def raise_refusal(self, url: str, error: BaseException) -> None:
        """Raises one line with the store, the bucket and the code where the error says
        that the store has refused the key."""
        if "://" not in url:
            return
        code = _refusal_of(url, error)
        if code is None:
            return
        scheme, bucket, _ = _split(url)
        if "No response body" in str(error):
            code = self._told_code(scheme, bucket) or code
        raise errors.UnauthenticatedError(
            f"{scheme}: bucket '{bucket}' refused the key ({code}); the key is found by "
            "the store's own chain: environment, files, the machine's role") from None

    def _told_code(self, scheme: str, bucket: str) -> Optional[str]:
        """The store's code: what asks for a file's size alone gets a number only."""
        try:
            system = self._filesystem(scheme, bucket, f"{scheme}://{bucket}")[0]
            system.get_file_info(pyarrow("pyarrow.fs").FileSelector(
                f"{bucket}/.oarlock", allow_not_found=True))
        except OSError as error:
            return _refusal_of(f"{scheme}://{bucket}", error)
        return None

    def _filesystem(self, scheme: str, bucket: str, url: str) -> Tuple[Any, int]:
        with self._lock:
            made = self._made.get((scheme, bucket))
            if made is None:
                made = self._made[(scheme, bucket)] = (
                    self._make(scheme, bucket, url, anew=False), 1)
            return made

    def _make(self, scheme: str, bucket: str, url: str, anew: bool) -> Any:
        fs = pyarrow("pyarrow.fs")
        if scheme in ("s3", "gs") and not hasattr(
                fs, "S3FileSystem" if scheme == "s3" else "GcsFileSystem"):
            raise errors.FailedPreconditionError(
                f"'{url}': this pyarrow has no {scheme}://; install the one of PyPI: pip "
                "install pyarrow")
        if scheme == "file":
            return fs.LocalFileSystem()
        if scheme == "s3":
            return self._make_s3(bucket)
        if scheme == "gs":
            return _make_gs()
        module = _fsspec(url)
        try:
            system, _ = module.core.url_to_fs(url, skip_instance_cache=anew)
        except ImportError as error:
            raise errors.FailedPreconditionError(
                f"'{url}': fsspec lacks a package for {scheme}://: "
                f"{first_line(error)}") from None
        except ValueError as error:
            raise errors.InvalidArgumentError(f"'{url}': {first_line(error)}") from None
        if scheme == "webhdfs":
            _check_datanodes(system)
        return fs.PyFileSystem(fs.FSSpecHandler(system))

    def _make_s3(self, bucket: str) -> Any:
        fs = pyarrow("pyarrow.fs")
        limit = self._read_timeout_s
        timeout = min(5.0, max(1.0, limit / 12))
        attempts = max(1, min(3, int((limit - 2) / (timeout + _S3_NOTICES_S))))
        options: Dict[str, Any] = {
            "request_timeout": timeout, "connect_timeout": timeout,
            "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=attempts)}
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get(
            "AWS_ENDPOINT_URL")
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if endpoint:
            options["scheme"], _, host = endpoint.rpartition("://")
            options["scheme"] = options["scheme"] or "https"
            options["endpoint_override"] = host.rstrip("/")
        elif not region:
            try:
                region = fs.resolve_s3_region(bucket)
            except OSError:
                pass  # As the SDK finds it.
        if region:
            options["region"] = region
        return fs.S3FileSystem(**options)


def _make_gs() -> Any:
    fs = pyarrow("pyarrow.fs")
    datetime = importlib.import_module("datetime")
    options: Dict[str, Any] = {"retry_time_limit": datetime.timedelta(seconds=15)}
    endpoint = os.environ.get("STORAGE_EMULATOR_HOST")
    if endpoint:
        scheme, _, host = endpoint.rpartition("://")
        options.update(scheme=scheme or "http", endpoint_override=host.rstrip("/"),
                       anonymous=True)
    return fs.GcsFileSystem(**options)


def _check_datanodes(system: Any) -> None:
    """Has what a datanode refuses raise: fsspec would take its text for the file's."""
    namenode = system.url.split("/", 3)[2]

    def check(response: Any, *_: Any, **__: Any) -> None:
        if response.url.split("/", 3)[2] != namenode:
            response.raise_for_status()

    system.session.hooks["response"].append(check)


def stat(place: Place, opened: Any = None) -> Stat:
    """Of the file at that place, whose handle may be open."""
    filesystem = place.filesystem
    if place.prefix == "s3://":
        handle = opened or filesystem.open_input_file(place.path)
        described = handle.metadata() or {}
        if described.get("ETag"):
            return Stat(handle.size(), described["ETag"].decode())
    elif hasattr(filesystem, "handler"):
        system = filesystem.handler.fs
        # Some of them keep what they have told once.
        system.invalidate_cache()
        info = system.info(place.path)
        for name in ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated",
                     "modificationTime", "created"):
            if info.get(name) not in (None, ""):
                return Stat(int(info["size"]), str(info[name]))
    info = filesystem.get_file_info(place.path)
    if info.type == pyarrow("pyarrow.fs").FileType.NotFound:
        raise errors.NotFoundError("is not there any more")
    return Stat(info.size or 0, str(info.mtime_ns))


def _split(url: str) -> Tuple[str, str, str]:
    """Scheme, bucket and the path in it."""
    scheme, rest = url.split("://", 1)
    scheme = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}.get(scheme, scheme)
    bucket, _, inner = rest.partition("/")
    if scheme != "file" and ("@" in bucket or _SECRETS.search(url)):
        if scheme in ("abfs", "abfss") and ":" not in bucket and not _SECRETS.search(url):
            return scheme, bucket, inner  # container@account.
        raise errors.InvalidArgumentError(
            f"a URL of {scheme}:// has a key or a password in it, which would stand in "
            "logs and lists of processes; leave it out: keys are found by the store's own "
            "chain (environment, files, the machine's role)")
    if scheme in ("s3", "gs") and (not bucket or any(mark in bucket for mark in "*?[")):
        raise errors.InvalidArgumentError(
            f"'{url}' has the bucket '{bucket}'; legal is {scheme}://bucket/path, with "
            "patterns in the path alone")
    return scheme, bucket, inner


def _refusal_of(url: str, error: BaseException) -> Optional[str]:
    """The store's code where it has refused the key."""
    scheme = _split(url)[0]
    text = str(error)
    if isinstance(error, errors.Error):
        return None
    if scheme == "s3":
        found = _S3_ERROR.search(text)
        if found is None:
            return None
        unknown = _S3_UNKNOWN.search(text)
        name = unknown[1] if unknown else "".join(
            word.capitalize() for word in found[1].split("_"))
        if name in _S3_REFUSALS:
            return f"{found[2] or _S3_REFUSALS[name]} {name}"
        if found[2] in ("401", "403"):
            return found[2]
        # Asked for the size alone, a store says no more of an expired key.
        return found[2] if found[2] == "400" and "No response body" in text else None
    if scheme == "gs":
        refused = _GS_REFUSAL.search(text)
        return refused[1] if refused else None
    return type(error).__name__ if isinstance(error, PermissionError) else None


def _fsspec(url: str) -> Any:
    try:
        module = importlib.import_module("fsspec")
        importlib.import_module("fsspec.core")
        return module
    except ImportError:
        raise errors.FailedPreconditionError(
            f"'{url}': stores of {url.split('://', 1)[0]}:// are read with fsspec, which "
            "is not installed; install it: pip install fsspec") from None
