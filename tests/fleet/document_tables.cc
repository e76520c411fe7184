#include "tests/fleet/document_tables.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace oarlock {
namespace {

constexpr char kEnd[] = "<!-- end -->";

int Write(const std::string& path, const DocumentTables& tables) {
  const char* root = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  const std::string full =
      absl::StrCat(root == nullptr ? "." : root, "/", path);
  std::vector<std::string> missing;
  const std::string document = WithTables(ReadDocument(full), tables, &missing);
  if (document.empty() || !missing.empty()) return 1;
  std::ofstream(full) << document;
  return 0;
}

}  // namespace

std::string ReadDocument(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string WithTables(std::string document, const DocumentTables& tables,
                       std::vector<std::string>* missing) {
  for (const auto& [name, table] : tables) {
    const std::string begin = absl::StrCat("<!-- table: ", name, " -->\n");
    const size_t at = document.find(begin);
    const size_t end = at == std::string::npos ? at : document.find(kEnd, at);
    if (end == std::string::npos) {
      missing->push_back(name);
      continue;
    }
    document.replace(at + begin.size(), end - at - begin.size(), table);
  }
  return document;
}

int DocumentTestMain(int argc, char** argv, const std::string& path,
                     const DocumentTables& tables) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1 && std::string(argv[1]) == "--write") {
    return Write(path, tables);
  }
  return RUN_ALL_TESTS();
}

}  // namespace oarlock
