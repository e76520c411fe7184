"""One fault is planted for each check, and its line is expected, no other."""

import os
import sys
import time
import unittest

import class_names
import clang
import lint
import tree
import words
from lint_testing import PlantedCase

NOW = "namespace {\nauto now = absl::Now();\n}\n"


class FormatTest(PlantedCase):

    def test_a_source_that_clang_format_would_change_is_found(self):
        self.expect_clean("format")
        self.change("pserver/counter.cc", "  ++count_;", "   ++count_ ;")
        program = clang.find("clang-format", "tests/packages.txt")
        self.expect_one(
            "format", "pserver/counter.cc:6: format: not as clang-format 14 "
            f"writes it; run {program} -i pserver/counter.cc")


class ThreadSafetyTest(PlantedCase):

    def test_a_member_touched_without_its_lock_is_found(self):
        self.expect_clean("thread-safety", "0 of 1 unchanged")
        self.change("pserver/counter.cc",
                    "  absl::MutexLock lock(&mutex_);\n", "")
        line = ("pserver/counter.cc:6: thread-safety: writing variable "
                "'count_' requires holding mutex 'mutex_' exclusively "
                "[-Werror,-Wthread-safety-analysis]; hold the lock, or say in "
                "an annotation who does")
        self.expect_one("thread-safety", line)
        # What has findings is not taken for known.
        self.expect_one("thread-safety", line)

    def test_a_source_is_read_again_when_a_header_of_it_changed(self):
        self.expect_clean("thread-safety", "0 of 1 unchanged")
        self.expect_clean("thread-safety", "1 of 1 unchanged")
        self.change("pserver/counter.h", "GUARDED_BY(mutex_)",
                    "GUARDED_BY(other_)")
        self.change("pserver/counter.h", " private:\n",
                    " private:\n  absl::Mutex other_;\n")
        self.expect_one(
            "thread-safety", "pserver/counter.cc:7: thread-safety: writing "
            "variable 'count_' requires holding mutex 'other_' exclusively "
            "[-Werror,-Wthread-safety-analysis]; hold the lock, or say in an "
            "annotation who does")

    def test_a_stamp_that_nobody_used_for_a_month_goes(self):
        self.expect_clean("thread-safety")
        stamps = self.folder / "cache" / "oarlock" / "lint" / "thread-safety"
        (stamp,) = stamps.iterdir()
        old = time.time() - (clang.STAMP_DAYS + 1) * 86400
        os.utime(stamp, (old, old))
        self.expect_clean("thread-safety", "0 of 1 unchanged")


class NamesTest(PlantedCase):

    def test_a_second_class_of_a_name_is_found(self):
        self.expect_clean("names")
        self.write("worker/counter.h",
                   "namespace oarlock::pserver {\nclass Counter {};\n}\n")
        self.expect_one(
            "names", "worker/counter.h:2: names: a second "
            "oarlock::pserver::Counter, the first is in pserver/counter.h:9; "
            "rename one, or put it into a nameless namespace")

    def test_declarations_and_what_no_other_file_can_name_are_no_second(self):
        self.write("worker/user.cc", """
            // class Counter {};
            namespace oarlock::pserver {
            class Counter;
            template <class Counter> struct Uses {};
            const char* text = "class Counter {";
            namespace { class Counter : public Base<int> {}; }
            void Function() { struct Counter { int i; }; }
            namespace v2 { class Counter final {}; }
            struct Outer { class Counter {}; };
            }""")
        self.expect_clean("names")

    def test_names_are_qualified(self):
        text = """namespace a::b { inline namespace c {
            class ABSL_LOCKABLE D final : public E<F> { enum class G : int {};
              union { int i; }; void H() { if (i) { class No {}; } } };
            template <> struct D2<int> {}; struct D::I {}; } }
            extern "C" { struct J {}; }
            char quote = '"'; int many = 1'000'000; struct K {};"""
        self.assertEqual(
            [name for name, _ in class_names.definitions(text)],
            ["a::b::c::D", "a::b::c::D::G", "a::b::c::D2<int>",
             "a::b::c::D::I", "J", "K"])


