#include "pserver/table/table_metrics.h"

#include "proto/v1/server_admin_tables.pb.h"

namespace oarlock::pserver {
namespace {

constexpr Metric kRows = {
    MetricKind::kGauge, "oarlock_server_table_rows", "rows", "table, kind",
    "Rows of a sparse table on this server, blocks of a dense one."};
constexpr Metric kBytes = {
    MetricKind::kGauge, "oarlock_server_table_bytes", "bytes", "table, kind",
    "Memory of a table's rows and index, optimizer state included."};
constexpr Metric kPullRows = {
    MetricKind::kCounter, "oarlock_server_pull_rows_total", "rows",
    "table, kind", "Rows, or blocks, that pulls asked for."};
constexpr Metric kPushRows = {
    MetricKind::kCounter, "oarlock_server_push_rows_total", "rows",
    "table, kind", "Rows, or blocks, that pushes brought gradients of."};
constexpr Metric kVersion = {
    MetricKind::kGauge, "oarlock_server_table_version", "version",
    "table, kind",
    "Updates of the table: pushes in async mode, rounds in sync mode."};
constexpr Metric kHeldPushes = {
    MetricKind::kGauge, "oarlock_server_held_pushes", "pushes", "table, kind",
    "Messages of pushes that wait for their round, or their quorum."};
constexpr Metric kOverdueUpdates = {MetricKind::kCounter,
                                    "oarlock_server_overdue_updates_total",
                                    "updates", "table, kind",
                                    "Updates of a dense table that were made "
                                    "without their quorum, since it had "
                                    "not come in time."};
constexpr Metric kAdmittedRows = {MetricKind::kCounter,
                                  "oarlock_server_admitted_rows_total", "rows",
                                  "table, kind", "Rows that were created."};
constexpr Metric kRejectedKeys = {
    MetricKind::kCounter, "oarlock_server_rejected_keys_total", "keys",
    "table, kind",
    "Keys of pushes whose gradients were dropped since the key is not "
    "admitted."};
constexpr Metric kEvictedRows = {MetricKind::kCounter,
                                 "oarlock_server_evicted_rows_total", "rows",
                                 "table, kind", "Rows that were evicted."};
constexpr Metric kColdRows = {
    MetricKind::kGauge, "oarlock_server_cold_rows", "rows", "table, kind",
    "Rows of table_rows that lie on disk and not in memory."};
constexpr Metric kDemotedRows = {
    MetricKind::kCounter, "oarlock_server_demoted_rows_total", "rows",
    "table, kind", "Rows that went from memory to disk."};
constexpr Metric kPromotedRows = {
    MetricKind::kCounter, "oarlock_server_promoted_rows_total", "rows",
    "table, kind", "Rows that came back from disk."};
constexpr Metric kLogicalTime = {
    MetricKind::kGauge, "oarlock_server_logical_time_ticks", "ticks", "",
    "The latest logical time of the job that this server has heard of."};

}  // namespace

void CollectTableMetrics(const TableRegistry& registry,
                         MetricsSnapshot* snapshot) {
  for (const TableEntry* entry : registry.Entries()) {
    const v1::TableStatus table = DescribeTable(*entry);
    const bool is_sparse = table.config().has_sparse();
    const MetricsSnapshot::Labels labels = {
        {"table", table.config().name()},
        {"kind", is_sparse ? "sparse" : "dense"}};
    const auto add = [&](const Metric& metric, uint64_t value) {
      snapshot->Add(metric, static_cast<double>(value), labels);
    };
    add(kRows, table.rows());
    add(kBytes, table.bytes());
    add(kPullRows, table.pulled_rows());
    add(kPushRows, table.pushed_rows());
    add(kVersion, table.version());
    add(kHeldPushes, entry->aggregator->HeldPushes());
    if (!is_sparse) {
      add(kOverdueUpdates, entry->aggregator->OverdueUpdates());
      continue;
    }
    add(kAdmittedRows, table.admitted_rows());
    add(kRejectedKeys, table.rejected_keys());
    add(kEvictedRows, table.evicted_rows());
    add(kColdRows, table.cold_rows());
    add(kDemotedRows, table.demoted_rows());
    add(kPromotedRows, table.promoted_rows());
  }
  snapshot->Add(kLogicalTime, static_cast<double>(registry.clock().Now()));
}

MetricList TableMetricsList() {
  static constexpr const Metric* kAll[] = {
      &kRows,         &kBytes,       &kPullRows,       &kPushRows,
      &kVersion,      &kHeldPushes,  &kOverdueUpdates, &kAdmittedRows,
      &kRejectedKeys, &kEvictedRows, &kColdRows,       &kDemotedRows,
      &kPromotedRows, &kLogicalTime};
  return kAll;
}

}  // namespace oarlock::pserver
