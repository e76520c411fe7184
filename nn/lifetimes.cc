#include "nn/lifetimes.h"

#include <algorithm>
#include <utility>

namespace oarlock::nn {

Places PlaceByLifetime(absl::Span<const Lifetime> arrays) {
  Places places;
  places.begins.resize(arrays.size(), 0);
  std::vector<std::pair<size_t, size_t>> taken;  // [begin, end)
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Lifetime& array = arrays[i];
    if (array.size == 0) continue;
    taken.clear();
    for (size_t j = 0; j < i; ++j) {
      const bool together =
          arrays[j].begin <= array.end && array.begin <= arrays[j].end;
      if (!together || arrays[j].size == 0) continue;
      taken.emplace_back(places.begins[j], places.begins[j] + arrays[j].size);
    }
    std::sort(taken.begin(), taken.end());
    size_t begin = 0;
    for (const auto& [from, to] : taken) {
      if (from >= begin + array.size) break;
      begin = std::max(begin, to);
    }
    places.begins[i] = begin;
    places.total = std::max(places.total, begin + array.size);
  }
  return places;
}

}  // namespace oarlock::nn