class FoldersTest(PlantedCase):

    def fill(self, count):
        for number in range(count):
            self.write(f"worker/part{number}.cc", "int part;\n")

    def test_more_than_ten_files_want_a_readme(self):
        self.fill(10)
        self.expect_clean("folders")
        self.write("worker/part10.cc", "int part;\n")
        self.expect_one(
            "folders", "worker/README.md:1: folders: missing for 11 files: "
            "what lives here, three files to read first, the class that ties "
            "them together, what must not be included")
        self.write("worker/README.md", "a line\n" * 25)
        self.expect_clean("folders")
        self.write("worker/README.md", "a line\n" * 26)
        self.expect_one("folders",
                        "worker/README.md:26: folders: 26 lines; at most 25")

    def test_a_folder_of_more_than_forty_files_is_found(self):
        self.write("worker/README.md", "")
        self.fill(40)
        self.expect_clean("folders")
        self.write("worker/part40.h", "int part;\n")
        self.expect_one("folders", "worker:1: folders: 41 files; at most 40, "
                        "divide it by meaning")

    def test_a_long_build_file_is_found(self):
        self.write("worker/BUILD", "#\n" * 249)
        self.expect_clean("folders")
        self.write("worker/BUILD", "#\n" * 250)
        self.expect_one("folders", "worker/BUILD:250: folders: 250 lines; at "
                        "most 249, divide the folder")


class OrphansTest(PlantedCase):

    def test_a_source_that_no_target_uses_is_found(self):
        self.expect_clean("orphans")
        self.write("pserver/forgotten.cc", "")
        self.expect_one(
            "orphans", "pserver/forgotten.cc:1: orphans: no BUILD target uses "
            "it; name it in one, or take the file out")

    def test_a_source_in_two_libraries_is_found(self):
        self.change("pserver/BUILD", "[cc_test", "cc_library(name = 'again', "
                    "srcs = glob(['count*r.cc']))\n\n[cc_test")
        self.expect_one(
            "orphans", "pserver/counter.cc:1: orphans: in the libraries "
            "//pserver:counter and //pserver:again; one may have it in srcs "
            "or hdrs, others depend on that")


class LinksTest(PlantedCase):

    def test_a_link_to_no_file_is_found(self):
        self.expect_clean("links")
        self.change("README.md", "docs/how.md", "docs/why.md")
        self.expect_one(
            "links", "README.md:3: links: docs/why.md#what-it-counts leads to "
            "no file; legal is a path from this document")

    def test_a_link_to_no_heading_is_found(self):
        self.change("docs/how.md", "## What", "## Which")
        self.expect_one(
            "links", "README.md:3: links: docs/how.md#what-it-counts: "
            "docs/how.md has no heading #what-it-counts; name one it has")


class ClockTest(PlantedCase):

    def test_a_place_more_than_listed_is_found(self):
        self.expect_clean("clock")
        self.write("pserver/late.cc", NOW)
        self.expect_one(
            "clock", "pserver/late.cc:2: clock: reads the machine's clock, "
            "sleeps or waits by it in 1 places, 0 are listed; take a Clock by "
            "constructor")
        self.write("tests/lint/clock_debt.txt", "pserver/late.cc 1\n")
        self.expect_clean("clock")
        self.write("pserver/late.cc", "int main(int argc) {}\n" + NOW)
        self.write("tests/lint/clock_debt.txt", "")
        self.expect_clean("clock")

    def test_a_place_fewer_than_listed_is_found(self):
        self.write("pserver/late.cc", NOW)
        self.write("tests/lint/clock_debt.txt", "# Debt.\npserver/late.cc 2\n")
        self.expect_one(
            "clock", "tests/lint/clock_debt.txt:2: clock: pserver/late.cc has "
            "1 places, 2 are listed; lower the number to 1")

    def test_a_wait_with_a_limit_of_its_own_is_found_in_product_sources(self):
        waits = ["mutex_.AwaitWithTimeout(held, limit);",
                 "mutex_.AwaitWithDeadline(held, end);",
                 "changed_.WaitWithTimeout(&mutex_, limit);",
                 "changed_.WaitWithDeadline(&mutex_, end);",
                 "mutex_.LockWhenWithTimeout(held, limit);",
                 "mutex_.LockWhenWithDeadline(held, end);",
                 "mutex_.ReaderLockWhenWithTimeout(held, limit);",
                 "done_.WaitForNotificationWithTimeout(limit);",
                 "changed_.wait_for(lock, limit);",
                 "future_.wait_until(end);"]
        # A deadline of a test, and what waits for no time.
        self.write("tests/pserver/late_test.cc", "\n".join(waits))
        self.write("pserver/late.cc", "clock_.AwaitFor(&mutex_, held, limit);\n"
                   "context.set_wait_for_ready(true);\n")
        self.expect_clean("clock")
        for wait in waits:
            self.write("pserver/late.cc", f"\n{wait}\n")
            self.expect_one(
                "clock", "pserver/late.cc:2: clock: reads the machine's clock, "
                "sleeps or waits by it in 1 places, 0 are listed; take a Clock "
                "by constructor")

    def test_an_eleventh_test_of_real_time_is_found(self):
        lines = [f"//tests:t{i}: it measures\n" for i in range(11)]
        self.write("tests/real_time.txt", "".join(lines[:10]))
        self.expect_clean("clock")
        self.write("tests/real_time.txt", "".join(lines))
        self.expect_one(
            "clock", "tests/real_time.txt:11: clock: test number 11, at most "
            "10 are allowed; let the test own its clock")

    def test_each_way_to_the_clock_is_known(self):
        ways = ["absl::SleepFor(d);", "std::this_thread::sleep_for(d);",
                "usleep(1);", "nanosleep(&a, &b);", "Clock::Real();",
                "Clock::Monotonic();", "absl::GetCurrentTimeNanos();",
                "std::chrono::steady_clock::now();", "gettimeofday(&a, &b);",
                "std::chrono::system_clock::now();", "clock_gettime(0, &a);",
                "std::time(nullptr);", "gpr_now(GPR_CLOCK_REALTIME);"]
        self.write("pserver/late.cc", "\n".join(ways))
        self.write("tests/system/a_test.py", "time.sleep(1)\n")
        self.write("tests/cases/a_report.py", "time.sleep(1)\n")
        self.write("tests/lint/clock_debt.txt",
                   f"pserver/late.cc {len(ways)}\ntests/system/a_test.py 1\n")
        self.expect_clean("clock")


