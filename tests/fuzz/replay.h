// What the replay tests of all fuzz targets share: they run a target without a
// fuzzer, on inputs made from seeds, and on the files that the command line
// names (a corpus, a crash). The library brings the test of the files, and
// main().

#ifndef OARLOCK_TESTS_FUZZ_REPLAY_H_
#define OARLOCK_TESTS_FUZZ_REPLAY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

// The target.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace oarlock {

// Runs the target; what it finds wrong aborts.
void RunTarget(const std::string& input);

// Runs it on `make(seed)` for the seeds from 0: as many as OARLOCK_FUZZ_INPUTS
// says, else `usual`. Returns how many. An abort leaves about where it was as
// the last line.
uint64_t RunOnSeeds(uint64_t usual,
                    const std::function<std::string(uint64_t seed)>& make);

}  // namespace oarlock

#endif  // OARLOCK_TESTS_FUZZ_REPLAY_H_
