// Documents whose tables are what the code says: between
// "<!-- table: NAME -->" and "<!-- end -->" stands the table of that name. A
// test compares, and writes them anew when it is run with --write.

#ifndef OARLOCK_TESTS_FLEET_DOCUMENT_TABLES_H_
#define OARLOCK_TESTS_FLEET_DOCUMENT_TABLES_H_

#include <map>
#include <string>
#include <vector>

namespace oarlock {

// By name, in Markdown.
using DocumentTables = std::map<std::string, std::string>;

// Its text; empty when there is none.
std::string ReadDocument(const std::string& path);

// The document with every table replaced; `missing` gets the names of those
// without a place.
std::string WithTables(std::string document, const DocumentTables& tables,
                       std::vector<std::string>* missing);

// The test's main(). With --write: writes the tables of the document at `path`
// in the workspace, or returns 1 when one has no place; else runs all tests.
int DocumentTestMain(int argc, char** argv, const std::string& path,
                     const DocumentTables& tables);

}  // namespace oarlock

#endif  // OARLOCK_TESTS_FLEET_DOCUMENT_TABLES_H_
