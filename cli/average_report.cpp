// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/average_report.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gpuinfer::cli {

namespace {

using infer::AverageFinding;

template <class Value>
std::string value_or_dash(const std::optional<Value>& value) {
  return value ? std::to_string(*value) : "-";
}

template <class Value>
bool differ(const std::vector<AverageFinding>& findings, std::optional<Value> AverageFinding::*leaf) {
  return std::any_of(findings.begin(), findings.end(), [&](const AverageFinding& finding) {
    return finding.*leaf && findings.front().*leaf && finding.*leaf != findings.front().*leaf;
  });
}

}  // namespace

std::vector<std::string> contradictions(const std::vector<AverageFinding>& findings) {
  std::vector<std::string> leaves;
  if (differ(findings, &AverageFinding::capacity_bytes)) {
    leaves.emplace_back("capacity_bytes");
  }
  if (differ(findings, &AverageFinding::line_bytes)) {
    leaves.emplace_back("line_bytes");
  }
  if (differ(findings, &AverageFinding::sets)) {
    leaves.emplace_back("sets");
  }
  return leaves;
}

Document average_report(const std::string& target, const std::vector<AverageFinding>& findings) {
  Document report;
  report["target"] = target;
  report["contradictions"] = contradictions(findings);
  for (const AverageFinding& finding : findings) {
    Document& method = report["methods"][finding.method];
    method["capacity_bytes"] = value_or_null(finding.capacity_bytes);
    method["line_bytes"] = value_or_null(finding.line_bytes);
    method["sets"] = value_or_null(finding.sets);
    method["curve"] = Document::array();
    for (const infer::AveragePoint& point : finding.curve) {
      method["curve"].push_back({{"array_bytes", point.array_bytes},
                                 {"stride_bytes", point.stride_bytes},
                                 {"latency_cycles", point.latency_cycles}});
    }
  }
  return report;
}

std::string average_table(const std::string& target, const std::vector<AverageFinding>& findings) {
  std::string table = fmt::format("\n{}, by average latencies\n  {:<10} {:>15} {:>11} {:>5}\n", target, "method",
                                  "capacity_bytes", "line_bytes", "sets");
  for (const AverageFinding& finding : findings) {
    table += fmt::format("  {:<10} {:>15} {:>11} {:>5}\n", finding.method, value_or_dash(finding.capacity_bytes),
                         value_or_dash(finding.line_bytes), value_or_dash(finding.sets));
  }
  for (const std::string& leaf : contradictions(findings)) {
    table += "  the methods contradict each other on " + leaf + '\n';
  }
  return table;
}

}  // namespace gpuinfer::cli
