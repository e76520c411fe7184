"""What the sources of python/oarlock say of its names: signatures and docstrings.

Nothing is imported, and types and defaults are cut from the text, so that every version
of Python finds the same.
"""

import ast
import inspect
import pathlib
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

FOLDER = pathlib.Path(__file__).absolute().parent / "oarlock"
# Sections of a docstring, in the order of the page.
TITLES = ("Args", "Attributes", "Returns", "Raises")


class Section(NamedTuple):
    """Its items as (names, text). What has no names is text alone."""

    title: str
    items: List[Tuple[List[str], str]]


class Doc(NamedTuple):
    """A docstring: paragraphs, then sections."""

    paragraphs: List[str]
    sections: List[Section]

    def names(self, *titles: str) -> List[str]:
        """What the sections of these titles name."""
        return [name for section in self.sections if section.title in titles
                for names, _ in section.items for name in names]

    def is_made_by_others(self) -> bool:
        """Whether no program calls the class: it says "Made by ..."."""
        return any(re.search(r"(^|\. )Made by ", " ".join(each.split()))
                   for each in self.paragraphs)


_ITEM = re.compile(r"(\w+(?:, \w+)*): +(.*)")


def parse_doc(text: Optional[str]) -> Doc:
    """Splits a docstring; a line of one word and a colon begins a section."""
    blocks = re.split(r"^([A-Z]\w+):$", inspect.cleandoc(text or ""), flags=re.M)
    paragraphs = [each.rstrip() for each in re.split(r"\n\s*\n", blocks[0])]
    sections = [Section(title, list(_items(title, inspect.cleandoc(body))))
                for title, body in zip(blocks[1::2], blocks[2::2])]
    return Doc([each for each in paragraphs if each], sections)


def _items(title: str, body: str) -> Iterator[Tuple[List[str], str]]:
    if title == "Returns":
        yield [], " ".join(body.split())
        return
    for item in re.split(r"\n(?=\S)", body):
        text = " ".join(item.split())
        named = _ITEM.match(text)
        yield (named[1].split(", "), named[2]) if named else ([], text)


class Parameter(NamedTuple):
    """A parameter, or a mark between two, whose name is empty."""

    name: str
    text: str


class Function(NamedTuple):
    """A function, a method without self, or a property."""

    name: str
    parameters: List[Parameter]
    returns: str
    doc: str
    is_property: bool
    is_async: bool

    def is_shown(self) -> bool:
        """Public ones, and of Python's own, as __len__, those with a docstring."""
        if self.name.startswith("__"):
            return self.name != "__init__" and bool(self.doc)
        return not self.name.startswith("_")


class Class(NamedTuple):
    """A class.

    Attributes:
        fields: of a dataclass.
        parameters: of __init__; empty where it has none of its own.
        functions: those that are shown.
        attributes: public ones that __init__ sets.
        aliases: [(name, method), ...].
    """

    name: str
    bases: List[str]
    doc: str
    fields: List[Parameter]
    parameters: List[Parameter]
    functions: List[Function]
    attributes: List[str]
    aliases: List[Tuple[str, str]]


Definition = Union[Function, Class]


class Package:
    """Definitions by name, the public names, and other names in signatures."""

    def __init__(self, definitions: Dict[str, Definition], public: List[str],
                 types: Dict[str, str]) -> None:
        self.definitions = definitions
        self.public = public
        self.types = types

    def bases(self, one: Class) -> List[Class]:
        """Those of the package, the farthest first."""
        found: List[Class] = []
        for name in one.bases:
            base = self.definitions.get(name)
            if isinstance(base, Class):
                found += [*self.bases(base), base]
        return found

    def family(self, one: Class) -> List[Class]:
        """The class after its private bases, whose members are its own to a user."""
        return [each for each in self.bases(one) if each.name.startswith("_")] + [one]

    def parameters(self, one: Class) -> List[Parameter]:
        """What a call of the class takes: a dataclass the fields of its bases, too."""
        fields = [field for each in [*self.bases(one), one] for field in each.fields]
        return fields or one.parameters


