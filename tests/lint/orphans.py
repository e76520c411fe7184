"""orphans: each source belongs to a target, and to one library alone.

BUILD files are Python enough to be run with functions that write down what
they are called with; so lists, globs and loops have their real values.
"""

import ast
import fnmatch
import itertools
import posixpath

import tree as trees

_WANTED = (".cc", ".h", ".cu", ".cuh", ".proto")
_OWNING = ("srcs", "hdrs")


def _strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, (list, tuple, set)):
        for one in value:
            yield from _strings(one)


class _Package:
    """One BUILD file: what its calls name."""

    def __init__(self, tree, path):
        self.folder = posixpath.dirname(path)
        self.calls = []  # (rule, line, arguments)
        self._tree = tree
        self._inside = [
            posixpath.relpath(one, self.folder or ".") for one in tree.paths
            if not self.folder or one.startswith(self.folder + "/")]
        parsed = ast.parse(tree.text(path), path)
        code = compile(parsed, path, "exec")
        names = {node.id for node in ast.walk(parsed)
                 if isinstance(node, ast.Name)}
        loaded = {arg.value for node in ast.walk(parsed)
                  if isinstance(node, ast.Call)
                  and isinstance(node.func, ast.Name) and node.func.id == "load"
                  for arg in node.args[1:] if isinstance(arg, ast.Constant)}
        # Constants of .bzl files, such as CUDA, have every value.
        constants = sorted(name for name in loaded & names if name.isupper())
        for values in itertools.product((True, False), repeat=len(constants)):
            scope = {name: self._recorder(name) for name in names}
            scope.update(zip(constants, values))
            scope.update({"True": True, "False": False, "glob": self._glob,
                          "select": self._select, "len": len, "range": range})
            exec(code, scope)

    def _recorder(self, rule):
        def record(*args, **kwargs):
            kwargs.setdefault("name", "")
            self.calls.append((rule, kwargs, args))
            return []
        return record

    def _select(self, choices, **_):
        return [one for value in choices.values() for one in _strings(value)]

    def _glob(self, include, exclude=(), **_):
        return [path for path in self._inside
                if any(self._matches(path, one) for one in include)
                and not any(self._matches(path, one) for one in exclude)]

    @staticmethod
    def _matches(path, pattern):
        if "**" not in pattern and path.count("/") != pattern.count("/"):
            return False
        return fnmatch.fnmatch(path, pattern.replace("**/", "*"))

    def file_of(self, label):
        """The path that a label would be, were it a file's."""
        if label.startswith("//"):
            return label[2:].replace(":", "/").lstrip("/")
        return posixpath.join(self.folder, label.lstrip(":"))


def check(tree):
    used, owners, findings = set(), {}, []
    for path in tree.paths:
        if posixpath.basename(path) not in ("BUILD", "BUILD.bazel"):
            continue
        try:
            package = _Package(tree, path)
        except Exception as error:  # Whatever a BUILD file's code may raise.
            raise trees.LintError(f"{path} cannot be read: {error}") from error
        for rule, kwargs, args in package.calls:
            used.update(package.file_of(label)
                        for label in _strings([kwargs, args]))
            if not rule.endswith("library"):
                continue
            for key in _OWNING:
                for label in _strings(kwargs.get(key, [])):
                    owners.setdefault(package.file_of(label), {})[
                        f"//{package.folder}:{kwargs['name']}"] = None
    wanted = tree.ending(*_WANTED)
    for path in wanted:
        if path not in used:
            findings.append(trees.Finding(
                path, 1, "orphans", "no BUILD target uses it; name it in one, "
                "or take the file out"))
        elif len(owners.get(path, ())) > 1:
            findings.append(trees.Finding(
                path, 1, "orphans",
                f"in the libraries {' and '.join(owners[path])}; one may have "
                "it in srcs or hdrs, others depend on that"))
    return findings, f"{len(wanted)} files"
