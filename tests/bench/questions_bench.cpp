// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
// What an inference costs in accesses, on virtual devices: README.md beside it says what the tables hold.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "infer/cache/granularity.hpp"
#include "infer/cache/index_search.hpp"
#include "infer/cache/infer_cache.hpp"
#include "infer/cache/partition.hpp"
#include "infer/cache/set_map.hpp"
#include "infer/policy/replacement_fit.hpp"
#include "model/policy_classes.hpp"
#include "probe/virtual_device.hpp"
#include "tests/infer/calibrated.hpp"

namespace gpuinfer::infer {
namespace {

constexpr std::uint64_t line_bytes = 32;
const std::string target = "L1tex";

model::Replacement policy(std::string name) { return {.policy = std::move(name), .parameters = {}, .equivalent = {}}; }

std::unique_ptr<model::Answerer> device_of(std::vector<std::uint32_t> ways, model::IndexFunction index,
                                           model::Replacement replacement, std::uint64_t seed) {
  model::CacheDescription cache;
  cache.line_bytes = cache.sector_bytes = line_bytes;
  cache.ways = std::move(ways);
  cache.index = std::move(index);
  cache.replacement = std::move(replacement);
  cache.latency_cycles = {.hit = 100, .miss = 220};
  model::DeviceDescription description;
  description.device.name = "measured";
  description.caches[target] = cache;
  description.noise = model::NoiseDescription{.jitter_cycles = 2};
  return probe::open_virtual(description, "virtual:measured", seed);
}

model::XorIndex hash(unsigned set_bits) {
  model::XorIndex index;
  for (unsigned bit = 0; bit < set_bits; ++bit) {
    index.row_masks.push_back((std::uint64_t{1} << (5 + bit)) | (std::uint64_t{1} << (25 - bit % 4)) |
                              (std::uint64_t{1} << (21 - bit % 3)));
  }
  return index;
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The bits that the chases recorded, while somebody looked at the index.
class CountedDevice final : public model::Answerer {
 public:
  explicit CountedDevice(model::Answerer& device) : device_(&device) {}

  [[nodiscard]] const model::DeviceFacts& facts() const override { return device_->facts(); }
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    for (const model::Question& question : questions) {
      recorded_ += question.record.size();
    }
    return device_->ask(questions);
  }
  [[nodiscard]] std::size_t recorded() const { return recorded_; }

 private:
  model::Answerer* device_;
  std::size_t recorded_ = 0;
};

void whole_inference_of_a_texture_cache() {
  constexpr std::uint64_t runs = 21;
  std::vector<double> accesses;
  bool all_resolved = true;
  for (std::uint64_t seed = 1; seed <= runs; ++seed) {
    const auto device = device_of({96, 96, 96, 96}, model::BitsIndex{.bits = {7, 8}}, policy("lru"), seed);
    Settings settings;
    settings.seed = seed;
    const CacheFinding finding = infer_cache(*device, target, settings);
    accesses.push_back(static_cast<double>(finding.accesses));
    all_resolved = all_resolved && finding.all_resolved();
  }
  fmt::print("4 x 96 ways, LRU, from nothing to a verified description ({} seeds, {}):\n", runs,
             all_resolved ? "all resolved" : "NOT all resolved");
  fmt::print("  accesses: median {:.0f}, most {:.0f}\n\n", median_of(accesses),
             *std::max_element(accesses.begin(), accesses.end()));
}

void growth() {
  fmt::print("Growth with the cache: 16 ways, LRU, three address bits in each set bit\n");
  fmt::print("  {:>8} {:>8} {:>12} {:>10}  accesses per line\n", "lines", "sets", "accesses", "questions");
  std::vector<double> log_lines;
  std::vector<double> log_accesses;
  for (unsigned set_bits = 3; set_bits <= 13; ++set_bits) {
    const std::size_t sets = std::size_t{1} << set_bits;
    const std::size_t lines = 16 * sets;
    const auto device = device_of(std::vector<std::uint32_t>(sets, 16), hash(set_bits), policy("lru"), 1);
    const CacheFinding finding = infer_cache(*device, target, {});
    const double per_line = static_cast<double>(finding.accesses) / static_cast<double>(lines);
    fmt::print("  {:>8} {:>8} {:>12} {:>10}  {:>6.1f} {}{}\n", lines, sets, finding.accesses, finding.questions,
               per_line, std::string(static_cast<std::size_t>(std::min(60.0, per_line / 4)), '#'),
               finding.all_resolved() ? "" : " NOT RESOLVED");
    if (set_bits >= 6) {  // below, verification costs more than all the rest
      log_lines.push_back(std::log(static_cast<double>(lines)));
      log_accesses.push_back(std::log(static_cast<double>(finding.accesses)));
    }
  }
  const auto n = static_cast<double>(log_lines.size());
  const double mean_x = std::accumulate(log_lines.begin(), log_lines.end(), 0.0) / n;
  const double mean_y = std::accumulate(log_accesses.begin(), log_accesses.end(), 0.0) / n;
  double covariance = 0;
  double variance = 0;
  for (std::size_t i = 0; i < log_lines.size(); ++i) {
    covariance += (log_lines[i] - mean_x) * (log_accesses[i] - mean_y);
    variance += (log_lines[i] - mean_x) * (log_lines[i] - mean_x);
  }
  fmt::print("  accesses grow with the lines to the power of {:.2f} (from 1,024 lines on)\n\n", covariance / variance);
}

struct NamedIndex {
  std::string name;
  model::IndexFunction index;
  std::uint32_t ways;
};

model::TableIndex random_table(std::uint32_t sets, std::size_t granules) {
  model::Random random(sets);
  model::TableIndex table{.granule_bytes = line_bytes, .sets_of = {}, .origin = 0, .range_bytes = {}};
  for (std::size_t granule = 0; granule < granules; ++granule) {
    table.sets_of.push_back(static_cast<std::uint32_t>(granule % sets));
  }
  random.shuffle(table.sets_of);
  return table;
}

// Once the onset and the line are known: the answers that are recorded until every one of N lines has its set.
void index_functions() {
  fmt::print("Index functions: recorded accesses, of which each is a bit at most, and the bits in the answer\n");
  fmt::print("  {:<26} {:>6} {:>5} {:>5} {:>10} {:>12} {:>7}\n", "index", "lines", "sets", "ways", "recorded",
             "N log2 S", "ratio");
  const std::vector<NamedIndex> indexes{
      {.name = "bits", .index = model::BitsIndex{.bits = {7, 8}}, .ways = 96},
      {.name = "xor, 3 bits a row", .index = hash(3), .ways = 16},
      {.name = "xor, 3 bits a row", .index = hash(6), .ways = 16},
      {.name = "xor, 3 bits a row", .index = hash(10), .ways = 16},
      {.name = "modulo", .index = model::ModuloIndex{.granule_bytes = 64, .sets_count = 7}, .ways = 12},
      {.name = "table of 256", .index = random_table(4, 256), .ways = 96},
      {.name = "table of 256", .index = random_table(8, 256), .ways = 16},
      {.name = "table of 256", .index = random_table(16, 256), .ways = 8},
  };
  for (const NamedIndex& each : indexes) {
    const std::uint32_t sets = model::sets(each.index);
    const auto device = device_of(std::vector<std::uint32_t>(sets, each.ways), each.index, policy("lru"), 1);
    CountedDevice counted(*device);
    const Settings settings;
    Interrogator interrogator = calibrated(counted, settings, target);
    Conflicts conflicts(interrogator, 1);
    if (!interrogator.classifier().levels_are_apart()) {
      continue;
    }
    interrogator.set_line(line_bytes);
    const Onset onset = find_onset(interrogator, conflicts, line_bytes, aligned_start(interrogator));
    const std::size_t before = counted.recorded();
    Partitioner partitioner(interrogator, conflicts, line_bytes, *onset.granules);
    std::string reason;
    const auto first = partitioner.first_set(reason);
    const bool is_table = std::holds_alternative<model::TableIndex>(each.index);
    // A function speaks of all lines of the buffer, a table of those that were looked at.
    std::size_t lines = counted.facts().buffer.bytes / line_bytes;
    if (!is_table && !guess_linear(interrogator, conflicts, *first, line_bytes, *onset.granules) &&
        guess_modulo(interrogator, *first, line_bytes, *onset.granules).empty()) {
      fmt::print("  {:<26} not found\n", each.name);
      continue;
    }
    if (is_table) {
      const Partition partition = partitioner.find(*first);
      lines = 0;
      for (const ConflictClass& set : partition.classes) {
        lines += set.lines.size();
      }
    }
    const auto recorded = static_cast<double>(counted.recorded() - before);
    const double bits = static_cast<double>(lines) * std::log2(static_cast<double>(sets));
    fmt::print("  {:<26} {:>6} {:>5} {:>5} {:>10.0f} {:>12.0f} {:>7.4f}\n", each.name, lines, sets, each.ways, recorded,
               bits, recorded / bits);
  }
  fmt::print("\n");
}

void policies() {
  for (const std::uint32_t ways : {4U, 8U}) {
    const std::vector<model::Replacement> all = model::guessed_policies({ways});
    const std::vector<model::PolicyClass> classes =
        model::policy_classes(ways, all, {.pairs_of_states = std::size_t{1} << 14U});
    std::vector<double> sequences;
    std::size_t wrong = 0;
    for (const model::PolicyClass& each : classes) {
      const auto device = device_of({ways, ways}, model::BitsIndex{.bits = {5}}, each.members.front(), 1);
      const Settings settings;
      Interrogator interrogator = calibrated(*device, settings, target);
      if (!interrogator.classifier().levels_are_apart()) {
        continue;
      }
      interrogator.set_line(line_bytes);
      const model::IndexFunction index = model::BitsIndex{.bits = {5}};
      const auto sets = single_sets(interrogator, index, {ways, ways}, line_bytes, 2);
      const ReplacementFit fit = fit_replacement(interrogator, sets);
      const bool named =
          fit.candidates.size() == 1 && model::compare(fit.candidates.front(), each.members.front(), ways).is_alike();
      wrong += named ? 0 : 1;
      sequences.push_back(static_cast<double>(fit.details.sequences_to_narrow.value_or(0)));
    }
    fmt::print(
        "Policies of {} ways: {} names, {} that behave differently; sequences to name one: mean {:.2f}, most {:.0f};"
        " not named: {}\n",
        ways, all.size(), classes.size(),
        std::accumulate(sequences.begin(), sequences.end(), 0.0) / static_cast<double>(sequences.size()),
        *std::max_element(sequences.begin(), sequences.end()), wrong);
  }
}

}  // namespace
}  // namespace gpuinfer::infer

int main() {
  gpuinfer::infer::whole_inference_of_a_texture_cache();
  gpuinfer::infer::growth();
  gpuinfer::infer::index_functions();
  gpuinfer::infer::policies();
}
