// A list that is written on a hot path and read once: nothing moves when it
// grows, so appending never costs more than a small allocation.

#ifndef OARLOCK_SPARSE_TABLE_CUT_APPEND_ONLY_LIST_H_
#define OARLOCK_SPARSE_TABLE_CUT_APPEND_ONLY_LIST_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace oarlock::sparse_table {

// Not thread-safe.
template <typename T>
class AppendOnlyList {
 public:
  AppendOnlyList() = default;
  AppendOnlyList(AppendOnlyList&& other) noexcept { *this = std::move(other); }
  AppendOnlyList& operator=(AppendOnlyList&& other) noexcept {
    blocks_ = std::exchange(other.blocks_, {});
    next_ = std::exchange(other.next_, nullptr);
    end_ = std::exchange(other.end_, nullptr);
    return *this;
  }

  void Append(const T& value) {
    if (next_ == end_) [[unlikely]]
      AddBlock();
    *next_++ = value;
  }

  size_t size() const {
    return blocks_.size() * kBlockItems - static_cast<size_t>(end_ - next_);
  }
  // All of them, ascending, each once.
  std::vector<T> SortedItems() const {
    std::vector<T> items;
    items.reserve(size());
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const T* const first = blocks_[i].get();
      const bool is_last = i + 1 == blocks_.size();
      items.insert(items.end(), first, is_last ? next_ : first + kBlockItems);
    }
    std::sort(items.begin(), items.end());
    items.erase(std::unique(items.begin(), items.end()), items.end());
    return items;
  }
  // Keeps one of those that are equal.
  void RemoveRepeated() {
    const std::vector<T> items = SortedItems();
    *this = {};
    for (const T& item : items) Append(item);
  }
  size_t heap_bytes() const { return blocks_.size() * kBlockItems * sizeof(T); }

 private:
  static constexpr size_t kBlockItems = 512;

  void AddBlock() {
    blocks_.push_back(std::make_unique_for_overwrite<T[]>(kBlockItems));
    next_ = blocks_.back().get();
    end_ = next_ + kBlockItems;
  }

  std::vector<std::unique_ptr<T[]>> blocks_;
  // Where the next one goes in the last block, and that block's end.
  T* next_ = nullptr;
  T* end_ = nullptr;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_CUT_APPEND_ONLY_LIST_H_
