// Child processes that end with this one, for readers of data.

#ifndef OARLOCK_DATA_READER_GUARDED_PROCESS_H_
#define OARLOCK_DATA_READER_GUARDED_PROCESS_H_

#include "base/process/guarded_process.h"

namespace oarlock::data {

using oarlock::GuardedGroup;
using oarlock::MakePipe;
using oarlock::Pipe;
using oarlock::SpawnActions;
using oarlock::SpawnProgram;
using oarlock::WaitForProcess;

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_READER_GUARDED_PROCESS_H_
