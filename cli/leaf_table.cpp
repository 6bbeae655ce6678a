// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/leaf_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "cli/cache_layout.hpp"
#include "model/description_yaml.hpp"
#include "model/workload.hpp"

namespace gpuinfer::cli {

namespace {

using model::CacheDescription;

std::string joined_bits(const std::vector<unsigned>& bits) { return fmt::format("{}", fmt::join(bits, ", ")); }

std::optional<std::string> bytes_text(const std::optional<std::uint64_t>& bytes) {
  return bytes ? std::optional(grouped(*bytes) + " B") : std::nullopt;
}

std::optional<std::string> latency_text(const model::LatencyCycles& latency) {
  if (!latency.hit && !latency.miss) {
    return std::nullopt;
  }
  const auto cycles = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "?"; };
  return "hit " + cycles(latency.hit) + ", miss " + cycles(latency.miss) + " cycles";
}

std::optional<std::string> carveouts_text(const std::vector<model::Carveout>& carveouts) {
  std::string text;
  for (const model::Carveout& carveout : carveouts) {
    text += fmt::format("{}{} KB: {}", text.empty() ? "" : "; ", carveout.carveout_kb,
                        bytes_text(carveout.onset_bytes).value_or("?"));
  }
  return text.empty() ? std::nullopt : std::optional(text);
}

std::optional<std::string> targets_text(const std::optional<std::vector<std::string>>& targets) {
  if (!targets) {
    return std::nullopt;
  }
  return targets->empty() ? "no other path" : fmt::format("{}", fmt::join(*targets, ", "));
}

std::optional<std::string> partitions_text(const std::optional<model::Partitions>& partitions) {
  if (!partitions) {
    return std::nullopt;
  }
  std::vector<std::size_t> sms;
  std::transform(partitions->sms.begin(), partitions->sms.end(), std::back_inserter(sms),
                 [](const auto& list) { return list.size(); });
  const std::string resident = partitions->resident_bytes
                                   ? fmt::format("; {} to {} B present near an SM",
                                                 grouped(static_cast<std::uint64_t>(partitions->resident_bytes->at(0))),
                                                 grouped(static_cast<std::uint64_t>(partitions->resident_bytes->at(1))))
                                   : "";
  return fmt::format("near to {} SMs, {} cycles more from the other; {}{}", fmt::join(sms, " and "),
                     partitions->far_cycles, model::to_flow_yaml(partitions->index), resident);
}

std::optional<std::string> interval_text(const std::optional<std::array<double, 2>>& bytes) {
  return bytes
             ? std::optional(fmt::format("{} to {} B on an average", grouped(static_cast<std::uint64_t>(bytes->at(0))),
                                         grouped(static_cast<std::uint64_t>(bytes->at(1)))))
             : std::nullopt;
}

std::optional<std::string> sharers_text(const std::vector<std::vector<std::uint32_t>>& sms) {
  if (sms.empty()) {
    return std::nullopt;
  }
  std::map<std::size_t, std::size_t> count_of_size;
  for (const auto& list : sms) {
    ++count_of_size[list.size()];
  }
  std::vector<std::string> texts;
  for (const auto& [size, count] : count_of_size) {
    texts.push_back(fmt::format("{} by {} SMs", count, size));
  }
  return fmt::format("{}: {}", sms.size(), fmt::join(texts, ", "));
}

LeafValues leaf_values(const CacheDescription& cache) {
  return {
      {"capacity_bytes", bytes_text(cache.capacity_bytes)},
      {"onset_bytes", bytes_text(cache.onset_bytes)},
      {"line_bytes", bytes_text(cache.line_bytes)},
      {"sector_bytes", bytes_text(cache.sector_bytes)},
      {"ways", cache.ways ? std::optional(ways_text(*cache.ways)) : std::nullopt},
      {"index", cache.index ? std::optional(index_text(*cache.index)) : std::nullopt},
      {"replacement", cache.replacement ? std::optional(model::to_flow_yaml(*cache.replacement)) : std::nullopt},
      {"store_lines", cache.store_lines ? std::optional(grouped(*cache.store_lines)) : std::nullopt},
      {"sweep", cache.sweep ? std::optional(sweep_text(*cache.sweep)) : std::nullopt},
      {"latency_cycles", latency_text(cache.latency_cycles)},
      {"carveouts", carveouts_text(cache.carveouts)},
      {"shared_with", targets_text(cache.shared_with)},
      {"partitions", partitions_text(cache.partitions)},
      {"resident_bytes", interval_text(cache.resident_bytes)},
      {"shared_by_sms", sharers_text(cache.shared_by_sms)},
      {"sms", "see below"},
  };
}

std::optional<std::string> texels_text(const std::optional<model::TexelBlock>& block) {
  return block ? std::optional(model::to_string(*block) + " texels") : std::nullopt;
}

// From the inside out.
std::optional<std::string> tiles_text(const std::optional<std::vector<model::TileLevel>>& levels) {
  if (!levels) {
    return std::nullopt;
  }
  std::string text;
  for (const model::TileLevel& level : *levels) {
    text += fmt::format("{} x {} {}, then ", level.width, level.height,
                        level.order == model::TileOrder::linear ? "row by row" : "in Morton order");
  }
  return text + "row by row";
}

LeafValues leaf_values(const model::TextureDescription& texture) {
  return {
      {"latency_cycles", latency_text(texture.latency_cycles)},
      {"sector_texels", texels_text(texture.sector_texels)},
      {"line_texels", texels_text(texture.line_texels)},
      {"levels", tiles_text(texture.levels)},
  };
}

LeafValues leaf_values(const model::CodeDescription& code) {
  if (!code.levels) {
    return {{"levels", std::nullopt}};
  }
  std::string text;
  for (const model::CodeLevel& level : *code.levels) {
    text += fmt::format("{}{}: {} cycles for {} B", text.empty() ? "" : "; ",
                        level.fits_bytes ? "up to " + grouped(*level.fits_bytes) + " B" : "any length", level.cycles,
                        grouped(code.piece_bytes));
  }
  return {{"levels", text}};
}

std::optional<std::string> count_text(const std::optional<std::uint32_t>& count) {
  return count ? std::optional(grouped(*count)) : std::nullopt;
}

std::optional<std::string> bytes_text(const std::optional<std::uint32_t>& bytes) {
  return bytes_text(bytes ? std::optional<std::uint64_t>(*bytes) : std::nullopt);
}

std::optional<std::string> latency_text(const model::SharedMemoryLatency& latency) {
  std::string text;
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  if (latency.broadcast) {
    add(fmt::format("{:.5g} cycles without conflict", *latency.broadcast));
  }
  if (latency.per_way) {
    add(fmt::format("{:.4g} more for each further way", *latency.per_way));
  }
  for (const model::DegreeLatency& each : latency.by_degree) {
    add(fmt::format("{}-way {:.5g}", each.degree, each.cycles));
  }
  return text.empty() ? std::nullopt : std::optional(text);
}

LeafValues leaf_values(const model::SharedMemoryDescription& shared_memory) {
  return {{"banks", count_text(shared_memory.banks)},
          {"bank_width_bytes", bytes_text(shared_memory.bank_width_bytes)},
          {"row_bytes", bytes_text(shared_memory.row_bytes)},
          {"latency_cycles", latency_text(shared_memory.latency_cycles)}};
}

LeafValues leaf_values(const model::PatternLatencyCycles& cycles) {
  LeafValues values;
  for (std::size_t i = 0; i < cycles.size(); ++i) {
    values.emplace_back(model::pattern_names[i],
                        cycles[i] ? std::optional(fmt::format("{} cycles", *cycles[i])) : std::nullopt);
  }
  return values;
}

LeafValues leaf_values(const model::OutstandingDescription& outstanding) {
  std::optional<std::string> merges = count_text(outstanding.merges);
  if (!merges && outstanding.merges_at_least) {
    merges = "at least " + grouped(*outstanding.merges_at_least);
  }
  return {{"kind", outstanding.kind ? std::optional(std::string(to_string(*outstanding.kind))) : std::nullopt},
          {"entries", count_text(outstanding.entries)},
          {"merges", merges},
          {"loads_per_warp", count_text(outstanding.loads_per_warp)}};
}

std::string bandwidth_text(const model::ElementBandwidth& bandwidth) {
  constexpr double giga = 1e9;
  return fmt::format("{} GB/s, {:.4g} elements of {} bits per SM and clock",
                     grouped(static_cast<std::uint64_t>(std::llround(bandwidth.bytes_per_second / giga))),
                     bandwidth.elements_per_sm_clock, bandwidth.element_bits);
}

LeafValues leaf_values(const model::BandwidthDescription& bandwidth) {
  LeafValues values;
  for (const std::string_view name : model::bandwidth_names) {
    if (const auto memory = bandwidth.find(std::string(name)); memory != bandwidth.end()) {
      values.emplace_back(name,
                          memory->second.best ? std::optional(bandwidth_text(*memory->second.best)) : std::nullopt);
    }
  }
  return values;
}

std::string kernel_text(const model::KernelResult& result) {
  constexpr double giga = 1e9;
  constexpr double milliseconds_of_second = 1e3;
  constexpr double percent = 100;
  const double bytes_per_second = static_cast<double>(result.level_bytes.at(result.dominant)) / result.seconds;
  return fmt::format("{} {:.1f} % of {} GB/s, {:.3g} ms", result.dominant, result.share * percent,
                     grouped(static_cast<std::uint64_t>(std::llround(bytes_per_second / result.share / giga))),
                     result.seconds * milliseconds_of_second);
}

LeafValues leaf_values(const model::KernelResults& kernels) {
  LeafValues values;
  for (const model::KernelName kernel : model::kernel_names) {
    for (const model::KernelVariant variant : model::kernel_variants) {
      const std::string name = name_of(kernel, variant);
      const auto result = kernels.find(name);
      const bool is_known = result != kernels.end() && result->second.seconds > 0 && result->second.share > 0;
      values.emplace_back(name, is_known ? std::optional(kernel_text(result->second)) : std::nullopt);
    }
  }
  return values;
}

}  // namespace

