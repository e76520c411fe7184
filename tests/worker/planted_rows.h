// Criteo lines of a planted model, for suites that train whole jobs.

#ifndef OARLOCK_TESTS_WORKER_PLANTED_ROWS_H_
#define OARLOCK_TESTS_WORKER_PLANTED_ROWS_H_

#include <gtest/gtest.h>

#include <cstdint>

#include "data/synthetic/criteo_generator.h"
#include "tests/data/test_files.h"

namespace oarlock::worker {

// A folder with `rows` lines in `files` files, part-0 and so on, the same for
// everybody who asks for as many. The caller deletes it.
inline TestFolder* NewPlantedRows(uint64_t rows, int files = 1) {
  auto* const folder = new TestFolder;
  data::GeneratorOptions options;
  options.rows = rows;
  options.files = files;
  options.seed = 7;
  options.out_dir = folder->path();
  const auto report = data::GenerateCriteo(options);
  EXPECT_TRUE(report.ok()) << report.status();
  return folder;
}

}  // namespace oarlock::worker

#endif  // OARLOCK_TESTS_WORKER_PLANTED_ROWS_H_
