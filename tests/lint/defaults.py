"""defaults: what a flag sets has its default in the flag's .proto option.

A field of an options struct that a flag fills is 0, false or empty until then,
or starts with the flag's own default. A field that is filled from such a field
is held to the same.
"""

import collections
import re

import tree as trees

_FLAG = re.compile(
    r"optional \w+ (\w+) = \d+ \[default = ([^,\]]+?)\s*,\s*\(flag\)")
_STRUCT = re.compile(r"\bstruct (\w+Options)\b[^;{]*\{(.*?)\n *\};", re.DOTALL)
_FIELD = re.compile(r"^\s+[\w:<>, ]+?[ >](\w+)(?: = ([^;]+)|\{([^;]*)\});", re.M)
# `options.lease = EXPRESSION;` and `.lease = EXPRESSION,` of a struct.
_FILLED = re.compile(r"\b(\w+)\.(\w+) = ([^;{}]+);")
_GETTER = re.compile(r"\b(?:config|flags|job)_?\.(\w+)\(\)")
# `RingOptions().timeout`: as another struct starts.
_ANOTHER = re.compile(r"(?:\w+::)*(\w+Options)(?:\(\)|\{\})\.(\w+)")
_UNITS = {"Nanoseconds": 1e-9, "Microseconds": 1e-6, "Milliseconds": 1e-3,
          "Seconds": 1, "Minutes": 60, "Hours": 3600}

Field = collections.namedtuple("Field", "path line initialiser")


def _number(text):
    """What a C++ or .proto literal is worth; None for what is none."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"^u?int\w*\{(.*)\}(.*)$", r"\1\2", text)
    unit = re.fullmatch(r"(?:absl::)?(\w+)\((.*)\)", text)
    if unit and unit.group(1) in _UNITS:
        value = _number(unit.group(2))
        return None if value is None else value * _UNITS[unit.group(1)]
    text = re.sub(r"(?<=\d)[uUlLfF]+\b", "", text.replace("'", ""))
    if re.fullmatch(r"[-+.\deE]+", text):
        return float(text)
    shifted = re.fullmatch(r"(\d+) << (\d+)", text)
    if shifted:
        return float(int(shifted.group(1)) << int(shifted.group(2)))
    return {"true": 1.0, "false": 0.0}.get(text)


def _value(text):
    number = _number(text)
    return text.strip().strip('"') if number is None else number


def _through(expression, getter, default):
    """What the expression makes of the flag's default."""
    if re.search(rf'{getter} == "([^"]*)"', expression):
        equal = re.search(rf'{getter} == "([^"]*)"', expression).group(1)
        return float(equal == default)
    if isinstance(default, str):
        return default
    shifted = re.search(r"<< (\d+)", expression)
    if shifted:
        return default * (1 << int(shifted.group(1)))
    unit = re.search(r"absl::(\w+)\(", expression)
    return default * _UNITS.get(unit.group(1), 1) if unit else default


def _starts_empty(initialiser):
    return initialiser in ("", "{}", "nullptr", '""', "absl::ZeroDuration()") \
        or _number(initialiser) == 0


def _fields(tree):
    """By struct and name; two structs of one name count as one."""
    fields = {}
    for path in trees.product(tree.ending(".h", ".cc")):
        text = tree.text(path)
        for struct in _STRUCT.finditer(text):
            for field in _FIELD.finditer(struct.group(2)):
                fields[struct.group(1), field.group(1)] = Field(
                    path,
                    trees.line_at(text, struct.start(2) + field.start(1)),
                    (field.group(2) or field.group(3) or "").strip())
    return fields


def _struct_of(text, offset, variable):
    """The options struct that the variable was declared as, above."""
    declared = None
    for match in re.finditer(
            rf"\b(\w+Options)\b[>&* ]+{re.escape(variable)}\b", text[:offset]):
        declared = match.group(1)
    return declared


def _filled(tree):
    """(struct, field, expression) of each statement that fills one."""
    for path in trees.product(tree.ending(".cc", ".h")):
        text = tree.text(path)
        for match in _FILLED.finditer(text):
            struct = _struct_of(text, match.start(), match.group(1))
            if struct is not None:
                yield path, text, match.start(), struct, match.group(2), \
                    match.group(3)


def check(tree):
    flags = collections.defaultdict(set)
    for path in tree.ending("_config.proto"):
        for name, default in _FLAG.findall(tree.text(path)):
            flags[name].add(_value(default))
    fields = _fields(tree)
    # What each field has once the flags have their defaults.
    wanted, copies = collections.defaultdict(set), []
    for path, text, offset, struct, field, expression in _filled(tree):
        getters = [name for name in _GETTER.findall(expression)
                   if name in flags]
        if len(getters) == 1:
            wanted[struct, field] |= {
                (getters[0], _through(expression, rf"{getters[0]}\(\)", value))
                for value in flags[getters[0]]}
        source = re.fullmatch(r"(\w+)\.(\w+)", expression)
        if source:
            copies.append((
                (struct, field),
                (_struct_of(text, offset, source.group(1)), source.group(2))))
    for target, source in copies:
        if source in wanted:
            wanted[target] |= wanted[source]
    findings = []
    for (struct, name), defaults in sorted(wanted.items()):
        field = fields.get((struct, name))
        another = field and _ANOTHER.fullmatch(field.initialiser)
        if another:
            field = fields.get(another.groups())
        if field is None or _starts_empty(field.initialiser):
            continue
        if _value(field.initialiser) not in {value for _, value in defaults}:
            flag = min(flag for flag, _ in defaults)
            findings.append(trees.Finding(
                field.path, field.line, "defaults",
                f"{struct}::{name} starts with {field.initialiser}, and "
                f"--{flag} fills it and has another default; take the "
                "initialiser away or write the flag's"))
    return findings, f"{len(wanted)} fields that flags fill"
