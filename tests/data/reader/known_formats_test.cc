#include "data/reader/known_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

namespace oarlock::data {
namespace {

using ::testing::StartsWith;
using std::string_view_literals::operator""sv;

TEST(KnownFormatsTest, AreNamedWithWhatToDo) {
  std::string tar(512, '\0');
  tar.replace(0, 8, "part-000");
  tar.replace(257, 6, "ustar ");
  for (const auto& [head, name] :
       {std::pair{std::string_view(tar), "a tar archive; unpack it, or read"},
        std::pair{"PK\x03\x04\x14\x00"sv, "a zip archive; unpack it"},
        std::pair{"BZh91AY&SY\x8c"sv, "compressed by bzip2; unpack it, or"},
        std::pair{"PAR1\x15\x04"sv, "a Parquet file; read it by --pipe"},
        std::pair{"ORC\x08\x03"sv, "an ORC file; write it as text"},
        std::pair{"Obj\x01\x04"sv, "an Avro file; "},
        std::pair{"\x93NUMPY\x01\x00"sv, "a NumPy array; "},
        std::pair{"\x89HDF\r\n\x1a\n"sv, "an HDF5 file; "},
        std::pair{"\x80\x04\x95"sv, "a Python pickle; "},
        std::pair{"\xff\xfe"
                  "1\x00"sv,
                  "text in UTF-16; write it in UTF-8"},
        std::pair{"\x8a\x01\0\0\0\0\0\0\x11\x22\x33\x44\x0a\x87"sv,
                  "a TFRecord file; "}}) {
    EXPECT_THAT(KnownFormat(head), StartsWith(name));
  }
}

TEST(KnownFormatsTest, TextIsText) {
  for (const std::string_view head :
       {""sv, "1\t2\t3\n"sv, "ORCHARD 1:2\n"sv, "BZh is a word\n"sv,
        "PAR1,0\r\n"sv, "SEQ\n"sv, "0 1:0.5 2:\xc3\xa9\n"sv,
        "\xef\xbb\xbf"
        "1 2\n"sv}) {
    EXPECT_EQ(KnownFormat(head), "") << head;
  }
  // NUL, but of nothing known.
  EXPECT_EQ(KnownFormat("abcd\0efgh"sv), "");
}

}  // namespace
}  // namespace oarlock::data
