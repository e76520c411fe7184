#include "tests/coordinator/death_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "base/mix.h"

namespace oarlock::coordinator {
namespace {

constexpr uint64_t kWindow = 64;
constexpr int kDenseCopies = 3;
constexpr int kDenseIntervalSteps = 4;

// Where the line of an example that begins a defined range is.
uint64_t OffsetOf(uint64_t ordinal) { return 5000 + 17 * ordinal; }

// Of a server's rows there are two groups.
constexpr int kDenseGroup = 2;
int GroupOf(uint64_t example) { return static_cast<int>(example / 3 % 2); }

template <typename Intervals>
void AddIntervals(const std::vector<uint64_t>& examples, Intervals* to) {
  for (uint64_t example : examples) {
    const auto source = static_cast<uint32_t>(example / kSourceExamples);
    const uint64_t ordinal = example % kSourceExamples;
    if (!to->empty() && to->rbegin()->source() == source &&
        to->rbegin()->end() == ordinal) {
      to->rbegin()->set_end(ordinal + 1);
      continue;
    }
    v1::ExampleInterval* const interval = to->Add();
    interval->set_source(source);
    interval->set_begin(ordinal);
    interval->set_end(ordinal + 1);
  }
}

}  // namespace

std::vector<v1::DataRange> DefinedRanges() {
  std::vector<v1::DataRange> ranges;
  for (uint32_t source = 0; source < kSources; ++source) {
    for (uint64_t begin = 0; begin < kSourceExamples; begin += kRangeExamples) {
      v1::DataRange& range = ranges.emplace_back();
      range.set_source(source);
      range.set_begin(begin);
      range.set_byte_offset(OffsetOf(begin));
      if (begin + kRangeExamples < kSourceExamples) {
        range.set_end(begin + kRangeExamples);
      }
    }
  }
  return ranges;
}

std::vector<uint64_t> ExamplesOf(const v1::DataRange& range) {
  EXPECT_EQ(range.byte_offset(), OffsetOf(range.begin() - range.skip_lines()))
      << range.ShortDebugString();
  EXPECT_LT(range.skip_lines(), kRangeExamples + 20)
      << "lines are counted from afar: " << range.ShortDebugString();
  const uint64_t end = range.end() == 0 ? kSourceExamples : range.end();
  std::vector<uint64_t> examples;
  for (uint64_t i = range.begin(); i < end; ++i) {
    examples.push_back(range.source() * kSourceExamples + i);
  }
  return examples;
}

bool ModelServers::HasRows(uint64_t example, uint32_t server) const {
  return example % num_servers_ == server ||
         Mix(example * num_servers_ + server) % 4 == 0;
}

std::vector<ModelServers::Message> ModelServers::Messages(
    const ModelPush& push) const {
  std::vector<Message> messages;
  for (uint32_t server = 0; server < num_servers_; ++server) {
    if (std::any_of(push.rows.begin(), push.rows.end(), [&](uint64_t example) {
          return HasRows(example, server);
        })) {
      messages.push_back({server, false});
    }
    if (!push.dense.empty()) messages.push_back({server, true});
  }
  return messages;
}

std::vector<int> ModelServers::Groups(const ModelPush& push,
                                      const Message& message) const {
  if (message.dense) return {kDenseGroup};
  std::set<int> groups;
  for (uint64_t example : push.rows) {
    if (HasRows(example, message.server)) groups.insert(GroupOf(example));
  }
  return {groups.begin(), groups.end()};
}

ModelServers::Record& ModelServers::RecordOf(const ModelPush& push,
                                             uint32_t server) {
  Record& record =
      ledgers_[server][{push.worker, push.generation}][push.sequence];
  if (record.message_count == 0) {
    record.push = push;
    record.message_count = static_cast<uint32_t>(Messages(push).size());
  }
  return record;
}

bool ModelServers::InWindow(const ModelPush& push, uint32_t server,
                            int group) const {
  const auto window =
      windows_.find({server, group, {push.worker, push.generation}});
  return window != windows_.end() &&
         (push.sequence + kWindow <= *window->second.rbegin() ||
          window->second.contains(push.sequence));
}

void ModelServers::ApplyGroup(const ModelPush& push, uint32_t server,
                              int group) {
  const bool dense = group == kDenseGroup;
  windows_[{server, group, {push.worker, push.generation}}].insert(
      push.sequence);
  for (uint64_t example : dense ? push.dense : push.rows) {
    if (dense || (HasRows(example, server) && GroupOf(example) == group)) {
      ++times_[{example, server, dense}];
    }
  }
}

void ModelServers::Apply(const ModelPush& push, uint32_t message_index) {
  const Message message = Messages(push)[message_index];
  for (int group : Groups(push, message)) {
    if (InWindow(push, message.server, group)) continue;
    ApplyGroup(push, message.server, group);
  }
  RecordOf(push, message.server).messages.insert(message_index);
}

void ModelServers::ApplyPartly(const ModelPush& push, uint32_t message_index) {
  const Message message = Messages(push)[message_index];
  std::vector<int> groups = Groups(push, message);
  groups.pop_back();
  for (int group : groups) {
    if (InWindow(push, message.server, group)) continue;
    ApplyGroup(push, message.server, group);
  }
  RecordOf(push, message.server);
}

bool ModelServers::IsWhole(const ModelPush& push) const {
  for (const Message& message : Messages(push)) {
    for (int group : Groups(push, message)) {
      if (!InWindow(push, message.server, group)) return false;
    }
  }
  return true;
}

v1::WorkerLedger ModelServers::Ledger(uint32_t server, uint32_t worker,
                                      uint64_t generation) const {
  v1::WorkerLedger ledger;
  ledger.mutable_worker()->set_worker_index(worker);
  ledger.mutable_worker()->set_worker_generation(generation);
  const auto found = ledgers_[server].find({worker, generation});
  if (found == ledgers_[server].end() || found->second.empty()) return ledger;
  ledger.set_highest(found->second.rbegin()->first);
  for (const auto& [sequence, record] : found->second) {
    if (sequence + kWindow <= ledger.highest()) {
      AddIntervals(record.push.rows, ledger.mutable_fully_applied_examples());
      AddIntervals(record.push.dense,
                   ledger.mutable_fully_applied_dense_examples());
      continue;
    }
    v1::PushRecord* const push = ledger.add_pushes();
    push->set_sequence(sequence);
    push->set_cut(record.push.cut);
    AddIntervals(record.push.rows, push->mutable_examples());
    AddIntervals(record.push.dense, push->mutable_dense_examples());
    push->set_message_count(record.message_count);
    for (uint32_t message : record.messages) push->add_messages(message);
  }
  return ledger;
}

void ModelServers::Restart(uint32_t server, uint64_t cut) {
  for (auto& [incarnation, records] : ledgers_[server]) {
    std::erase_if(records, [cut](const auto& entry) {
      return entry.second.push.cut < cut;
    });
  }
}

bool ModelServers::WasApplied(uint64_t example, int times) const {
  for (uint32_t server = 0; server < num_servers_; ++server) {
    for (const bool dense : {false, true}) {
      if (!dense && !HasRows(example, server)) continue;
      const auto found = times_.find({example, server, dense});
      if ((found == times_.end() ? 0 : found->second) != times) return false;
    }
  }
  return true;
}

ModelPush PushOf(const v1::PushCompletion& completion) {
  ModelPush push;
  push.worker = completion.worker().worker_index();
  push.generation = completion.worker().worker_generation();
  push.sequence = completion.sequence();
  for (const v1::DataRange& range : completion.examples()) {
    for (uint64_t example : ExamplesOf(range)) push.rows.push_back(example);
  }
  for (const v1::DataRange& range : completion.dense_examples()) {
    for (uint64_t example : ExamplesOf(range)) push.dense.push_back(example);
  }
  return push;
}

ModelWorker::ModelWorker(uint32_t worker, uint64_t generation,
                         uint64_t first_cut, ModelServers* servers,
                         RandomSequence* random)
    : worker_(worker),
      generation_(generation),
      servers_(servers),
      random_(random),
      shuffles_(random->Below(2) == 0),
      copies_(kDenseCopies, DenseCopy{first_cut, {}, 0}),
      newest_cut_(first_cut),
      marked_cut_(first_cut) {}

void ModelWorker::AddRange(const v1::DataRange& range, uint64_t lease) {
  const std::vector<uint64_t> examples = ExamplesOf(range);
  todo_.insert(todo_.begin(), examples.rbegin(), examples.rend());
  leases_.push_back(lease);
}

void ModelWorker::AddPushCompletion(const v1::PushCompletion& completion) {
  push_completions_.push_back(completion);
}

bool ModelWorker::HasRoom() const {
  for (const UnderWay& push : under_way_) {
    if (push.push.generation == generation_ && push.push.worker == worker_ &&
        push.push.sequence + kWindow <= next_sequence_) {
      return false;
    }
  }
  return true;
}

void ModelWorker::Send(ModelPush push, uint64_t cut, uint64_t lease) {
  push.cut = cut;
  if (push.generation == 0) {
    push.worker = worker_;
    push.generation = generation_;
    push.sequence = next_sequence_++;
  }
  unreported_[cut].insert(push.rows.begin(), push.rows.end());
  UnderWay& under_way = under_way_.emplace_back();
  const size_t num_messages = servers_->Messages(push).size();
  for (uint32_t message = 0; message < num_messages; ++message) {
    under_way.messages.insert(message);
  }
  under_way.push = std::move(push);
  under_way.lease = lease;
}

void ModelWorker::Delay(ModelPush push, uint64_t lease) {
  backlog_.push_back({std::move(push), {}, lease});
  ++completing_[lease];
}

void ModelWorker::Compute() {
  if (!HasRoom()) return;
  const size_t size = std::min<size_t>(todo_.size(), 1 + random_->Below(12));
  ModelPush push;
  for (size_t i = 0; i < size; ++i) {
    if (shuffles_) {
      std::swap(todo_.back(), todo_[random_->Below(todo_.size())]);
    }
    push.rows.push_back(todo_.back());
    todo_.pop_back();
  }
  DenseCopy& copy = copies_[random_->Below(kDenseCopies)];
  copy.dense.insert(copy.dense.end(), push.rows.begin(), push.rows.end());
  if (++copy.steps == kDenseIntervalSteps) {
    push.dense.swap(copy.dense);
    copy.steps = 0;
  }
  Send(std::move(push), copy.cut, /*lease=*/0);
}

void ModelWorker::Flush(DenseCopy* copy) {
  if (copy->dense.empty() || !HasRoom()) return;
  ModelPush push;
  push.dense.swap(copy->dense);
  copy->steps = 0;
  Send(std::move(push), copy->cut, /*lease=*/0);
}

void ModelWorker::Work(const v1::PushCompletion& completion) {
  ModelPush push = PushOf(completion);
  if (push.generation != 0) {
    return Delay(std::move(push), completion.lease());
  }
  EXPECT_TRUE(push.rows.empty() || push.dense.empty());
  // In batches of its own.
  for (std::vector<uint64_t> ModelPush::*field :
       {&ModelPush::rows, &ModelPush::dense}) {
    const std::vector<uint64_t>& examples = push.*field;
    for (size_t begin = 0; begin < examples.size(); begin += 20) {
      ModelPush batch;
      const size_t end = std::min(examples.size(), begin + 20);
      (batch.*field).assign(examples.begin() + begin, examples.begin() + end);
      Delay(std::move(batch), completion.lease());
    }
  }
}

void ModelWorker::Turn(uint64_t newest_cut, const Gate& gate) {
  newest_cut_ = std::max(newest_cut_, newest_cut);
  switch (random_->Below(8)) {
    case 0:
      if (!push_completions_.empty()) {
        Work(push_completions_.front());
        push_completions_.pop_front();
      }
      if (!backlog_.empty() && HasRoom()) {
        Send(std::move(backlog_.front().push),
             copies_[random_->Below(kDenseCopies)].cut, backlog_.front().lease);
        backlog_.pop_front();
      }
      break;
    case 1: {
      DenseCopy& copy = copies_[random_->Below(kDenseCopies)];
      if (copy.cut == newest_cut_ && !todo_.empty()) break;
      Flush(&copy);
      if (copy.dense.empty()) copy.cut = newest_cut_;
      break;
    }
    case 2:
    case 3:
      if (!todo_.empty()) Compute();
      break;
    default:
      Deliver(gate);
  }
}

void ModelWorker::Deliver(const Gate& gate) {
  if (under_way_.empty()) return;
  const auto push = under_way_.begin() + random_->Below(under_way_.size());
  const auto message =
      std::next(push->messages.begin(), random_->Below(push->messages.size()));
  const uint32_t server = servers_->Messages(push->push)[*message].server;
  const Fate fate = gate(server, push->push.cut);
  if (fate != Fate::kApply) return;
  if (random_->Below(10) == 0) {
    servers_->ApplyPartly(push->push, *message);
    return;
  }
  servers_->Apply(push->push, *message);
  // A response may be lost.
  if (random_->Below(10) == 0) return;
  push->messages.erase(message);
  if (!push->messages.empty()) return;
  if (push->lease != 0 && --completing_[push->lease] == 0) {
    completed_.push_back(push->lease);
    completing_.erase(push->lease);
  }
  under_way_.erase(push);
}

bool ModelWorker::Idle() const {
  return todo_.empty() && push_completions_.empty() && backlog_.empty() &&
         under_way_.empty() &&
         std::all_of(copies_.begin(), copies_.end(),
                     [](const DenseCopy& copy) { return copy.dense.empty(); });
}

std::vector<uint64_t> ModelWorker::TakeDone() {
  std::vector<uint64_t> done = std::exchange(completed_, {});
  if (Idle()) {
    done.insert(done.end(), leases_.begin(), leases_.end());
    leases_.clear();
  }
  return done;
}

std::optional<ModelWorker::Mark> ModelWorker::TakeMark() {
  if (marked_cut_ == newest_cut_) return std::nullopt;
  for (const DenseCopy& copy : copies_) {
    if (copy.cut < newest_cut_) return std::nullopt;
  }
  for (const UnderWay& push : under_way_) {
    if (push.push.cut < newest_cut_) return std::nullopt;
  }
  Mark mark;
  mark.cut = marked_cut_ = newest_cut_;
  for (auto it = unreported_.begin();
       it != unreported_.end() && it->first < newest_cut_;
       it = unreported_.erase(it)) {
    mark.examples.merge(it->second);
  }
  return mark;
}

}  // namespace oarlock::coordinator
