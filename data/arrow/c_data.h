// The Arrow C data interface: how a record batch of any Arrow library is handed
// over within a process. The two structs are its ABI, which does not change
// (https://arrow.apache.org/docs/format/CDataInterface.html).

#ifndef OARLOCK_DATA_ARROW_C_DATA_H_
#define OARLOCK_DATA_ARROW_C_DATA_H_

#include <cstdint>

extern "C" {

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

}  // extern "C"

#endif  // OARLOCK_DATA_ARROW_C_DATA_H_
