// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/studies.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <type_traits>
#include <utility>

#include "infer/cache/infer_cache.hpp"
#include "infer/code/infer_code.hpp"
#include "infer/laps/infer_first_level.hpp"
#include "infer/laps/infer_level.hpp"
#include "infer/latency/infer_latency.hpp"
#include "infer/texture/infer_texture.hpp"
#include "infer/threads/infer_bandwidth.hpp"
#include "infer/threads/infer_cluster.hpp"
#include "infer/threads/infer_fetch.hpp"
#include "infer/threads/infer_kernels.hpp"
#include "infer/threads/infer_outstanding.hpp"
#include "infer/threads/infer_shared_memory.hpp"

namespace gpuinfer::infer {

namespace {

using model::BufferFacts;
using model::DeviceDescription;

// Under the name of the target, or in the only place there is.
template <class Part>
void put(DeviceDescription& profile, const std::string& target, std::map<std::string, Part> DeviceDescription::*member,
         Part part) {
  (profile.*member)[target] = std::move(part);
}

template <class Member, class Part>
requires std::is_assignable_v<Member&, Part>
void put(DeviceDescription& profile, const std::string& /*target*/, Member DeviceDescription::*member, Part part) {
  profile.*member = std::move(part);
}

template <class Whole, class Part>
Whole whole_of(Part Whole::*);

// What a description says of the questions alone, with nothing found out.
template <class Part>
Part nothing_found_of(const Part& /*measured*/) {
  return {};
}
model::TextureDescription nothing_found_of(const model::TextureDescription& measured) {
  return {.texel_bytes = measured.texel_bytes, .width = measured.width, .height = measured.height};
}
model::CodeDescription nothing_found_of(const model::CodeDescription& measured) {
  return {.piece_bytes = measured.piece_bytes};
}

// Of all that are called so; there is none before it was asked about.
template <class Part>
Part measured_in(const DeviceDescription& profile, const std::string& target,
                 std::map<std::string, Part> DeviceDescription::*member) {
  const auto found = (profile.*member).find(target);
  return found == (profile.*member).end() ? Part{} : found->second;
}
template <class Part, class Member>
Part measured_in(const DeviceDescription& /*profile*/, const std::string& /*target*/,
                 Member DeviceDescription::* /*member*/) {
  return {};
}

// `infer` makes a finding whose `part` goes to the `member` of a profile. Some inferences need to know the profile.
template <auto infer, auto part, auto member>
constexpr Study row(std::string_view target, bool proves_itself, std::string_view recorded_as = {},
                    bool (*is_kind_of)(const BufferFacts&) = nullptr) {
  using Found = decltype(whole_of(part));
  return {
      .target = target,
      .recorded_as = recorded_as,
      .is_kind_of = is_kind_of,
      .proves_itself = proves_itself,
      .run =
          [](model::Answerer& device, const std::string& name, const Settings& settings, DeviceDescription& profile) {
            Found found;
            if constexpr (std::is_invocable_v<decltype(infer), model::Answerer&, const std::string&,
                                              const DeviceDescription&, const Settings&>) {
              found = infer(device, name, profile, settings);
            } else {
              found = infer(device, name, settings);
            }
            put(profile, name, member, std::move(found.*part));
            return Finding(std::move(found));
          },
      .leave_open =
          [](DeviceDescription& profile, const std::string& name, const DeviceDescription& measured) {
            using Part = std::remove_cvref_t<decltype(Found{}.*part)>;
            put(profile, name, member, nothing_found_of(measured_in<Part>(measured, name, member)));
          }};
}

// Through the path of loads that the device itself says it has.
LatencyFinding infer_latency_of_global(model::Answerer& device, const std::string& target,
                                       const DeviceDescription& known, const Settings& settings) {
  constexpr const char* path = "global";
  DeviceDescription with_path = known;
  if (device.facts().latency_path) {
    with_path.paths[path] = *device.facts().latency_path;
  }
  return infer_latency(device, target, with_path, path, settings);
}

CacheFinding infer_first_data_cache(model::Answerer& device, const std::string& target, const Settings& settings) {
  return infer_first_cache(device, target, settings);
}

template <unsigned level>
CacheFinding infer_outer_level(model::Answerer& device, const std::string& target, const Settings& settings) {
  return infer_level(device, target, level, settings);
}

Needed caches_of(const std::optional<model::PathDescription>& path) {
  Needed needed = path ? path->caches : Needed{};
  if (path) {
    needed.insert(needed.end(), path->tlbs.begin(), path->tlbs.end());
  }
  return needed;
}

Needed cache_and_peaks(const std::optional<model::PathDescription>& /*path*/) { return {"L1tex", "Bandwidth"}; }

constexpr Study after(decltype(Study::needs) needs, Study study) {
  study.needs = needs;
  return study;
}

bool has_texels(const BufferFacts& buffer) { return buffer.raster.has_value(); }
bool has_pieces(const BufferFacts& buffer) { return buffer.piece_bytes.has_value(); }
bool has_laps(const BufferFacts& buffer) { return buffer.averages_laps; }

template <auto infer>
constexpr Study cache_row(std::string_view target, std::string_view recorded_as = {},
                          bool (*is_kind_of)(const BufferFacts&) = nullptr) {
  return row<infer, &CacheFinding::cache, &DeviceDescription::caches>(target, true, recorded_as, is_kind_of);
}

constexpr std::string_view threads = "what many threads do at once";
constexpr std::string_view laps = "averages over laps";

// The first that fits counts.
constexpr std::array studies{
    row<infer_shared_memory, &SharedMemoryFinding::shared_memory, &DeviceDescription::shared_memory>("Shared", false,
                                                                                                     threads),
    row<infer_outstanding, &OutstandingFinding::outstanding, &DeviceDescription::outstanding>("Outstanding", false,
                                                                                              threads),
    after(
        caches_of,
        row<infer_latency_of_global, &LatencyFinding::memory_latency_cycles, &DeviceDescription::memory_latency_cycles>(
            "Latency", false)),
    row<infer_bandwidth, &BandwidthFinding::bandwidth, &DeviceDescription::bandwidth>("Bandwidth", false, threads),
    after(cache_and_peaks,
          row<infer_kernels, &KernelFinding::kernels, &DeviceDescription::kernels>("Kernels", false, threads)),
    row<infer_cluster, &ClusterFinding::cluster, &DeviceDescription::cluster>("Cluster", false, threads),
    row<infer_fetch, &FetchFinding::fetches, &DeviceDescription::fetches>("Fetch", false, threads),
    row<infer_texture, &TextureFinding::texture, &DeviceDescription::textures>("", false, "texels", has_texels),
    row<infer_code, &CodeFinding::code, &DeviceDescription::code>("", false, "pieces of code", has_pieces),
    cache_row<infer_first_tlb>("dTLB", laps, has_laps),
    cache_row<infer_first_data_cache>("L1D", laps, has_laps),
    cache_row<infer_outer_level<1>>("L2", laps, has_laps),
    cache_row<infer_outer_level<2>>("", laps, has_laps),
    cache_row<infer_cache>(""),
};

}  // namespace

const Study& study_of(const std::string& target, const model::DeviceFacts& facts) {
  const BufferFacts& buffer = facts.buffer_of(target);
  return *std::ranges::find_if(studies, [&](const Study& study) {
    return (study.target.empty() || study.target == target) &&
           (study.is_kind_of == nullptr || study.is_kind_of(buffer));
  });
}

Needed needed_before(std::string_view target, const std::optional<model::PathDescription>& latency_path) {
  const auto study = std::ranges::find(studies, target, &Study::target);
  return study == studies.end() || study->needs == nullptr ? Needed{} : study->needs(latency_path);
}

}  // namespace gpuinfer::infer
