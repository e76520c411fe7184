#include "data/reader/known_formats.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace oarlock::data {
namespace {

using std::string_view_literals::operator""sv;

struct Format {
  // At this place of the file.
  size_t place;
  std::string_view bytes;
  const char* name;
  const char* what_to_do;
};

constexpr char kUnpack[] = "unpack it";
constexpr char kConvert[] =
    "write it as text, or have a --pipe_command do it (docs/data.md)";

constexpr Format kFormats[] = {
    {257, "ustar"sv, "a tar archive",
     "unpack it, or read it by --pipe_command 'tar xO' (packed: 'tar xzO') "
     "with its --data_format"},
    {0, "PK\x03\x04"sv, "a zip archive", kUnpack},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive", kUnpack},
    {0, "Rar!\x1a\x07"sv, "a rar archive", kUnpack},
    {0, "BZh"sv, "compressed by bzip2",
     "unpack it, or read it by --pipe_command bzcat with its --data_format"},
    {0, "\x04\x22\x4d\x18"sv, "compressed by lz4",
     "unpack it, or read it by --pipe_command lz4cat with its --data_format"},
    {0, "\xff\x06\x00\x00sNaPpY"sv, "compressed by snappy", kUnpack},
    {0, "PAR1"sv, "a Parquet file",
     "read it by --pipe_command, as examples/parquet does"},
    {0, "ORC"sv, "an ORC file", kConvert},
    {0, "Obj\x01"sv, "an Avro file", kConvert},
    {0, "ARROW1"sv, "an Arrow file", kConvert},
    {0, "FEA1"sv, "a Feather file", kConvert},
    {0, "SEQ\x06"sv, "a Hadoop SequenceFile", kConvert},
    {0, "\x93NUMPY"sv, "a NumPy array", kConvert},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file", kConvert},
    {0, "SQLite format 3\x00"sv, "an SQLite database", kConvert},
    {0, "\x80\x02"sv, "a Python pickle", kConvert},
    {0, "\x80\x03"sv, "a Python pickle", kConvert},
    {0, "\x80\x04"sv, "a Python pickle", kConvert},
    {0, "\x80\x05"sv, "a Python pickle", kConvert},
    {0, "\xff\xfe"sv, "text in UTF-16", "write it in UTF-8"},
    {0, "\xfe\xff"sv, "text in UTF-16", "write it in UTF-8"},
};

bool IsNoText(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x7f ||
         (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r');
}

// A record of TFRecord: length (8 bytes, little endian), its sum (4), then a
// tf.train.Example, whose first field is number 1.
bool IsTfRecord(std::string_view head) {
  return head.size() > 12 && head.substr(4, 4) == "\0\0\0\0"sv &&
         head[12] == '\x0a';
}

}  // namespace

std::string KnownFormat(std::string_view head) {
  // What begins like one of them may still be a text.
  if (std::none_of(head.begin(), head.end(), IsNoText)) return "";
  for (const Format& format : kFormats) {
    if (head.size() < format.place + format.bytes.size()) continue;
    if (head.substr(format.place, format.bytes.size()) != format.bytes)
      continue;
    return absl::StrCat(format.name, "; ", format.what_to_do);
  }
  if (IsTfRecord(head)) return absl::StrCat("a TFRecord file; ", kConvert);
  return "";
}

}  // namespace oarlock::data