class NolintTest(PlantedCase):

    def test_a_mark_without_a_reason_is_found(self):
        self.change("pserver/counter.h", "  void Add();",
                    "  void Add();  // NOLINT(a-check): the macro wants it")
        self.expect_clean("nolint", "1 of at most 20")
        self.change("pserver/counter.h", ": the macro wants it", "")
        self.expect_one(
            "nolint", "pserver/counter.h:12: nolint: a mark without check and "
            "reason; write NOLINT(the-check): why it does not apply here")

    def test_mark_twenty_one_is_found(self):
        self.write("pserver/many.h", "// NOLINT(a-check): it has to\n" * 21)
        self.expect_one(
            "nolint", "pserver/many.h:21: nolint: mark number 21, at most 20 "
            "are allowed; mend what clang-tidy says instead")


class ModesTest(PlantedCase):

    def test_the_text_of_a_mode_is_compared_in_one_place(self):
        code = 'bool Rounds(const Config& c) { return c.mode() == "sync"; }\n'
        self.write("worker/config/training_mode.cc", code)
        self.expect_clean("modes")
        self.write("worker/trainer.cc", code)
        self.expect_one(
            "modes", "worker/trainer.cc:1: modes: the text of a mode is "
            "compared; ask worker::ModeOf")

    def test_a_service_compares_no_mode(self):
        code = "bool Rounds(v1::UpdateMode m) { return m == v1::SYNC; }\n"
        self.write("pserver/table/table_registry.cc", code)
        self.expect_clean("modes")
        self.write("pserver/service/admin_service.cc", "\n" + code)
        self.expect_one(
            "modes", "pserver/service/admin_service.cc:2: modes: a mode is "
            "compared; ask the table's Aggregator")