class _Reader:
    """Reads the text of one module."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.tree = ast.parse(source)

    def definitions(self) -> Dict[str, Definition]:
        """Functions and classes of the module."""
        found: Dict[str, Definition] = {
            each.name: each for each in self._functions(self.tree.body, False)}
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = self._class(node)
        return found

    def types(self) -> Dict[str, str]:
        """Names that stand for types, such as Initial, and what for."""
        return {node.targets[0].id: self._type(node.value)
                for node in ast.walk(self.tree)
                if isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and isinstance(node.value, ast.Subscript)
                and re.fullmatch("[A-Z][a-z]+", node.targets[0].id)}

    def _text(self, node: ast.AST) -> str:
        """As it is written, on one line."""
        text = ast.get_source_segment(self._source, node) or ""
        return re.sub(r"(?<=[\[({]) ", "", re.sub(r"\s*\n\s*", " ", text))

    def _type(self, node: ast.AST) -> str:
        """The same without quotes and the package's modules."""
        text = (node.value if isinstance(node, ast.Constant)
                and isinstance(node.value, str) else self._text(node))
        return re.sub(r"\b[a-z_]+\.(?=[A-Z]\w+\b)", self._without_module, text)

    @staticmethod
    def _without_module(match: "re.Match[str]") -> str:
        is_ours = (FOLDER / f"{match[0][:-1]}.py").exists()
        return "" if is_ours else match[0]

    def _parameter(self, name: str, annotation: Optional[ast.AST],
                   default: Optional[ast.AST]) -> Parameter:
        text = name
        if annotation is not None:
            text += f": {self._type(annotation)}"
        if default is not None:
            text += f"{' = ' if annotation else '='}{self._text(default)}"
        return Parameter(name.lstrip("*"), text)

    def _parameters(self, of: ast.arguments) -> Iterator[Parameter]:
        named = of.posonlyargs + of.args
        defaults: List[Optional[ast.expr]] = [None] * (len(named) - len(of.defaults))
        defaults += of.defaults
        for index, (each, default) in enumerate(zip(named, defaults), 1):
            yield self._parameter(each.arg, each.annotation, default)
            if index == len(of.posonlyargs):
                yield Parameter("", "/")
        if of.vararg:
            yield self._parameter("*" + of.vararg.arg, of.vararg.annotation, None)
        elif of.kwonlyargs:
            yield Parameter("", "*")
        for each, default in zip(of.kwonlyargs, of.kw_defaults):
            yield self._parameter(each.arg, each.annotation, default)
        if of.kwarg:
            yield self._parameter("**" + of.kwarg.arg, of.kwarg.annotation, None)

    def _functions(self, body: List[ast.stmt], in_class: bool) -> Iterator[Function]:
        for node in body:
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            decorators = [self._text(each) for each in node.decorator_list]
            # Of a property what reads it, of overloads the one that is run.
            if any(re.search(r"\.setter$|\.deleter$|\boverload$", each)
                   for each in decorators):
                continue
            parameters = list(self._parameters(node.args))
            if in_class and "staticmethod" not in decorators:
                del parameters[0]
            yield Function(
                node.name, parameters, self._type(node.returns) if node.returns else "",
                ast.get_docstring(node) or "", "property" in decorators,
                isinstance(node, ast.AsyncFunctionDef))

    def _class(self, node: ast.ClassDef) -> Class:
        functions = list(self._functions(node.body, True))
        parameters = [each for function in functions if function.name == "__init__"
                      for each in function.parameters]
        fields, attributes, aliases = [], set(), []
        for each in node.body:
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                fields.append(
                    self._parameter(each.target.id, each.annotation, each.value))
            elif isinstance(each, ast.Assign) and isinstance(each.value, ast.Name):
                aliases += [(target.id, each.value.id) for target in each.targets
                            if isinstance(target, ast.Name)]
            elif isinstance(each, ast.FunctionDef) and each.name == "__init__":
                attributes = {
                    one.attr for one in ast.walk(each)
                    if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
                    and isinstance(one.value, ast.Name) and one.value.id == "self"}
        return Class(
            node.name, [self._type(each) for each in node.bases],
            ast.get_docstring(node) or "", fields, parameters,
            [each for each in functions if each.is_shown()],
            sorted(each for each in attributes if not each.startswith("_")), aliases)


def read(*sources: str) -> Package:
    """The package of some modules' texts, where all but _names is public."""
    definitions: Dict[str, Definition] = {}
    types: Dict[str, str] = {}
    for source in sources:
        reader = _Reader(source)
        definitions.update(reader.definitions())
        types.update(reader.types())
    public = [name for name in definitions if not name.startswith("_")]
    return Package(definitions, public, types)


def read_package(folder: pathlib.Path = FOLDER) -> Package:
    """The package in a folder.

    Public is what its __init__.py imports for whoever reads types, as in
    `from oarlock.job import Job as Job`, and its own functions.
    """
    init = (folder / "__init__.py").read_text(encoding="utf-8")
    public = read(init).public
    modules = []
    for node in ast.walk(ast.parse(init)):
        if isinstance(node, ast.ImportFrom) and (
                (node.module or "").startswith("oarlock.")):
            modules.append((node.module or "").split(".")[1])
            public += [each.asname for each in node.names if each.asname]
    package = read(init, *((folder / f"{module}.py").read_text(encoding="utf-8")
                           for module in modules))
    return Package(package.definitions, sorted(public), package.types)
