// The parsers of the single formats; line_parser.h chooses among them.

#ifndef OARLOCK_DATA_PARSE_LINE_PARSERS_H_
#define OARLOCK_DATA_PARSE_LINE_PARSERS_H_

#include <memory>

#include "data/data_options.h"
#include "data/parse/line_parser.h"

namespace oarlock::data {

std::unique_ptr<LineParser> NewCriteoParser(const DataOptions& options);
std::unique_ptr<LineParser> NewMultiSlotParser(const DataOptions& options);
std::unique_ptr<LineParser> NewLibsvmParser(const DataOptions& options);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_PARSE_LINE_PARSERS_H_