class DefaultsTest(PlantedCase):

    def plant(self, initialiser, fill="absl::Seconds(config_.lease_s())"):
        self.write(
            "proto/config/job_config.proto",
            "optional double lease_s = 1 [default = 6, (flag) = {\n"
            "optional string durability = 2 [default = \"log\", (flag) = {\n")
        self.write(
            "pserver/server_options.h",
            "struct ServerOptions {\n"
            f"  absl::Duration lease{initialiser};\n"
            "};\n")
        self.write(
            "fleet/fleet.cc",
            f"ServerOptions options;\noptions.lease = {fill};\n")

    def test_zero_nothing_or_the_flags_default_is_right(self):
        for initialiser in ("", " = absl::ZeroDuration()",
                            " = absl::Seconds(6)",
                            " = absl::Milliseconds(6'000)", " = {}", "{}"):
            with self.subTest(initialiser):
                self.plant(initialiser)
                self.expect_clean("defaults")

    def test_another_default_than_the_flags_is_found(self):
        self.plant(" = absl::Seconds(10)")
        self.expect_one(
            "defaults", "pserver/server_options.h:2: defaults: ServerOptions::"
            "lease starts with absl::Seconds(10), and --lease_s fills it and "
            "has another default; take the initialiser away or write the "
            "flag's")

    def test_a_text_that_is_compared_is_a_bool(self):
        fill = 'config_.durability() == "log"'
        self.plant(" = true", fill)
        self.expect_clean("defaults")
        self.plant(" = 2", fill)
        self.expect_one(
            "defaults", "pserver/server_options.h:2: defaults: ServerOptions::"
            "lease starts with 2, and --durability fills it and has another "
            "default; take the initialiser away or write the flag's")

    def test_what_is_filled_from_such_a_field_is_held_to_the_same(self):
        self.plant("")
        self.write(
            "coordinator/coordinator_options.h",
            "struct CoordinatorOptions {\n"
            "  absl::Duration lease = absl::Seconds(10);\n"
            "};\n")
        self.write(
            "pserver/server_state.cc",
            "void F(const ServerOptions& options) {\n"
            "  CoordinatorOptions result;\n"
            "  result.lease = options.lease;\n"
            "}\n")
        self.expect_one(
            "defaults", "coordinator/coordinator_options.h:2: defaults: "
            "CoordinatorOptions::lease starts with absl::Seconds(10), and "
            "--lease_s fills it and has another default; take the initialiser "
            "away or write the flag's")


class NamespacesTest(PlantedCase):

    def test_a_file_of_another_folders_namespace_is_found(self):
        self.write("pserver/good.cc", "namespace oarlock::pserver {\n}\n")
        self.write("pserver/deep.cc", "namespace oarlock::pserver::x {\n}\n")
        self.write("tests/pserver/t.cc", "namespace oarlock::pserver {\n}\n")
        self.write("base/plain.cc", "namespace oarlock {\n}\n")
        self.expect_clean("namespaces")
        self.write("pserver/bad.cc", "\nnamespace oarlock::worker {\n}\n")
        self.expect_one(
            "namespaces", "pserver/bad.cc:2: namespaces: the file is in "
            "oarlock::worker; its folder's namespace is oarlock::pserver")