LeafValues leaf_values(const model::DeviceDescription& profile, const std::string& section) {
  if (const auto cache = profile.caches.find(section); cache != profile.caches.end()) {
    return leaf_values(cache->second);
  }
  if (const auto texture = profile.textures.find(section); texture != profile.textures.end()) {
    return leaf_values(texture->second);
  }
  if (section == "shared_memory") {
    return leaf_values(profile.shared_memory.value_or(model::SharedMemoryDescription{}));
  }
  if (section == "memory_latency_cycles") {
    return leaf_values(profile.memory_latency_cycles.value_or(model::PatternLatencyCycles{}));
  }
  if (section == "outstanding") {
    return leaf_values(profile.outstanding.value_or(model::OutstandingDescription{}));
  }
  if (section == "bandwidth") {
    return leaf_values(profile.bandwidth);
  }
  if (section == "kernels") {
    return leaf_values(profile.kernels);
  }
  return leaf_values(profile.code.at(section));
}

namespace {

std::string below(std::string_view text) { return wrapped(text, std::string(20, ' ')); }

// Of the column of names.
std::size_t name_columns(const LeafValues& values) {
  std::size_t columns = 16;
  for (const auto& [leaf, value] : values) {
    columns = std::max(columns, leaf.size());
  }
  return columns;
}

std::string leaf_lines(const std::string& leaf, std::size_t columns, const std::string& value,
                       const model::LeafEvidence& evidence, const Ink& ink) {
  const std::string confidence = evidence.confidence ? fmt::format("{:.6g}", *evidence.confidence) : "";
  std::string lines =
      fmt::format("  {:<{}}  {}  {:<8}  {}\n", leaf, columns,
                  ink.status(evidence.status, fmt::format("{:<9}", to_string(evidence.status))), confidence, value);
  for (const auto& [name, detail] : evidence.details) {
    lines += below(fmt::format("{}: {}", name, detail));
  }
  constexpr std::size_t most_alternatives = 24;
  const std::size_t told = std::min(evidence.alternatives.size(), most_alternatives);
  for (std::size_t i = 0; i < told; ++i) {
    lines += below("or " + evidence.alternatives[i]);
  }
  if (told < evidence.alternatives.size()) {
    lines += below(fmt::format("or {} others, which the profile names", evidence.alternatives.size() - told));
  }
  return lines;
}

std::string what_is_missing(const model::LeafEvidence& evidence) {
  return (evidence.reason.empty() ? "" : below(evidence.reason)) +
         (evidence.decided_by.empty() ? "" : below("would decide: " + evidence.decided_by));
}

std::string prediction_line(const model::PredictionEvidence& prediction) {
  std::string line = fmt::format("  prediction        {} fresh accesses in {} sequences", grouped(prediction.accesses),
                                 prediction.sequences);
  if (prediction.agreement) {
    line += fmt::format(", agreement {:.6g}", *prediction.agreement);
  }
  if (prediction.voted_agreement) {
    line += fmt::format(", voted {:.6g}", *prediction.voted_agreement);
  }
  if (prediction.p_value) {
    line += fmt::format(", p {:.3g}", *prediction.p_value);
  }
  if (prediction.outliers > 0) {
    line += fmt::format(", {} outliers", prediction.outliers);
  }
  return line + '\n';
}

std::string table_of(const LeafValues& values, const model::CacheEvidence& evidence, const Ink& ink) {
  std::string table;
  const std::size_t columns = name_columns(values);
  std::string missing;  // of the leaves just written: neighbours often lack the same
  for (const auto& [leaf, value] : values) {
    const auto found = evidence.leaves.find(leaf);
    if (found == evidence.leaves.end()) {
      continue;
    }
    if (const std::string own = what_is_missing(found->second); own != missing) {
      table += missing;
      missing = own;
    }
    const bool is_resolved = found->second.status == model::EvidenceStatus::resolved;
    table += leaf_lines(leaf, columns, value.value_or(is_resolved ? "none" : "not known"), found->second, ink);
  }
  table += missing;
  if (evidence.prediction) {
    table += prediction_line(*evidence.prediction);
  }
  return table;
}

}  // namespace

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t digits = 3; digits < text.size(); digits += 4) {
    text.insert(text.size() - digits, ",");
  }
  return text;
}

