"""links: relative links of documents lead to a file and a heading."""

import os
import re
import urllib.parse

import tree as trees

_LINK = re.compile(r"\]\(\s*<?([^()\s<>]+(?:\([^()\s]*\))?)>?"
                   r"(?:\s+\"[^\"]*\")?\s*\)"
                   r"|^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?\s*$", re.MULTILINE)
_FENCE = re.compile(r"^ *(```+|~~~+).*?^ *\1[ \t]*$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//")


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def anchors(text):
    """What #... may name in a document: headings, as GitHub names them."""
    text = _FENCE.sub(_blank, text)
    found, seen = set(), {}
    for heading in _HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        found.add(f"{slug}-{count}" if count else slug)
    found.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    return found


def _fault(tree, path, target):
    """What is wrong with a link, or None."""
    file, _, anchor = urllib.parse.unquote(target).partition("#")
    if file.startswith("/"):
        return f"{target} is absolute; write it relative to {path}"
    other = path
    if file:
        other = os.path.normpath(os.path.join(os.path.dirname(path), file))
    if other.startswith("..") or not (tree.root / other).exists():
        return f"{target} leads to no file; legal is a path from this document"
    if anchor and other.endswith(".md") and (
            anchor not in anchors(tree.text(other))):
        return f"{target}: {other} has no heading #{anchor}; name one it has"
    return None


def check(tree):
    findings, links = [], 0
    for path in tree.ending(".md"):
        text = _CODE.sub(_blank, _FENCE.sub(_blank, tree.text(path)))
        for match in _LINK.finditer(text):
            target = match.group(1) or match.group(2)
            if _ELSEWHERE.match(target):
                continue
            links += 1
            fault = _fault(tree, path, target)
            if fault:
                findings.append(trees.Finding(
                    path, trees.line_at(text, match.start()), "links", fault))
    return findings, f"{links} links"
