#include "data/parse/line_parser.h"

#include "base/check.h"
#include "data/parse/line_parsers.h"

namespace oarlock::data {

std::unique_ptr<LineParser> NewLineParser(const DataOptions& options) {
  switch (options.format) {
    case DataOptions::Format::kCriteo:
      break;
    case DataOptions::Format::kMultiSlot:
      return NewMultiSlotParser(options);
    case DataOptions::Format::kLibsvm:
      return NewLibsvmParser(options);
    case DataOptions::Format::kColumns:
      OARLOCK_CHECK(false);
  }
  return NewCriteoParser(options);
}

}  // namespace oarlock::data
