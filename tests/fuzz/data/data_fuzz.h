// The fuzz target of the line parsers, for libFuzzer and for the replay test.

#ifndef OARLOCK_TESTS_FUZZ_DATA_DATA_FUZZ_H_
#define OARLOCK_TESTS_FUZZ_DATA_DATA_FUZZ_H_

#include <cstddef>
#include <cstdint>

// The first byte chooses the parser (see the .cc), the rest is text: each line
// is parsed into one batch. Crashes when a parser leaves the batch in a state
// that its header rules out.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#endif  // OARLOCK_TESTS_FUZZ_DATA_DATA_FUZZ_H_