class WordsTest(PlantedCase):

    def setUp(self):
        super().setUp()
        self.write(words.LIST, """# Old words.
seat | - | member connection
by half | - | partly applied
cut board | - | cut state
lane | nn/** | a lane of a vector register
""")
        self.write(words.GLOSSARY, """# Glossary

## Renames

| old | new | places | files |
| --- | --- | --- | --- |
| `Seat`, `RecordingSeat` | `MemberConnection` | 54 | 4 |
| by half in logs: `by half` | partly applied | 6 | 3 |
| `CutBoard`, `cut_board.*` | `CutState` | 46 | 7 |
| `num_lanes` | `num_compute_threads` | 568 | 59 |
| (not checked) `Take` | `Claim` | 24 | 7 |
""")
        self.write("nn/cpu/vector.h", "int num_lanes;\n")
        self.expect_clean("words", "4 words")

    def test_a_class_of_an_old_name_is_found(self):
        self.write("pserver/ring.h", "\nclass Seat {};\n")
        self.expect_one("words", "pserver/ring.h:2: words: 'seat'; say 'member "
                        "connection', see docs/glossary.md")

    def test_old_words_in_a_log_text_are_found(self):
        line = ("pserver/ring.h:1: words: 'by half'; say 'partly applied', see "
                "docs/glossary.md")
        self.write("pserver/ring.h", 'Log("it was applied by half, then");\n')
        self.expect_one("words", line)
        self.write("pserver/ring.h", 'Log("it was applied by "\n    "half");\n')
        self.expect_one("words", line)
        self.write("pserver/ring.h", "// It was applied by\n// half.\n")
        self.expect_one("words", line)
        self.write("pserver/ring.h", "Divide(by, half);\n// By.\n\n// Half.\n")
        self.expect_clean("words")

    def test_a_file_of_an_old_name_is_found(self):
        self.write("pserver/cut_board.h", "int state;\n")
        self.expect_one("words", "pserver/cut_board.h:1: words: 'cut board'; "
                        "say 'cut state', see docs/glossary.md")

    def test_a_word_is_found_where_it_is_not_right_and_only_as_a_word(self):
        self.write("pserver/plane.h", "DataPlane plane; int planes; Seats();\n"
                   "CutBoard cut_boards; int StepLanes;\n")
        status, lines, _ = self.lint("words")
        self.assertEqual((status, lines[:-1]), (1, [
            f"pserver/plane.h:{line}: words: {text}" for line, text in (
                (1, "'seat'; say 'member connection', see docs/glossary.md"),
                (2, "'cut board'; say 'cut state', see docs/glossary.md"),
                (2, "'lane' is not right in this file; say the word that "
                    "docs/glossary.md has"))]))

    def test_a_pattern_that_fits_nothing_is_found(self):
        self.change(words.LIST, "lane |", "lane | wire/** | a lane\nlane |")
        self.expect_one(
            "words", "tests/lint/words.txt:5: words: 'lane' is in no file of "
            "wire/**; take the line out, or mend the pattern")

    def test_an_entry_without_a_row_is_found(self):
        self.change(words.LIST, "seat |",
                    "death board | - | dead workers\nseat |")
        self.expect_one(
            "words", "tests/lint/words.txt:2: words: 'death board' is in no "
            "row of docs/glossary.md; write its row, or take the entry out")

    def test_a_row_without_an_entry_is_found(self):
        self.change(words.GLOSSARY, "(not checked) `Take`",
                    "`TakeBack` (not checked) `Take`")
        self.expect_one(
            "words", "docs/glossary.md:11: words: 'TakeBack' has no entry in "
            "tests/lint/words.txt; write one, or (not checked) before the word")

    def test_a_glossary_without_its_table_is_found(self):
        self.write(words.LIST, "")
        self.write(words.GLOSSARY, "# Glossary\n\n## Renamed\n")
        self.expect_one(
            "words", "docs/glossary.md:3: words: no table of renames; write "
            "the heading '## Renames' and the line '| old | new | places | "
            "files |'")

    def test_a_line_that_is_no_entry_is_found(self):
        self.change(words.LIST, "lane | nn/** | a lane of a vector register",
                    "lane | nn/** | a lane of a vector register\nlane | nn/**")
        self.expect_one(
            "words", "tests/lint/words.txt:6: words: 'lane | nn/**'; legal is: "
            "old word | path pattern, or - | reason, with - the new word")
        self.change(words.LIST, "lane | nn/**\n", "lane | - | thread\n")
        self.expect_one(
            "words", "tests/lint/words.txt:6: words: 'lane' has line 5 "
            "already; a word has one line with -, or one for each pattern")

    def test_texts_are_cut_into_words(self):
        self.assertEqual(
            words.cut("kDeathBoard num_passes, HTTPServer's log2_caches"),
            words.cut("k death board num pass http server s log cache"))

    def test_patterns_are_globs_of_whole_paths(self):
        for pattern, path, fits in (
                ("nn/**", "nn/cpu/vector.h", True),
                ("nn/*", "nn/cpu/vector.h", False),
                ("**/*.py", "lint.py", True),
                ("**/*.py", "tests/lint/lint.py", True),
                ("data", "data/order.h", False)):
            self.assertEqual(words.matches(pattern, path), fits, pattern)


class CommandLineTest(PlantedCase):

    def test_a_folder_that_is_none_is_refused(self):
        status, lines, errors = self.lint("--under", "nowhere", "tidy")
        self.assertEqual((status, lines), (2, []))
        self.assertIn("--under 'nowhere' is no folder of the repository",
                      errors)

    def test_a_folder_is_for_tidy_alone(self):
        for checks in ((), ("format",), ("tidy", "format")):
            status, lines, errors = self.lint("--under", "pserver", *checks)
            self.assertEqual((status, lines), (2, []))
            self.assertEqual(errors, "lint: --under 'pserver' is for tidy "
                             "alone; write lint.py --under FOLDER tidy\n")

    def test_an_unknown_check_is_refused_with_the_legal_ones(self):
        status, lines, said = self.lint("spelling")
        self.assertEqual((status, lines), (2, []))
        self.assertEqual(said, "lint: there is no check 'spelling'; legal are "
                         f"{', '.join(lint.LEGAL)}\n")

    def test_without_a_name_all_checks_run(self):
        status, lines, _ = self.lint()
        self.assertEqual(status, 0, lines)
        self.assertEqual([line.split(":")[0] for line in lines],
                         list(lint.CHECKS))

    def test_what_comments_and_strings_hold_is_no_code(self):
        code = tree.code_of('a // b\n"c\\"d" /* e\n */ f R"x(g)")x" h')
        self.assertEqual(code.split(), ["a", '""', "f", '""', "h"])
        self.assertEqual(code.count("\n"), 2)


if __name__ == "__main__":
    sys.exit(unittest.main())
