// Whether two runs had the same input, without reading it again.

#ifndef OARLOCK_FLEET_ROLE_INPUT_DIGEST_H_
#define OARLOCK_FLEET_ROLE_INPUT_DIGEST_H_

#include <string>
#include <vector>

namespace oarlock {

// 16 hexadecimal digits: XXH3-64 over the files in their order, of each its
// size and its first and last MiB, whatever it is called. Of what is no regular
// file, or cannot be read, its name. Empty without files.
std::string InputDigest(const std::vector<std::string>& files);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_ROLE_INPUT_DIGEST_H_
