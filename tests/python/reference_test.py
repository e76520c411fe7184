"""docs/python_reference.md, and the docstrings that it is made of."""

import unittest

from oarlock_testing import ROOT, oarlock

# Found in ROOT/python, as the package is.
import docstrings
import reference

FIX = "run python3 python/reference.py --write"

# A module whose docstrings have all that they need.
WHOLE = '''
class _Base:
    """What they have in common.

    Attributes:
        id: a number.
    """

    def __init__(self, id):
        self.id = id
        self._hidden = 0

class Rows(_Base):
    """Rows of a table. Made by pull()."""

    def __init__(self, config):
        super().__init__(config)

    @property
    def values(self) -> "npt.NDArray[np.float32]":
        """[distinct, dim] float32."""

    def add(self, gradients: Any, *, scale: float = 1.0) -> None:
        """Adds gradients.

        Args:
            gradients: [distinct, dim].
            scale: what they are multiplied by.
        """

    def _internal(self, more):
        pass

@dataclasses.dataclass
class Optimizer:
    """Base of rules.

    Attributes:
        rate: more than 0.
    """

    rate: float

@dataclasses.dataclass
class Ftrl(Optimizer):
    """A rule.

    Attributes:
        beta: more than 0.
    """

    beta: Optional[float] = None

class Cluster:
    """Servers.

    Args:
        servers: how many.
        flags: further ones.
    """

    def __init__(self, servers: int = 1, **flags: Any) -> None:
        pass

def pull(keys: Any, /, dim: int, *, out: "Optional[Floats]" = None,
         **options: Any) -> Rows:
    """Pulls rows.

    Args:
        keys, dim: of the rows.
        out: where they go.
        options: further ones.

    Raises:
        KeyError: there are none.
    """
'''


def faults(package):
    """What is missing in docstrings of the public names, or wrong: one line each."""
    found = []
    for name in package.public:
        one = package.definitions[name]
        if isinstance(one, docstrings.Function):
            found += function_faults(name, one)
            continue
        found += class_faults(package, one)
        for each in package.family(one):
            for function in each.functions:
                found += function_faults(f"{name}.{function.name}", function)
    return found


def text_faults(name, doc):
    if not doc:
        return [f"{name} has no docstring; say in a sentence what it does or is"]
    found = []
    first = doc.splitlines()[0]
    if not first.endswith("."):
        found.append(f"the docstring of {name} begins with {first!r}; legal is a line "
                     "that ends with a full stop")
    found += [
        f"the docstring of {name} has a section '{section.title}'; legal are "
        f"{', '.join(docstrings.TITLES)}"
        for section in docstrings.parse_doc(doc).sections
        if section.title not in docstrings.TITLES]
    return found


def function_faults(name, function):
    found = text_faults(name, function.doc)
    named = docstrings.parse_doc(function.doc).names("Args")
    parameters = [each.name for each in function.parameters if each.name]
    found += [f"{name} has the parameter '{each}', which Args of its docstring does "
              "not name; say what it is" for each in parameters if each not in named]
    found += [f"Args of {name} names '{each}', which is no parameter of it; legal are "
              f"{', '.join(parameters) or 'none'}"
              for each in named if each not in parameters]
    return found


def class_faults(package, one):
    found = text_faults(one.name, one.doc)
    family = [*package.bases(one), one]
    named = [name for each in family
             for name in docstrings.parse_doc(each.doc).names("Args", "Attributes")]
    doc = docstrings.parse_doc(one.doc)
    parameters = [each.name for each in package.parameters(one) if each.name]
    attributes = {name for each in family for name in [
        *each.attributes, *(field.name for field in each.fields),
        *(function.name for function in each.functions if function.is_property)]}
    if not doc.is_made_by_others():
        found += [f"{one.name} has the parameter '{each}', which its docstring does "
                  "not name; say in Args or Attributes what it is, or who makes the "
                  "class: \"Made by ...\""
                  for each in parameters if each not in named]
    wanted = [name for each in package.family(one) for name in each.attributes]
    found += [f"{one.name} has the attribute '{each}', which its docstring does not "
              "name; say in Attributes what it is"
              for each in wanted if each not in named]
    found += [f"the docstring of {one.name} names '{each}', which is neither a "
              "parameter nor an attribute of it"
              for title, legal in (("Args", parameters), ("Attributes", attributes))
              for each in doc.names(title) if each not in legal]
    return found


class ReferenceTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.package = docstrings.read_package()

    def test_the_page_is_made_of_the_sources(self):
        made = reference.make(self.package)
        page = (ROOT / "docs/python_reference.md").read_text(encoding="utf-8")
        for number, (has, wanted) in enumerate(
                zip(page.splitlines(), made.splitlines()), 1):
            self.assertEqual(has, wanted, f"line {number}; {FIX}")
        self.assertEqual(page, made, FIX)

    def test_the_page_has_all_public_names(self):
        self.assertEqual(self.package.public,
                         sorted([*oarlock.__all__, "keep_memory", "program"]))

    def test_a_name_in_no_group_is_an_error(self):
        package = docstrings.Package(
            {}, sorted([*self.package.public, "Novelty"]), {})
        with self.assertRaisesRegex(ValueError, "but not both: Novelty; correct"):
            reference.make(package)

    def test_docstrings_have_all_that_they_need(self):
        self.assertEqual(faults(self.package), [])


class FaultsTest(unittest.TestCase):
    """What test_docstrings_have_all_that_they_need finds."""

    def assert_faults(self, old, new, *wanted):
        self.assertIn(old, WHOLE)
        found = faults(docstrings.read(WHOLE.replace(old, new)))
        self.assertEqual(len(found), len(wanted), found)
        for fault, each in zip(found, wanted):
            self.assertIn(each, fault)

    def test_a_whole_module_has_none(self):
        self.assertEqual(faults(docstrings.read(WHOLE)), [])

    def test_a_parameter_that_is_not_named(self):
        self.assert_faults(
            "            scale: what they are multiplied by.\n", "",
            "Rows.add has the parameter 'scale', which Args of its docstring does not")
        self.assert_faults("        options: further ones.\n", "",
                           "pull has the parameter 'options'")
        self.assert_faults("        keys, dim: of the rows.\n", "        dim: 1.\n",
                           "pull has the parameter 'keys'")

    def test_a_parameter_that_is_not_there(self):
        self.assert_faults(
            "            scale: what", "            factor: what",
            "Rows.add has the parameter 'scale'",
            "Args of Rows.add names 'factor', which is no parameter of it; legal are "
            "gradients, scale")

    def test_a_class_that_a_program_calls(self):
        self.assert_faults("        flags: further ones.\n", "",
                           "Cluster has the parameter 'flags'")
        self.assert_faults(" Made by pull().", "", "Rows has the parameter 'config'")
        self.assert_faults("        rate: more than 0.\n", "        none.\n",
                           "Optimizer has the parameter 'rate'",
                           "Ftrl has the parameter 'rate'")

    def test_attributes(self):
        self.assert_faults("self._hidden", "self.hidden",
                           "Rows has the attribute 'hidden'")
        self.assert_faults("        beta: more", "        beta, gamma: more",
                           "the docstring of Ftrl names 'gamma'")

    def test_a_docstring_that_is_not_there(self):
        self.assert_faults('"""[distinct, dim] float32."""', "pass",
                           "Rows.values has no docstring")

    def test_a_first_line_that_is_no_sentence(self):
        self.assert_faults(
            '"""Pulls rows.', '"""Pulls rows',
            "the docstring of pull begins with 'Pulls rows'; legal is a line that ends")

    def test_a_section_that_the_page_does_not_have(self):
        self.assert_faults("    Raises:\n", "    Throws:\n",
                           "the docstring of pull has a section 'Throws'; legal are "
                           "Args, Attributes, Returns, Raises")


class SignaturesTest(unittest.TestCase):

    def text_of(self, source):
        package = docstrings.read(source)
        one = package.definitions[package.public[0]]
        return ", ".join(each.text for each in one.parameters), one.returns

    def test_they_are_cut_from_the_source(self):
        self.assertEqual(
            self.text_of("def f(a, /, b: int=0x10, *rest: 'List[tables.Rows]',\n"
                         "      c: Dict[\n          str, Any], d=(1,\n  2), **options):"
                         " pass"),
            ("a, /, b: int = 0x10, *rest: List[Rows], c: Dict[str, Any], d=(1, 2), "
             "**options", ""))
        self.assertEqual(
            self.text_of('async def f(*, a="async") -> "_operation.Future[None]": 0'),
            ('*, a="async"', "Future[None]"))

    def test_modules_of_others_stay(self):
        self.assertEqual(self.text_of("def f(a: 'npt.NDArray[np.float32]'): 0")[0],
                         "a: npt.NDArray[np.float32]")


if __name__ == "__main__":
    unittest.main()