std::string ways_text(const std::vector<std::uint32_t>& ways) {
  std::string text;
  for (auto run = ways.begin(); run != ways.end();) {
    const auto end = std::find_if(run, ways.end(), [&](std::uint32_t count) { return count != *run; });
    text += text.empty() ? "" : ", ";
    text += end - run > 1 ? fmt::format("{} x {}", end - run, *run) : std::to_string(*run);
    run = end;
  }
  return text;
}

std::string index_text(const model::IndexFunction& index) {
  struct Words {
    std::string operator()(const model::BitsIndex& bits) const {
      return bits.bits.empty() ? "one set" : "address bits " + joined_bits(bits.bits);
    }
    std::string operator()(const model::XorIndex& rows) const {
      return fmt::format("xor of address bits, {} rows", rows.row_masks.size());
    }
    std::string operator()(const model::ModuloIndex& modulo) const {
      return modulo.sets_count == 1
                 ? "one set"
                 : fmt::format("(address / {}) mod {}", grouped(modulo.granule_bytes), modulo.sets_count);
    }
    std::string operator()(const model::SumIndex& sum) const {
      std::string fields;
      for (const model::BitsIndex& field : sum.fields) {
        fields += (fields.empty() ? "bits " : " + bits ") + joined_bits(field.bits);
      }
      return fmt::format("({}) mod {}", fields, sum.sets_count);
    }
    std::string operator()(const model::TableIndex& table) const {
      return fmt::format("table of {} granules of {} B{}", table.sets_of.size(), grouped(table.granule_bytes),
                         table.range_bytes ? "" : ", repeating");
    }
  };
  return std::visit(Words{}, index);
}

