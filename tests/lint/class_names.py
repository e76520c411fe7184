"""names: no two classes of one qualified name in different files.

Two such classes in one program break the one definition rule, and the linker
says nothing. Tests and benches are programs apart and are left out, as are
classes in nameless namespaces and in functions.
"""

import re

import tree as trees

_TOKEN = re.compile(r'[A-Za-z_]\w*|::|""|\n|[^\s\w]')
_KEYS = ("class", "struct", "union", "enum")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.MULTILINE)


def _tokens(text):
    """(token, line) of C++ text."""
    code = _DIRECTIVE.sub(lambda match: "\n" * match.group().count("\n"),
                          trees.code_of(text))
    line = 1
    for match in _TOKEN.finditer(code):
        if match.group() == "\n":
            line += 1
        else:
            yield match.group(), line


def _skip(tokens, i, opening, closing):
    """The index after what tokens[i], an opening bracket, opens."""
    depth = 0
    while i < len(tokens):
        depth += (tokens[i][0] == opening) - (tokens[i][0] == closing)
        i += 1
        if depth == 0:
            break
    return i


def _class_head(tokens, i):
    """Of a class whose name may begin at i: (its name, index of its "{").

    None where no body follows: a declaration, or a parameter of a template.
    """
    name = ""
    while i < len(tokens):
        token = tokens[i][0]
        if token in ("[", "("):
            i = _skip(tokens, i, token, {"[": "]", "(": ")"}[token])
            continue
        if token == "<":
            end = _skip(tokens, i, "<", ">")
            name += "".join(word for word, _ in tokens[i:end])
            i = end
            continue
        if token == "{":
            return name, i
        if token == ":":
            while i < len(tokens) and tokens[i][0] not in ("{", ";"):
                i += 1
            return (name, i) if tokens[i:i + 1] and tokens[i][0] == "{" else (
                None)
        if token == "::":
            name += token
        elif re.match(r"[A-Za-z_]", token):
            if token not in ("final", "class", "struct", "alignas"):
                name = name + token if name.endswith("::") else token
        else:
            return None
        i += 1
    return None


def _namespace_head(tokens, i):
    """(name, index of "{") of a namespace; None of an alias."""
    name = ""
    while i < len(tokens) and tokens[i][0] not in ("{", ";", "="):
        if tokens[i][0] != "inline":
            name += tokens[i][0]
        i += 1
    return (name, i) if tokens[i:i + 1] and tokens[i][0] == "{" else None


def definitions(text):
    """(qualified name, line) of every class that other files could name."""
    tokens = list(_tokens(text))
    found, scopes, i = [], [], 0
    while i < len(tokens):
        token, line = tokens[i]
        head = None
        if token == "template" and tokens[i + 1:i + 2] and (
                tokens[i + 1][0] == "<"):
            i = _skip(tokens, i + 1, "<", ">")
            continue
        if token == "namespace" and (i == 0 or tokens[i - 1][0] != "using"):
            head = _namespace_head(tokens, i + 1)
            if head:
                scopes.append(head[0] or None)
        elif token in _KEYS:
            head = _class_head(tokens, i + 1)
            if head:
                name = head[0]
                if name and None not in scopes:
                    found.append(("::".join(scopes + [name]), line))
                scopes.append(name or None)
        if head:
            i = head[1] + 1
            continue
        if token == "{":
            linkage = [word for word, _ in tokens[max(i - 2, 0):i]]
            # None: a function's body, an initializer: nothing to be named.
            scopes.append("" if linkage == ["extern", '""'] else None)
        elif token == "}" and scopes:
            scopes.pop()
        i += 1
    return [(re.sub("^::|(?<=::)::", "", name), line) for name, line in found]


def check(tree):
    first, findings, count = {}, [], 0
    for path in trees.product(tree.ending(*trees.SOURCES)):
        for name, line in definitions(tree.text(path)):
            count += 1
            other = first.setdefault(name, (path, line))
            if other[0] != path:
                findings.append(trees.Finding(
                    path, line, "names",
                    f"a second {name}, the first is in {other[0]}:{other[1]}; "
                    "rename one, or put it into a nameless namespace"))
    return findings, f"{count} classes"
