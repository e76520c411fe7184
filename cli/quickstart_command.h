// `oarlock quickstart`: from nothing to a trained model.

#ifndef OARLOCK_CLI_QUICKSTART_COMMAND_H_
#define OARLOCK_CLI_QUICKSTART_COMMAND_H_

#include "base/clock.h"

namespace oarlock::flags {
struct CommandText;
}  // namespace oarlock::flags

namespace oarlock::cli {

// The whole program's words. Generates clicks, trains on them with 2 servers
// and 2 workers, prints how the test AUC grew and what to do next. Returns 0; 1
// after a line that says what failed; 2 for a wrong command line. A folder
// that --dir does not name is removed at the end, whatever that is.
int RunQuickstart(int argc, char** argv, const Clocks& clocks);
// Its flags, for manual and completion.
flags::CommandText DescribeQuickstart();

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_QUICKSTART_COMMAND_H_
