#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>

#include <string>

namespace oarlock {

void InitLogging(std::string_view role) {
  auto logger = spdlog::get("oarlock");
  if (logger == nullptr) logger = spdlog::stderr_logger_mt("oarlock");
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %L " + std::string(role) + "  %v");
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(logger);
}

}  // namespace oarlock
