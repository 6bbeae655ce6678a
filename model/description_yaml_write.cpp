// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <utility>

#include "model/description_yaml.hpp"
#include "model/number_text.hpp"
#include "model/yaml_tree.hpp"

namespace gpuinfer::model {

namespace {

using FlowEntries = std::vector<std::pair<std::string, std::string>>;

template <class Value>
std::string text_or_null(const std::optional<Value>& value) {
  return value ? to_text(*value) : "null";
}

template <class Value, class Text>
FlowYaml list_of(const std::vector<Value>& values, Text&& text_of) {
  std::vector<std::string> texts(values.size());
  std::transform(values.begin(), values.end(), texts.begin(), text_of);
  return flow_list(texts);
}

template <class Number>
FlowYaml number_list(const std::vector<Number>& numbers) {
  return list_of(numbers, [](Number number) { return to_text(number); });
}

FlowYaml scalar_or_null(const std::string& text) { return text.empty() ? "null" : to_yaml_scalar(text); }

FlowYaml bit_lists(const std::vector<std::vector<unsigned>>& lists) { return list_of(lists, number_list<unsigned>); }

FlowEntries parameters_of(const BitsIndex& index) { return {{"bits", number_list(index.bits)}}; }

FlowEntries parameters_of(const XorIndex& index) {
  std::vector<std::vector<unsigned>> rows;
  for (const std::uint64_t mask : index.row_masks) {
    rows.emplace_back();
    for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1) {
      rows.back().push_back(static_cast<unsigned>(std::countr_zero(rest)));
    }
  }
  return {{"rows", bit_lists(rows)}, {"constant", to_text(index.constant)}};
}

FlowEntries parameters_of(const ModuloIndex& index) {
  return {{"granule_bytes", to_text(index.granule_bytes)}, {"sets", to_text(index.sets_count)}};
}

FlowEntries parameters_of(const SumIndex& index) {
  std::vector<std::vector<unsigned>> fields;
  for (const BitsIndex& field : index.fields) {
    fields.push_back(field.bits);
  }
  return {{"fields", bit_lists(fields)}, {"sets", to_text(index.sets_count)}};
}

FlowEntries parameters_of(const TableIndex& index) {
  FlowEntries entries{{"granule_bytes", to_text(index.granule_bytes)}, {"sets_of", number_list(index.sets_of)}};
  if (index.origin != 0) {
    entries.emplace_back("origin", to_text(index.origin));
  }
  if (index.range_bytes) {
    entries.emplace_back("range_bytes", to_text(*index.range_bytes));
  }
  return entries;
}

FlowEntries index_entries(const IndexFunction& index) {
  FlowEntries entries = std::visit([](const auto& kind) { return parameters_of(kind); }, index);
  entries.insert(entries.begin(), {"kind", std::string(kind_name(index))});
  return entries;
}

FlowYaml index_leaf(const CacheDescription& cache) {
  if (!cache.index && !cache.exercised_bits) {
    return "null";
  }
  FlowEntries entries = cache.index ? index_entries(*cache.index) : FlowEntries{{"kind", "null"}};
  if (cache.exercised_bits) {
    entries.emplace_back("exercised_bits", number_list(*cache.exercised_bits));
  }
  return flow_map(entries);
}

// A whole number of type double keeps its `.0`, which is what tells it from an integer when it is read back.
struct ParameterText {
  FlowYaml operator()(std::int64_t number) const { return to_text(number); }
  FlowYaml operator()(double number) const {
    const std::string text = to_text(number);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  // `true` and `false` stay bare: they are words here, and truth values to whoever else reads this.
  FlowYaml operator()(const std::string& text) const {
    return text == "true" || text == "false" ? text : to_yaml_scalar(text);
  }
  FlowYaml operator()(const std::vector<double>& numbers) const { return number_list(numbers); }
  FlowYaml operator()(const std::vector<std::vector<double>>& lists) const {
    return list_of(lists, number_list<double>);
  }
};

FlowYaml text_map(const std::map<std::string, std::string>& texts) {
  FlowEntries entries;
  for (const auto& [name, text] : texts) {
    entries.emplace_back(to_yaml_scalar(name), to_yaml_scalar(text));
  }
  return flow_map(entries);
}

FlowYaml text_list(const std::vector<std::string>& texts) { return list_of(texts, to_yaml_scalar); }

FlowYaml device_leaf(const DeviceDescription::Device& device) {
  FlowEntries entries{{"name", scalar_or_null(device.name)}, {"source", scalar_or_null(device.source)}};
  if (device.compute_capability) {
    entries.emplace_back("compute_capability", to_yaml_scalar(*device.compute_capability));
  }
  if (device.sm_count) {
    entries.emplace_back("sm_count", to_text(*device.sm_count));
  }
  if (!device.provenance.empty()) {
    entries.emplace_back("provenance", text_map(device.provenance));
  }
  return flow_map(entries);
}

FlowYaml fill_leaf(const Fill& fill) {
  FlowEntries entries{{"prefetch_lines", to_text(fill.prefetch_lines)}};
  if (fill.prefetch_on != PrefetchOn::miss) {
    entries.emplace_back("prefetch_on", fill.prefetch_on == PrefetchOn::access ? "access" : "stride");
  }
  if (fill.fetch_bytes) {
    entries.emplace_back("fetch_bytes", to_text(*fill.fetch_bytes));
  }
  return flow_map(entries);
}

FlowYaml walk_leaf(const Walk& walk) {
  return flow_map({{"banks", to_text(walk.banks)},
                   {"lines_on_hit", to_text(walk.lines_on_hit)},
                   {"lines_on_replacement", to_text(walk.lines_on_replacement)},
                   {"lines_on_fill", to_text(walk.lines_on_fill)}});
}

FlowYaml twin_leaf(const Twin& twin) {
  return flow_map({{"ways", to_flow_yaml(twin.ways)},
                   {"index", to_flow_yaml(twin.index)},
                   {"replacement", to_flow_yaml(twin.replacement)}});
}

FlowYaml interval_leaf(const std::array<double, 2>& interval) {
  return number_list(std::vector(interval.begin(), interval.end()));
}

FlowYaml partitions_leaf(const Partitions& partitions) {
  FlowEntries entries{{"index", to_flow_yaml(partitions.index)},
                      {"near", to_text(partitions.near)},
                      {"far_cycles", to_text(partitions.far_cycles)}};
  if (partitions.block_bytes) {
    entries.emplace_back("block_bytes", to_text(*partitions.block_bytes));
  }
  if (partitions.keeps_copies) {
    entries.emplace_back("keeps_copies", "true");
  }
  if (partitions.resident_bytes) {
    entries.emplace_back("resident_bytes", interval_leaf(*partitions.resident_bytes));
  }
  if (!partitions.sms.empty()) {
    entries.emplace_back("sms", list_of(partitions.sms, number_list<std::uint32_t>));
  }
  return flow_map(entries);
}

FlowYaml carveout_leaf(const Carveout& carveout) {
  FlowEntries entries{{"carveout_kb", to_text(carveout.carveout_kb)},
                      {"onset_bytes", text_or_null(carveout.onset_bytes)}};
  if (carveout.resident_bytes) {
    entries.emplace_back("resident_bytes", interval_leaf(*carveout.resident_bytes));
  }
  if (carveout.ways) {
    entries.emplace_back("ways", to_flow_yaml(*carveout.ways));
  }
  if (carveout.store_lines) {
    entries.emplace_back("store_lines", to_text(*carveout.store_lines));
  }
  return flow_map(entries);
}

FlowYaml pattern_latencies_leaf(const PatternLatencyCycles& cycles) {
  FlowEntries entries;
  for (std::size_t i = 0; i < cycles.size(); ++i) {
    entries.emplace_back(pattern_names[i], text_or_null(cycles[i]));
  }
  return flow_map(entries);
}

FlowYaml latency_leaf(const LatencyCycles& cycles) {
  return flow_map({{"hit", text_or_null(cycles.hit)}, {"miss", text_or_null(cycles.miss)}});
}

std::string cache_block(const CacheDescription& cache) {
  std::string block;
  const auto line = [&block](std::string_view key, const FlowYaml& value) {
    block += "    " + std::string(key) + ": " + value + "\n";
  };
  line("capacity_bytes", text_or_null(cache.capacity_bytes));
  if (cache.onset_bytes) {
    line("onset_bytes", to_text(*cache.onset_bytes));
  }
  if (cache.store_lines) {
    line("store_lines", to_text(*cache.store_lines));
  }
  line("line_bytes", text_or_null(cache.line_bytes));
  line("sector_bytes", text_or_null(cache.sector_bytes));
  line("ways", cache.ways ? to_flow_yaml(*cache.ways) : "null");
  line("index", index_leaf(cache));
  line("replacement", cache.replacement ? to_flow_yaml(*cache.replacement) : "null");
  if (cache.fill != Fill{}) {
    line("fill", fill_leaf(cache.fill));
  }
  if (cache.store) {
    line("store", flow_map({{"miss", cache.store->miss == StoreMiss::allocate ? "allocate" : "bypass"},
                            {"hit", cache.store->hit == StoreHit::update ? "update" : "evict"}}));
  }
  if (cache.walk) {
    line("walk", walk_leaf(*cache.walk));
  }
  if (cache.victim_lines) {
    line("victim_lines", to_text(*cache.victim_lines));
  }
  if (cache.twin) {
    line("twin", twin_leaf(*cache.twin));
  }
  line("latency_cycles", latency_leaf(cache.latency_cycles));
  if (cache.partitions) {
    line("partitions", partitions_leaf(*cache.partitions));
  }
  if (!cache.carveouts.empty()) {
    line("carveouts", list_of(cache.carveouts, carveout_leaf));
  }
  if (cache.shared_with) {
    line("shared_with", text_list(*cache.shared_with));
  }
  if (cache.resident_bytes) {
    line("resident_bytes", interval_leaf(*cache.resident_bytes));
  }
  if (!cache.shared_by_sms.empty()) {
    line("shared_by_sms", list_of(cache.shared_by_sms, number_list<std::uint32_t>));
  }
  if (!cache.assumed.empty()) {
    line("assumed", text_list(cache.assumed));
  }
  return block;
}

std::string path_block(const PathDescription& path) {
  std::string block = "    caches: " + text_list(path.caches) + "\n    tlbs: " + text_list(path.tlbs) + "\n";
  if (path.translated_from) {
    block += "    translated_from: " + to_yaml_scalar(*path.translated_from) + "\n";
  }
  block += "    page_window_bytes: " + text_or_null(path.page_window_bytes) + "\n";
  if (path.memory_latency_cycles) {
    block += "    memory_latency_cycles: " + pattern_latencies_leaf(*path.memory_latency_cycles) + "\n";
  }
  return block;
}

FlowYaml tile_level_leaf(const TileLevel& level) {
  return flow_map({{"width", to_text(level.width)},
                   {"height", to_text(level.height)},
                   {"order", level.order == TileOrder::linear ? "linear" : "morton"}});
}

std::string texture_block(const TextureDescription& texture) {
  std::string block;
  const auto line = [&block](const char* key, const FlowYaml& value) {
    block += "    " + std::string(key) + ": " + value + "\n";
  };
  line("texel_bytes", to_text(texture.texel_bytes));
  line("width", to_text(texture.width));
  line("height", to_text(texture.height));
  line("sector_texels", texture.sector_texels ? to_flow_yaml(*texture.sector_texels) : "null");
  line("line_texels", texture.line_texels ? to_flow_yaml(*texture.line_texels) : "null");
  line("levels", texture.levels ? list_of(*texture.levels, tile_level_leaf) : "null");
  line("cache", texture.cache ? to_yaml_scalar(*texture.cache) : "null");
  line("latency_cycles", latency_leaf(texture.latency_cycles));
  return block;
}

FlowYaml code_level_leaf(const CodeLevel& level) {
  return flow_map({{"fits_bytes", text_or_null(level.fits_bytes)}, {"cycles", to_text(level.cycles)}});
}

std::string code_block(const CodeDescription& code) {
  return "    piece_bytes: " + to_text(code.piece_bytes) +
         "\n    levels: " + (code.levels ? to_flow_yaml(*code.levels) : "null") + "\n";
}

FlowYaml degree_latency_leaf(const DegreeLatency& latency) {
  return flow_map({{"degree", to_text(latency.degree)}, {"cycles", to_text(latency.cycles)}});
}

FlowYaml shared_memory_leaf(const SharedMemoryDescription& shared_memory) {
  const SharedMemoryLatency& latency = shared_memory.latency_cycles;
  FlowEntries cycles{{"broadcast", text_or_null(latency.broadcast)}, {"two_way", text_or_null(latency.two_way)}};
  if (latency.per_way) {
    cycles.emplace_back("per_way", to_text(*latency.per_way));
  }
  if (!latency.by_degree.empty()) {
    cycles.emplace_back("by_degree", list_of(latency.by_degree, degree_latency_leaf));
  }
  return flow_map({{"banks", text_or_null(shared_memory.banks)},
                   {"bank_width_bytes", text_or_null(shared_memory.bank_width_bytes)},
                   {"row_bytes", text_or_null(shared_memory.row_bytes)},
                   {"latency_cycles", flow_map(cycles)}});
}

FlowYaml outstanding_leaf(const OutstandingDescription& outstanding) {
  FlowEntries entries{{"kind", outstanding.kind ? std::string(to_string(*outstanding.kind)) : "null"},
                      {"entries", text_or_null(outstanding.entries)},
                      {"merges", text_or_null(outstanding.merges)}};
  if (outstanding.merges_at_least) {
    entries.emplace_back("merges_at_least", to_text(*outstanding.merges_at_least));
  }
  entries.emplace_back("loads_per_warp", text_or_null(outstanding.loads_per_warp));
  if (outstanding.timing) {
    FlowEntries timing;
    for (const auto& [name, member] : outstanding_timing_members) {
      timing.emplace_back(name, to_text((*outstanding.timing).*member));
    }
    entries.emplace_back("timing", flow_map(timing));
  }
  return flow_map(entries);
}

FlowEntries element_bandwidth_entries(const ElementBandwidth& bandwidth) {
  return {{"bytes_per_second", to_text(bandwidth.bytes_per_second)},
          {"elements_per_sm_clock", to_text(bandwidth.elements_per_sm_clock)},
          {"element_bits", to_text(bandwidth.element_bits)}};
}

std::string bandwidth_block(const BandwidthDescription& bandwidth) {
  std::string block;
  for (const auto& [name, memory] : bandwidth) {
    FlowEntries entries =
        memory.best ? element_bandwidth_entries(*memory.best) : FlowEntries{{"bytes_per_second", "null"}};
    if (!memory.by_element_bits.empty()) {
      entries.emplace_back("by_element_bits", list_of(memory.by_element_bits, [](const ElementBandwidth& each) {
                             return flow_map(element_bandwidth_entries(each));
                           }));
    }
    block += "  " + to_yaml_scalar(name) + ": " + flow_map(entries) + "\n";
  }
  return block;
}

std::string kernels_block(const KernelResults& kernels) {
  std::string block;
  for (const auto& [name, result] : kernels) {
    FlowEntries bytes;
    for (const auto& [level, moved] : result.level_bytes) {
      bytes.emplace_back(level, to_text(moved));
    }
    block += "  " + to_yaml_scalar(name) + ": " +
             flow_map({{"size", to_text(result.size)},
                       {"seconds", to_text(result.seconds)},
                       {"level_bytes", flow_map(bytes)},
                       {"dominant", to_yaml_scalar(result.dominant)},
                       {"share", to_text(result.share)}}) +
             "\n";
  }
  return block;
}

FlowYaml noise_leaf(const NoiseDescription& noise) {
  return flow_map({{"jitter_cycles", to_text(noise.jitter_cycles)},
                   {"outlier_probability", to_text(noise.outlier_probability)},
                   {"outlier_cycles", to_text(noise.outlier_cycles)},
                   {"misread_probability", to_text(noise.misread_probability)}});
}

FlowYaml evidence_leaf(const LeafEvidence& leaf) {
  FlowEntries entries{{"status", std::string(to_string(leaf.status))}};
  if (leaf.confidence) {
    entries.emplace_back("confidence", to_text(*leaf.confidence));
  }
  if (leaf.experiments != 0) {
    entries.emplace_back("experiments", to_text(leaf.experiments));
  }
  if (!leaf.alternatives.empty()) {
    entries.emplace_back("alternatives", flow_list(leaf.alternatives));
  }
  if (!leaf.reason.empty()) {
    entries.emplace_back("reason", to_yaml_scalar(leaf.reason));
  }
  if (!leaf.decided_by.empty()) {
    entries.emplace_back("decided_by", to_yaml_scalar(leaf.decided_by));
  }
  for (const auto& [name, value] : leaf.details) {
    entries.emplace_back(to_yaml_scalar(name), value);
  }
  return flow_map(entries);
}

FlowYaml prediction_leaf(const PredictionEvidence& prediction) {
  FlowEntries entries{{"agreement", text_or_null(prediction.agreement)},
                      {"accesses", to_text(prediction.accesses)},
                      {"sequences", to_text(prediction.sequences)},
                      {"outliers", to_text(prediction.outliers)}};
  if (prediction.voted_agreement) {
    entries.emplace_back("voted_agreement", to_text(*prediction.voted_agreement));
  }
  if (prediction.p_value) {
    entries.emplace_back("p_value", to_text(*prediction.p_value));
  }
  if (prediction.assuming) {
    entries.emplace_back("assuming", *prediction.assuming);
  }
  return flow_map(entries);
}

FlowYaml inquiry_leaf(const Inquiry& inquiry) {
  FlowEntries entries{{"asked", to_yaml_scalar(inquiry.asked)},
                      {"why", to_yaml_scalar(inquiry.why)},
                      {"learned", to_yaml_scalar(inquiry.learned)},
                      {"questions", to_text(inquiry.questions)},
                      {"accesses", to_text(inquiry.accesses)}};
  if (inquiry.hypotheses_before) {
    entries.emplace_back("hypotheses_before", to_text(*inquiry.hypotheses_before));
  }
  if (inquiry.hypotheses_after) {
    entries.emplace_back("hypotheses_after", to_text(*inquiry.hypotheses_after));
  }
  return flow_map(entries);
}

std::string evidence_block(const CacheEvidence& evidence) {
  std::string block;
  for (const auto& [name, leaf] : evidence.leaves) {
    block += "    " + to_yaml_scalar(name) + ": " + evidence_leaf(leaf) + "\n";
  }
  if (evidence.prediction) {
    block += "    prediction: " + prediction_leaf(*evidence.prediction) + "\n";
  }
  if (!evidence.inquiries.empty()) {
    block += "    inquiries:\n";
    for (const Inquiry& inquiry : evidence.inquiries) {
      block += "      - " + inquiry_leaf(inquiry) + "\n";
    }
  }
  return block;
}

// `key:` and below it each section under its name; what is empty keeps its place as `{}`.
template <class Sections, class Block>
std::string sections_block(std::string_view key, const Sections& sections, Block&& block_of) {
  std::string text = std::string(key) + (sections.empty() ? ": {}\n" : ":\n");
  for (const auto& [name, section] : sections) {
    const std::string block = block_of(section);
    text += "  " + to_yaml_scalar(name) + (block.empty() ? ": {}\n" : ":\n" + block);
  }
  return text;
}

}  // namespace

std::string to_yaml(const DeviceDescription& description) {
  std::string yaml = "schema: gpuinfer/1\n";
  yaml += "device: " + device_leaf(description.device) + "\n";
  yaml += sections_block("caches", description.caches, cache_block);
  if (!description.paths.empty()) {
    yaml += sections_block("paths", description.paths, path_block);
  }
  if (!description.textures.empty()) {
    yaml += sections_block("textures", description.textures, texture_block);
  }
  if (!description.code.empty()) {
    yaml += sections_block("code", description.code, code_block);
  }
  if (description.shared_memory) {
    yaml += "shared_memory: " + shared_memory_leaf(*description.shared_memory) + "\n";
  }
  if (description.memory_latency_cycles) {
    yaml += "memory_latency_cycles: " + pattern_latencies_leaf(*description.memory_latency_cycles) + "\n";
  }
  if (description.outstanding) {
    yaml += "outstanding: " + outstanding_leaf(*description.outstanding) + "\n";
  }
  if (!description.bandwidth.empty()) {
    yaml += "bandwidth:\n" + bandwidth_block(description.bandwidth);
  }
  if (!description.kernels.empty()) {
    yaml += "kernels:\n" + kernels_block(description.kernels);
  }
  if (description.noise) {
    yaml += "noise: " + noise_leaf(*description.noise) + "\n";
  }
  if (!description.evidence.empty()) {
    yaml += sections_block("evidence", description.evidence, evidence_block);
  }
  return yaml;
}

std::string to_json(const DeviceDescription& description) {
  return to_json(parse_yaml(to_yaml(description), "description"));
}

FlowYaml to_flow_yaml(const IndexFunction& index) { return flow_map(index_entries(index)); }

FlowYaml to_flow_yaml(const Replacement& replacement) {
  FlowEntries entries{{"policy", to_yaml_scalar(replacement.policy)}};
  for (const auto& [name, value] : replacement.parameters) {
    entries.emplace_back(to_yaml_scalar(name), std::visit(ParameterText{}, value));
  }
  if (!replacement.equivalent.empty()) {
    entries.emplace_back("equivalent", text_list(replacement.equivalent));
  }
  return flow_map(entries);
}

FlowYaml to_flow_yaml(const std::vector<std::string>& names) { return text_list(names); }

FlowYaml to_flow_yaml(const TexelBlock& block) {
  return flow_map({{"width", to_text(block.width)}, {"height", to_text(block.height)}});
}

FlowYaml to_flow_yaml(const std::vector<CodeLevel>& levels) { return list_of(levels, code_level_leaf); }

FlowYaml to_flow_yaml(const std::vector<std::uint32_t>& ways) { return number_list(ways); }

}  // namespace gpuinfer::model
