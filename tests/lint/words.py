"""words: a word that was replaced does not come back.

words.txt has the words, the table of docs/glossary.md what replaced them. Both
are read by the same rules, which stand at the top of words.txt.
"""

import bisect
import functools
import re

import tree as trees

LIST = "tests/lint/words.txt"
GLOSSARY = "docs/glossary.md"
HEADING = "## Renames"
COLUMNS = "| old | new | places | files |"
UNCHECKED = "(not checked)"
# Notes of a day, what translates old words, texts of others, data. lint_test.py
# plants old words; tests/cases is renamed last.
_UNREAD = re.compile(
    r"docs/design/|docs/glossary\.md$|tests/lint/(?:words\.txt|lint_test\.py)$"
    r"|LICENSE$|proto/vendored/|tests/fuzz/(?:[^/]+/)*corpus/"
    r"|tests/golden/(?:format_|wire_v)|tests/cases/")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# What may lie between two words in a row: nothing (a change of case), a mark of
# a name, blanks, a new line of a comment or of a string.
_GAP = re.compile(
    r"[_/.-]?|::|->|[ \t]+|[ \t]*\n[ \t]*(?://+|#+|\*|>)?[ \t]*"
    r"|[ \t]*\"[ \t]*\n[ \t]*[a-zA-Z]{0,2}\"[ \t]*")


@functools.lru_cache(maxsize=None)
def _singular(word):
    word = word.lower()
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    # Of "passes" and "caches" an e is left, which "cache" has as well.
    return word[:-1] if word.endswith(("sse", "she", "che", "xe", "ze")) else (
        word)


def cut(text):
    """The words of a text, in lower case and without plural s."""
    return tuple(map(_singular, _WORD.findall(text)))


def _vocabulary(text):
    """The words of a text, each once."""
    return set(map(_singular, set(_WORD.findall(text))))


def _within(short, long):
    return any(long[i:i + len(short)] == short
               for i in range(len(long) - len(short) + 1))


def matches(pattern, path):
    return _regex(pattern).fullmatch(path) is not None


@functools.lru_cache(maxsize=None)
def _regex(pattern):
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(
        parts.get(part, re.escape(part))
        for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern)))


class _Entry:
    """A word of LIST, with all its lines."""

    def __init__(self, text, line):
        self.text = text
        self.line = line
        self.new = None
        self.patterns = {}  # pattern -> its line

    def right_in(self, path):
        """The patterns by which the word is right in a file."""
        return [one for one in self.patterns if matches(one, path)]

    def advice(self):
        if self.new:
            return f"'{self.text}'; say '{self.new}', see {GLOSSARY}"
        return (f"'{self.text}' is not right in this file; say the word that "
                f"{GLOSSARY} has")


def _entries(tree):
    """Words -> _Entry, and findings about lines of LIST."""
    entries, findings = {}, []
    for number, line in enumerate(
            tree.text(LIST).splitlines() if tree.has(LIST) else (), 1):
        if not line.strip() or line.startswith("#"):
            continue

        def find(text, number=number):
            findings.append(trees.Finding(LIST, number, "words", text))

        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 3 or not all(fields) or not cut(fields[0]):
            find(f"{line!r}; legal is: old word | path pattern, or - | reason, "
                 "with - the new word")
            continue
        text, pattern, reason = fields
        entry = entries.setdefault(cut(text), _Entry(text, number))
        if entry.new or pattern in entry.patterns or (
                pattern == "-" and entry.patterns):
            find(f"'{text}' has line {entry.line} already; a word has one line "
                 "with -, or one for each pattern")
        elif pattern == "-":
            entry.new = reason
        else:
            entry.patterns[pattern] = number
    return entries, findings


def _renames(tree):
    """The old words of GLOSSARY's table as (text, line), and findings."""
    if not tree.has(GLOSSARY):
        return [], []
    lines = tree.text(GLOSSARY).splitlines()

    def finding(number, text):
        return trees.Finding(GLOSSARY, number, "words", text)

    if COLUMNS not in lines or HEADING not in lines[:lines.index(COLUMNS)]:
        return [], [finding(len(lines), f"no table of renames; write the "
                            f"heading {HEADING!r} and the line {COLUMNS!r}")]
    old, findings = [], []
    start = lines.index(COLUMNS) + 2
    for number, line in enumerate(lines[start:], start + 1):
        if not line.startswith("|"):
            break
        cells = line.strip("| ").split("|")
        words = re.findall(r"`([^`]+)`", cells[0])
        if len(cells) != COLUMNS.count("|") - 1 or not words:
            findings.append(finding(
                number, f"a row that is not {COLUMNS}; write the old words in "
                "backticks, with commas between"))
        checked = cells[0].partition(UNCHECKED)[0]
        old += [(word, number) for word in re.findall(r"`([^`]+)`", checked)]
    return old, findings


def _places(text, starts):
    """(entry's words, offset) of each entry of `starts` in a text."""
    tokens = list(_WORD.finditer(text))
    words = [_singular(token.group()) for token in tokens]
    for i, word in enumerate(words):
        for wanted in starts.get(word, ()):
            end = i + len(wanted)
            if tuple(words[i:end]) == wanted and all(
                    _GAP.fullmatch(text, tokens[j].end(), tokens[j + 1].start())
                    for j in range(i, end - 1)):
                yield wanted, tokens[i].start()


def _text(tree, path):
    """What a file says; nothing where it is no text."""
    try:
        text = tree.text(path)
    except UnicodeDecodeError:
        return ""
    return "" if "\0" in text else text


def check(tree):
    entries, findings = _entries(tree)
    used, starts = set(), {}
    for words in entries:
        starts.setdefault(words[0], []).append(words)
    paths = [path for path in tree.paths if not _UNREAD.match(path)]

    def judge(path, line, words):
        entry = entries[words]
        right = entry.right_in(path)
        used.update((words, pattern) for pattern in right)
        if not right:
            found[path, line, words] = trees.Finding(
                path, line, "words", entry.advice())

    found = {}  # One for each line and word.
    for path in paths if entries else ():
        for words, _ in _places(path, starts):
            judge(path, 1, words)
        text = _text(tree, path)
        # Most files have none of the words, and are not looked at closer.
        if starts.keys().isdisjoint(_vocabulary(text)):
            continue
        ends = [match.start() for match in re.finditer("\n", text)]
        for words, offset in _places(text, starts):
            judge(path, bisect.bisect_left(ends, offset) + 1, words)
    findings += found.values()
    for words, entry in entries.items():
        for pattern, line in entry.patterns.items():
            if (words, pattern) not in used:
                findings.append(trees.Finding(
                    LIST, line, "words", f"'{entry.text}' is in no file of "
                    f"{pattern}; take the line out, or mend the pattern"))
    old, faults = _renames(tree)
    findings += faults
    for text, line in old:
        if not any(_within(words, cut(text)) for words in entries):
            findings.append(trees.Finding(
                GLOSSARY, line, "words", f"'{text}' has no entry in {LIST}; "
                f"write one, or {UNCHECKED} before the word"))
    for words, entry in entries.items():
        if not any(_within(words, cut(text)) for text, _ in old):
            findings.append(trees.Finding(
                LIST, entry.line, "words", f"'{entry.text}' is in no row of "
                f"{GLOSSARY}; write its row, or take the entry out"))
    return findings, f"{len(entries)} words, {len(paths)} files"
