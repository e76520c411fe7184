"""Command lines of the bench: what is wrong with one is said in a line."""

import argparse
import json
import sys


class Parser(argparse.ArgumentParser):
    """Ends with exit code 2 and one line on stderr."""

    def error(self, message):
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(2)


def at_least(least):
    """The type of a whole number."""
    def number(text):
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number of at least {least}")
        return value
    return number


def json_of(parser, flag, path):
    """What a file says that the flag names."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        return parser.error(f"{flag} {path!r} is no readable JSON: {error}")


def ratio(text):
    """The type of a bound."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 100:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number above 0 and below 100")
    return value