std::string wrapped(std::string_view text, const std::string& indent, std::size_t columns) {
  const std::size_t room = columns - indent.size();
  std::string lines;
  std::string line;
  const auto end_line = [&] {
    lines += indent + line + '\n';
    line.clear();
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    std::string word(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.size() > room) {
      word.replace(room - 3, std::string::npos, "...");
    }
    if (!line.empty() && line.size() + 1 + word.size() > room) {
      end_line();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) {
    end_line();
  }
  return lines;
}

std::string leaf_table(const model::DeviceDescription& profile, const std::string& section, const Ink& ink) {
  return table_of(leaf_values(profile, section), profile.evidence.at(section), ink);
}

std::map<std::string, std::string> known_values(const model::DeviceDescription& profile, const std::string& section) {
  constexpr std::array<std::string_view, 5> keys{"shared_memory", "memory_latency_cycles", "outstanding", "bandwidth",
                                                 "kernels"};
  std::map<std::string, std::string> values;
  if (profile.caches.contains(section) || profile.textures.contains(section) || profile.code.contains(section) ||
      std::ranges::find(keys, section) != keys.end()) {
    for (const auto& [leaf, value] : leaf_values(profile, section)) {
      // The last leaf of a cache has no words of its own.
      if (value && leaf != "sms") {
        values[leaf] = *value;
      }
    }
  }
  return values;
}

std::string value_table(const model::DeviceDescription& profile, const std::string& section) {
  std::string table;
  const LeafValues values = leaf_values(profile, section);
  const std::size_t columns = name_columns(values);
  for (const auto& [leaf, value] : values) {
    const std::string below_leaf = below(value.value_or("not known"));
    table +=
        fmt::format("  {:<{}}  {}", leaf, columns, below_leaf.substr(std::min<std::size_t>(20, below_leaf.size())));
  }
  return table;
}

}  // namespace gpuinfer::cli
