// Cuts of random records, and what a published folder should hold of them.

#ifndef OARLOCK_TESTS_STORAGE_CHECKPOINT_TESTING_H_
#define OARLOCK_TESTS_STORAGE_CHECKPOINT_TESTING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "storage/checkpoint_reader.h"
#include "storage/checkpoint_record.h"
#include "storage/checkpoint_store.h"

namespace oarlock::storage {

using RecordModel = std::map<RecordName, std::string>;

// A folder of its own for a test, not there yet.
std::string FreshFolder(const std::string& name);

// Two tables of four units: rows, some with erased keys, and a state.
// `rows_bytes` of a record of rows.
RecordModel RandomCut(uint64_t cut, size_t num_rows_records, size_t rows_bytes,
                      RandomSequence& random);

// Writes the records, first and second table by a thread of its own each.
absl::Status WriteCut(CheckpointStore& store, uint64_t cut,
                      const RecordModel& records);

// Records of cuts [first, last] and units 0 to 9 of tables 0 to 3.
absl::StatusOr<RecordModel> ReadCuts(const CheckpointReader& reader,
                                     uint64_t first_cut, uint64_t last_cut);

}  // namespace oarlock::storage

#endif  // OARLOCK_TESTS_STORAGE_CHECKPOINT_TESTING_H_
