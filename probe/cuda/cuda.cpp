// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "model/errors.hpp"
#include "model/random_streams.hpp"
#include "probe/cuda/after_others_runner.hpp"
#include "probe/cuda/code_runner.hpp"
#include "probe/cuda/constant_banks.hpp"
#include "probe/cuda/contention_runner.hpp"
#include "probe/cuda/gpu.hpp"
#include "probe/cuda/gpu_condition.hpp"
#include "probe/cuda/needed_bytes.hpp"
#include "probe/cuda/nvml.hpp"
#include "probe/cuda/page_lines.hpp"
#include "probe/cuda/thread_runner.hpp"
#include "probe/gpu/emptying.hpp"
#include "probe/gpu/refusals.hpp"
#include "probe/gpu/texel_places.hpp"

namespace gpuinfer::probe {
namespace {

using cuda::CodeRunner;
using cuda::LoadPath;
using model::StartState;

// What empties the cache behind a path: a row of CudaProbe::ways each.
enum class Emptying {
  new_carveout,
  streaming,
  other_constants,
  new_launch,
  other_pages,
  nothing,
  new_mapping,
  everything,
};

struct Target {
  std::string_view name;
  LoadPath path;
  Emptying emptying;
};

constexpr std::string_view latency_target = "Latency";

constexpr std::array all_targets{
    Target{"L1tex", LoadPath::global_ca, Emptying::new_carveout},
    Target{"ReadOnly", LoadPath::global_nc, Emptying::new_carveout},
    Target{"Texture", LoadPath::texture, Emptying::new_carveout},
    Target{"Texture2D", LoadPath::texture_2d, Emptying::new_carveout},
    Target{"ConstL1", LoadPath::constant, Emptying::other_constants},
    Target{"ConstL15", LoadPath::constant, Emptying::new_launch},
    Target{"ConstImmediate", LoadPath::immediates, Emptying::nothing},
    Target{"Instruction", LoadPath::code, Emptying::nothing},
    Target{"L2", LoadPath::global_cg, Emptying::streaming},
    Target{"L1TLB", LoadPath::lines_cg, Emptying::other_pages},
    Target{"L2TLB", LoadPath::lines_cg, Emptying::new_mapping},
    Target{latency_target, LoadPath::lines_cg, Emptying::everything},
};

// What loads that pass L1 by look up: targets, too.
const model::PathDescription latency_path{.caches = {"L2"},
                                          .tlbs = {"L1TLB", "L2TLB"},
                                          .translated_from = {},
                                          .page_window_bytes = {},
                                          .page_window_is_unknown = true,
                                          .memory_latency_cycles = {}};

CodeRunner::Pieces pieces_of(LoadPath path) {
  return path == LoadPath::immediates ? CodeRunner::Pieces::immediates : CodeRunner::Pieces::code;
}

// No entry of a TLB is known to cover more.
constexpr std::uint64_t widest_page_bytes = 32ULL << 20U;

constexpr model::Raster raster_facts{
    .texel_bytes = sizeof(std::uint32_t), .width = cuda::raster_width, .height = cuda::raster_height};

// Several times what any first TLB is known to cover, and less than the second covers on GPUs of today.
constexpr std::uint64_t page_buffer_bytes = 10ULL << 30U;

// Twice what any first TLB is known to cover.
constexpr std::uint64_t first_tlb_bytes = 32 * widest_page_bytes;

// Of the free memory, what the largest buffer of pages takes.
constexpr std::uint64_t page_parts = 7;
constexpr std::uint64_t free_parts = 8;

// Twice what any first cache of constants is known to hold.
constexpr std::uint64_t first_constants_bytes = 4U << 10U;

// Where nothing but one SM may touch what is measured, it is always this one.
constexpr std::uint32_t home_sm = 0;

std::uint32_t sm_of(const model::Question& question, std::uint32_t usual = home_sm) {
  return number_of(question.circumstances.unit.value_or(model::ComputeUnit{usual}));
}

class CudaProbe final : public model::Answerer {
 public:
  explicit CudaProbe(const CudaOptions& options);

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override;
  [[nodiscard]] std::vector<model::Timing> time(std::span<const model::Workload> workloads) override;
  [[nodiscard]] std::optional<std::vector<std::uint64_t>> places_of(const std::string& target,
                                                                    std::span<const std::uint64_t> offsets) override;
  [[nodiscard]] std::vector<model::Disturbance> disturbances() const override { return watch_.disturbances(); }
  void begin_piece() override { watch_.begin_piece(); }
  [[nodiscard]] model::PieceState discard_piece() override {
    return watch_.discard_piece([this] { keep_busy(); });
  }

  [[nodiscard]] static const gpu::Emptying& plan_of(Emptying emptying) { return way_of(emptying).plan; }

 private:
  // A target that can be asked.
  struct Offer {
    Target target;
    cuda::Reach reach;
    std::uint64_t bytes = 0;                     // of the reach, for questions
    std::map<StartState, std::string> refusals;  // why it cannot be put into these states; it can be into the others
  };

  // One question, on the SM that it names. None when no block got there alone.
  using Play = std::optional<cuda::Played> (CudaProbe::*)(const Offer&, const model::Question&);

  struct Way {
    Emptying emptying;
    gpu::Emptying plan;
    Play play;
  };
  static const std::vector<Way> ways;
  [[nodiscard]] static const Way& way_of(Emptying emptying) {
    return *std::ranges::find(ways, emptying, &Way::emptying);
  }
  [[nodiscard]] static gpu::Touches touches_of(const Target& target);

  void prepare_buffers(const CudaOptions& options, std::span<const Target> targets);
  void bring_raster_to_l2();
  void bring_buffer_to_l2(const Offer& offer);
  void prepare_threads(const CudaOptions& options);
  [[nodiscard]] cuda::Reach reach_of(const Target& target) const;
  void try_states(Offer& offer);

  // For some milliseconds, so that the clocks of the GPU can follow.
  void keep_busy();

  // Questions of one target and a start that lets them go apart, each to an SM of its own.
  [[nodiscard]] std::vector<cuda::Played> play_apart(const Offer& offer, std::span<const model::Question> questions);
  [[nodiscard]] std::optional<cuda::Played> play_alone(const Offer& offer, const model::Question& question) {
    return (this->*way_of(offer.target.emptying).play)(offer, question);
  }
  // Where the question names no SM, some go to that of the last question and the others to the home SM.
  [[nodiscard]] std::optional<cuda::Played> play_on_last_sm(const Offer& offer, const model::Question& question);
  [[nodiscard]] std::optional<cuda::Played> play_after_streaming(const Offer& offer, const model::Question& question);
  [[nodiscard]] std::optional<cuda::Played> play_after_other_constants(const Offer& offer,
                                                                       const model::Question& question);
  [[nodiscard]] std::optional<cuda::Played> play_from_banks(const Offer& offer, const model::Question& question);
  [[nodiscard]] std::optional<cuda::Played> play_after_other_pages(const Offer& offer, const model::Question& question);
  [[nodiscard]] std::optional<cuda::Played> run_code(const Offer& offer, const model::Question& question);
  [[nodiscard]] std::optional<cuda::Played> play_after_new_mapping(const Offer& offer, const model::Question& question);
  [[nodiscard]] std::optional<cuda::Played> play_after_everything(const Offer& offer, const model::Question& question);
  [[nodiscard]] cuda::Manner manner_of(const Offer& offer, const model::Question& question) const;
  [[nodiscard]] static model::Question flooded(const Offer& offer, const model::Question& question);

  [[nodiscard]] std::optional<std::string> why_refused(const model::Question& question) const;

  cuda::Gpu gpu_;
  cuda::ConditionWatch watch_;
  cuda::Buffer buffer_;
  bool buffer_is_in_l2_ = false;
  cuda::Buffer l2_buffer_;
  cuda::Buffer pages_;
  cuda::RasterTexture raster_;
  std::optional<cuda::ConstantBanks> banks_;
  std::optional<cuda::AfterOthersRunner> after_others_;
  std::map<CodeRunner::Pieces, CodeRunner> code_;
  std::optional<cuda::PageLines> lines_for_first_tlb_;
  std::optional<cuda::PageLines> lines_for_second_tlb_;
  cuda::Buffer streamed_;
  std::optional<cuda::ThreadRunner> threads_;
  std::optional<cuda::ContentionRunner> contention_;
  model::DeviceFacts facts_;
  std::map<std::string, Offer, std::less<>> offers_;
  std::uint32_t last_sm_ = 0;
};

const std::vector<CudaProbe::Way> CudaProbe::ways{
    // L1 is set up anew (clean), or a fence drops its lines (invalidated).
    Way{Emptying::new_carveout,
        {.to_clean = true, .to_invalidated = true, .apart = StartState::clean},
        &CudaProbe::play_on_last_sm},
    // All SMs load other lines.
    Way{Emptying::streaming, {.to_flooded = true}, &CudaProbe::play_after_streaming},
    // The SM loads other lines first.
    Way{Emptying::other_constants,
        {.to_flooded = true,
         .apart = StartState::flooded,
         .flood = {.bytes = 16U << 10U, .stride_bytes = 64},
         .touches = {.count = 16, .stride_bytes = 64}},
        &CudaProbe::play_after_other_constants},
    // Every launch empties it.
    Way{Emptying::new_launch,
        {.to_invalidated = true, .nearer_bytes = first_constants_bytes, .touches = {.count = 64, .stride_bytes = 256}},
        &CudaProbe::play_from_banks},
    // The SM loads from other pages first.
    Way{Emptying::other_pages,
        {.to_flooded = true,
         .flood = {.bytes = 64 * widest_page_bytes, .stride_bytes = widest_page_bytes},
         .touches = {.count = 8, .stride_bytes = widest_page_bytes}},
        &CudaProbe::play_after_other_pages},
    // It is what it is.
    Way{Emptying::nothing, {}, &CudaProbe::run_code},
    // Memory of the host is mapped and unmapped, which drops all translations.
    Way{Emptying::new_mapping,
        {.to_invalidated = true,
         .nearer_bytes = first_tlb_bytes,
         .touches = {.count = 256, .stride_bytes = widest_page_bytes}},
        &CudaProbe::play_after_new_mapping},
    // Streaming and a new mapping.
    Way{Emptying::everything, {.to_invalidated = true}, &CudaProbe::play_after_everything},
};

gpu::Touches CudaProbe::touches_of(const Target& target) {
  if (target.path == LoadPath::texture_2d) {
    return {.count = 16, .stride_bytes = 128};  // where they lie is not known
  }
  if (target.emptying == Emptying::nothing) {
    return {.count = 4, .stride_bytes = CodeRunner::piece_bytes(pieces_of(target.path))};
  }
  return plan_of(target.emptying).touches;
}

bool names(const std::vector<std::string>& targets, std::string_view name) {
  return std::ranges::find(targets, name) != targets.end();
}

// By name, or because it stands in the path of the target Latency.
bool is_asked(const CudaOptions& options, std::string_view name) {
  return options.targets.empty() || names(options.targets, name) ||
         (names(options.targets, latency_target) &&
          (names(latency_path.caches, name) || names(latency_path.tlbs, name)));
}

std::optional<cuda::Nvml> management_of(const cuda::Gpu& gpu) {
  const auto pci_bus_id = gpu.pci_bus_id();
  return pci_bus_id ? cuda::Nvml::find(cuda::Nvml::library_name, *pci_bus_id) : std::nullopt;
}

// None where there is nothing to look at.
cuda::ConditionWatch::Look look_at(const cuda::Gpu& gpu) {
  auto nvml = management_of(gpu);
  if (!nvml) {
    return nullptr;
  }
  return [nvml = std::make_shared<const cuda::Nvml>(std::move(*nvml))] { return nvml->condition(); };
}

CudaProbe::CudaProbe(const CudaOptions& options) : gpu_(options), watch_(look_at(gpu_)), facts_(gpu_.facts()) {
  std::vector<Target> asked;
  for (const Target& target : all_targets) {
    facts_.targets.emplace_back(target.name);
    if (is_asked(options, target.name)) {
      asked.push_back(target);
    }
  }
  prepare_buffers(options, asked);
  for (const Target& target : asked) {
    const std::string name(target.name);
    Offer offer{.target = target, .reach = reach_of(target), .bytes = 0, .refusals = {}};
    if (target.path == LoadPath::texture && !buffer_.texture()) {
      std::erase(facts_.targets, name);
      continue;
    }
    const auto asked_bytes = gpu::asked_bytes(plan_of(target.emptying), offer.reach.bytes);
    if (!asked_bytes) {
      std::erase(facts_.targets, name);  // too little memory is free
      continue;
    }
    offer.bytes = *asked_bytes;
    model::BufferFacts buffer{
        .bytes = offer.bytes, .address = model::Address{offer.reach.address}, .raster = std::nullopt};
    if (target.path == LoadPath::texture_2d) {
      buffer.raster = raster_facts;
    }
    buffer.nearer_bytes = plan_of(target.emptying).nearer_bytes;
    buffer.one_unit = target.emptying == Emptying::other_pages;
    if (target.emptying == Emptying::nothing) {
      buffer.piece_bytes = CodeRunner::piece_bytes(pieces_of(target.path));
    }
    if (buffer != facts_.buffer) {
      facts_.own_buffers[name] = buffer;
    }
    try_states(offer);
    if (cuda::takes_stores(target.path)) {
      facts_.stored_targets.push_back(name);
    }
    if (target.emptying == Emptying::streaming && gpu_.takes_hints() && offer.bytes <= cuda::most_hinted_bytes) {
      facts_.hinted_targets.push_back(name);
      facts_.largest_set_aside_bytes = gpu_.largest_set_aside_bytes();
    }
    if (target.emptying == Emptying::everything) {
      facts_.latency_path = latency_path;
    }
    if (target.emptying == Emptying::new_launch) {
      facts_.warm_unit_targets.push_back(name);
    }
    if (target.emptying == Emptying::new_carveout && !buffer.raster) {
      facts_.warm_targets.push_back(name);
    }
    if (target.emptying == Emptying::streaming && cuda::ContentionRunner::is_offered()) {
      contention_.emplace(gpu_);
      facts_.contended_targets.push_back(name);
    }
    offers_.emplace(name, std::move(offer));
  }
  prepare_threads(options);
  if (const auto nvml = options.identify ? management_of(gpu_) : std::nullopt) {
    if (auto serial = nvml->serial()) {
      facts_.provenance["gpu_serial"] = std::move(*serial);
    }
  }
  facts_.provenance.merge(cuda::provenance_of(watch_.begin([this] { keep_busy(); })));
}

// Streams go through as much as makes the last cache not matter, and as much again to copy to.
void CudaProbe::prepare_threads(const CudaOptions& options) {
  constexpr std::uint64_t caches_of_stream = 128;
  bool any = false;
  for (const std::string_view target : model::workload_targets()) {
    if (target != target_of(model::ClusterExchange{}) || cuda::has_clusters()) {
      facts_.targets.emplace_back(target);
      any = any || is_asked(options, target);
    }
  }
  if (!any) {
    return;
  }
  cuda::Reach memory = cuda::reach_of(buffer_);
  if (is_asked(options, "Bandwidth") || is_asked(options, "Kernels")) {
    memory = cuda::reach_of(pages_);
    if (memory.bytes == 0) {
      const std::uint64_t bytes =
          std::bit_floor(std::min(gpu_.free_bytes() / 8 * 7, 2 * caches_of_stream * std::bit_ceil(gpu_.l2_bytes())));
      gpu_.allocate(streamed_, bytes, alignof(uint4));
      memory = cuda::reach_of(streamed_);
    }
  }
  threads_.emplace(gpu_, memory);
  for (const std::string_view target : model::workload_targets()) {
    facts_.own_buffers[std::string(target)] = {.bytes = std::bit_floor(memory.bytes / 2)};
  }
}

void CudaProbe::keep_busy() {
  if (offers_.empty()) {
    return;
  }
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds long_enough{20};
  const auto& [name, offer] = *offers_.begin();
  const model::Question question{
      .target = name, .state = StartState::keep, .warm = {}, .record = model::AccessSequence(std::size_t{1} << 14U)};
  for (const auto end = Clock::now() + long_enough; Clock::now() < end;) {
    static_cast<void>(play_alone(offer, question));
  }
}

// A miss in L1 is to be a hit in L2, as it is where the GPU itself cleared a buffer.
void CudaProbe::bring_raster_to_l2() {
  constexpr std::uint64_t stride_bytes = 16;  // no sector has fewer of a row
  const cuda::Reach reach = cuda::reach_of(raster_);
  const std::uint64_t share_bytes = reach.bytes / gpu_.sm_count() / stride_bytes * stride_bytes + stride_bytes;
  std::vector<model::Question> shares;
  for (std::uint64_t begin = 0; begin < reach.bytes; begin += share_bytes) {
    shares.emplace_back().warm = model::cold_pass(begin, std::min(share_bytes, reach.bytes - begin), stride_bytes);
  }
  static_cast<void>(
      gpu_.play_apart({.paths = {.path = LoadPath::texture_2d, .warm = LoadPath::texture_2d}, .reach = reach}, shares));
}

// The same of what the caches of an SM are asked with, once other targets have loaded what is theirs.
void CudaProbe::bring_buffer_to_l2(const Offer& offer) {
  const bool is_asked = offer.reach.address == buffer_.address();
  if (is_asked && !buffer_is_in_l2_) {
    gpu_.clear(buffer_);
  }
  buffer_is_in_l2_ = is_asked;
}

std::optional<std::vector<std::uint64_t>> CudaProbe::places_of(const std::string& target,
                                                               std::span<const std::uint64_t> offsets) {
  const auto offer = offers_.find(target);
  if (offer == offers_.end() || offer->second.target.path != LoadPath::texture_2d) {
    return std::nullopt;
  }
  const std::vector<std::uint32_t> words = raster_.places_in_words();
  bring_raster_to_l2();
  return gpu::places_of_offsets(words, offsets);
}

cuda::Reach CudaProbe::reach_of(const Target& target) const {
  switch (target.path) {
    case LoadPath::constant:
      return {.bytes = target.emptying == Emptying::new_launch ? cuda::ConstantBanks::bytes : cuda::constant_bytes};
    case LoadPath::texture_2d:
      return cuda::reach_of(raster_);
    case LoadPath::code:
    case LoadPath::immediates:
      return {.bytes = CodeRunner::bytes(pieces_of(target.path))};
    case LoadPath::global_cg:
      return cuda::reach_of(l2_buffer_);
    case LoadPath::lines_cg: {
      cuda::Reach reach = cuda::reach_of(pages_);
      if (target.emptying == Emptying::other_pages) {
        reach.bytes = std::min(reach.bytes, page_buffer_bytes);
      }
      return reach;
    }
    case LoadPath::global_ca:
    case LoadPath::global_nc:
    case LoadPath::texture:
      break;
  }
  return cuda::reach_of(buffer_);
}

// Buffers begin at a multiple of their size (rounded up to a power of two), so that every address bit below that
// differs independently of the others; but that of the pages would take too much memory then.
void CudaProbe::prepare_buffers(const CudaOptions& options, std::span<const Target> targets) {
  gpu_.allocate(buffer_, options.buffer_bytes, std::bit_ceil(options.buffer_bytes));
  gpu_.make_texture(buffer_);
  facts_.buffer = {.bytes = buffer_.bytes(), .address = model::Address{buffer_.address()}};
  const auto any = [&](Emptying emptying) {
    return std::ranges::find(targets, emptying, &Target::emptying) != targets.end();
  };
  if (any(Emptying::streaming)) {
    const std::uint64_t bytes = std::bit_ceil(4 * gpu_.l2_bytes());
    gpu_.allocate(l2_buffer_, bytes, bytes);
  }
  if (std::ranges::find(targets, LoadPath::texture_2d, &Target::path) != targets.end()) {
    gpu_.allocate(raster_);
    bring_raster_to_l2();
  }
  if (any(Emptying::new_launch)) {
    banks_.emplace(gpu_);
    after_others_.emplace(gpu_);
  }
  for (const Target& target : targets) {
    if (target.emptying == Emptying::nothing) {
      code_.try_emplace(pieces_of(target.path), gpu_, pieces_of(target.path));
    }
  }
  const bool many_pages = any(Emptying::new_mapping) || any(Emptying::everything);
  if (any(Emptying::other_pages) || many_pages) {
    const std::uint64_t free_bytes = gpu_.free_bytes();
    const std::uint64_t bytes =
        many_pages ? free_bytes / free_parts * page_parts : std::min(free_bytes / 2, page_buffer_bytes);
    gpu_.allocate(pages_, bytes / widest_page_bytes * widest_page_bytes, widest_page_bytes);
    using Difference = cuda::PageLines::Difference;
    const model::RandomStreams streams(options.seed);
    lines_for_first_tlb_.emplace(gpu_, home_sm, cuda::reach_of(pages_), streams, Difference::few_cycles);
    lines_for_second_tlb_.emplace(gpu_, home_sm, cuda::reach_of(pages_), streams, Difference::many_cycles);
  }
}

void CudaProbe::try_states(Offer& offer) {
  const gpu::Launches launches{
      .alone =
          [&](const model::Question& question) {
            auto played = play_alone(offer, question);
            return played ? std::optional(std::move(played->latency_cycles)) : std::nullopt;
          },
      .everywhere =
          [&](const model::Question& question) {
            std::vector<gpu::Latencies> all;
            for (auto& played : play_apart(offer, std::vector<model::Question>(gpu_.sm_count(), question))) {
              all.push_back(std::move(played.latency_cycles));
            }
            return all;
          }};
  const std::string name(offer.target.name);
  const std::set<StartState> reached =
      gpu::states_reached(plan_of(offer.target.emptying), name, offer.bytes, touches_of(offer.target), launches);
  offer.refusals = gpu::refused_states(reached, name, facts_.source);
}

cuda::Manner CudaProbe::manner_of(const Offer& offer, const model::Question& question) const {
  const auto& [warm_target, carveout_kb, sm, warm_sms, contended_pairs, stores, hints, set_aside_bytes] =
      question.circumstances;
  const LoadPath path = offer.target.path;
  const bool of_l1 = offer.target.emptying == Emptying::new_carveout;
  return {.paths = {.path = path,
                    .warm = warm_target ? offers_.find(*warm_target)->second.target.path : path,
                    .stores = !stores.empty(),
                    .hints = !hints.empty()},
          .reach = offer.reach,
          .carveout_kb = carveout_kb,
          .set_aside_bytes = set_aside_bytes,
          .new_l1 = of_l1 && question.state == StartState::clean,
          .drop_l1_lines = of_l1 && question.state == StartState::invalidated};
}

std::vector<cuda::Played> CudaProbe::play_apart(const Offer& offer, std::span<const model::Question> questions) {
  const auto flooded = gpu::after_flood(plan_of(offer.target.emptying), offer.bytes, questions);
  auto played = gpu_.play_apart(manner_of(offer, questions.front()), flooded.empty() ? questions : flooded);
  last_sm_ = played.back().sm;
  return played;
}

model::Question CudaProbe::flooded(const Offer& offer, const model::Question& question) {
  return gpu::after_flood(plan_of(offer.target.emptying), offer.bytes, question);
}

std::optional<cuda::Played> CudaProbe::play_on_last_sm(const Offer& offer, const model::Question& question) {
  last_sm_ = sm_of(question, last_sm_);
  return gpu_.play_on(last_sm_, manner_of(offer, question), question);
}

std::optional<cuda::Played> CudaProbe::play_after_streaming(const Offer& offer, const model::Question& question) {
  if (question.state == StartState::flooded) {
    gpu_.stream_through_l2();
  }
  return gpu_.play_on(sm_of(question), manner_of(offer, question), question);
}

std::optional<cuda::Played> CudaProbe::play_after_other_constants(const Offer& offer, const model::Question& question) {
  return play_on_last_sm(offer, flooded(offer, question));
}

std::optional<cuda::Played> CudaProbe::play_from_banks(const Offer& /*offer*/, const model::Question& question) {
  if (!question.circumstances.warm_units.empty()) {
    return after_others_->play_on(sm_of(question), question);
  }
  return banks_->play_on(sm_of(question), question);
}

std::optional<cuda::Played> CudaProbe::play_after_other_pages(const Offer& offer, const model::Question& question) {
  auto in_lines = lines_for_first_tlb_->in_lines(flooded(offer, question));
  if (in_lines && question.state == StartState::flooded) {
    // What is timed is the translation and not the way of the data: lines that L2 has dropped, or holds in its far part
    // only, come near before other pages take the translations' place.
    model::Question recorded = *in_lines;
    recorded.warm.clear();
    const model::AccessSequence near = gpu::once_each(recorded).warm;
    in_lines->warm.insert(in_lines->warm.begin(), near.begin(), near.end());
  }
  return in_lines ? gpu_.play_on(home_sm, manner_of(offer, question), *in_lines) : std::nullopt;
}

std::optional<cuda::Played> CudaProbe::run_code(const Offer& offer, const model::Question& question) {
  return code_.at(pieces_of(offer.target.path)).run_on(sm_of(question), question);
}

std::optional<cuda::Played> CudaProbe::play_after_new_mapping(const Offer& offer, const model::Question& question) {
  const auto in_lines = lines_for_second_tlb_->in_lines(question);
  if (!in_lines) {
    return std::nullopt;
  }
  const cuda::Manner manner = manner_of(offer, question);
  if (question.state == StartState::invalidated) {
    // What is timed is the translation and not the way of the data from memory to L2.
    static_cast<void>(gpu_.play_on(sm_of(question), manner, gpu::once_each(*in_lines)));
    gpu_.drop_translations();
  }
  return gpu_.play_on(sm_of(question), manner, *in_lines);
}

std::optional<cuda::Played> CudaProbe::play_after_everything(const Offer& offer, const model::Question& question) {
  if (question.state == StartState::invalidated) {
    gpu_.stream_through_l2();
    gpu_.drop_translations();
  }
  return gpu_.play_on(sm_of(question), manner_of(offer, question), question);
}

std::optional<std::string> CudaProbe::why_refused(const model::Question& question) const {
  const auto offer = offers_.find(question.target);
  if (offer == offers_.end()) {
    return gpu::not_offered(question.target, facts_.source);
  }
  const auto& refusals = offer->second.refusals;
  if (const auto state = refusals.find(question.state); state != refusals.end()) {
    return state->second;
  }
  if (auto refusal = model::refusal_of(facts_, question)) {
    return refusal;
  }
  const auto& [warm_target, carveout_kb, sm, warm_sms, contended_pairs, stores, hints, set_aside_bytes] =
      question.circumstances;
  if (sm && facts_.buffer_of(question.target).one_unit) {
    return question.target + " is always asked of the same SM on " + facts_.source + "; name none";
  }
  if (question.state != StartState::clean && (warm_target || carveout_kb)) {
    return "another carve-out or path of the warm-up needs a clean start on " + facts_.source + "; ask for that";
  }
  if (!warm_sms.empty()) {
    if (auto refusal = cuda::AfterOthersRunner::why_refused(question)) {
      return refusal;
    }
  }
  if (offer->second.target.emptying == Emptying::nothing) {
    if (auto refusal = CodeRunner::why_refused(pieces_of(offer->second.target.path), question)) {
      return refusal;
    }
  }
  // Offsets that stand for pages may be any.
  const std::uint64_t unit = offer->second.target.emptying == Emptying::everything
                                 ? cuda::unit_bytes(offer->second.target.path)
                                 : sizeof(std::uint32_t);
  return gpu::refusal_of_offsets(question, unit, offer->second.bytes);
}

std::vector<model::Timing> CudaProbe::time(std::span<const model::Workload> workloads) {
  if (!threads_) {
    return Answerer::time(workloads);
  }
  buffer_is_in_l2_ = false;
  std::vector<model::Timing> timings = threads_->run(workloads);
  watch_.look_if_due();
  return timings;
}

std::vector<model::Answer> CudaProbe::ask(std::span<const model::Question> questions) {
  std::vector<model::Answer> answers;
  answers.reserve(questions.size());
  while (answers.size() < questions.size()) {
    const auto left = questions.subspan(answers.size());
    const auto& first = left.front();
    if (auto refusal = why_refused(first)) {
      answers.push_back({.latency_cycles = {}, .refusal = std::move(refusal)});
      continue;
    }
    const Offer& offer = offers_.find(first.target)->second;
    if (first.circumstances.contended_pairs) {
      buffer_is_in_l2_ = false;
      answers.push_back({.latency_cycles = contention_->time(offer.reach, first.record), .refusal = std::nullopt});
      continue;
    }
    bring_buffer_to_l2(offer);
    if (plan_of(offer.target.emptying).apart == first.state) {
      const std::size_t together = gpu::batch_size(
          left, gpu_.sm_count(), [&](const model::Question& question) { return why_refused(question).has_value(); });
      for (auto& played : play_apart(offer, left.first(together))) {
        answers.push_back({.latency_cycles = std::move(played.latency_cycles), .refusal = std::nullopt});
      }
    } else if (auto played = play_alone(offer, first)) {
      answers.push_back({.latency_cycles = std::move(played->latency_cycles), .refusal = std::nullopt});
    } else {
      answers.push_back({.latency_cycles = {},
                         .refusal = "the SM of the last answer did not get this question alone on " + facts_.source +
                                    "; ask again from a clean state"});
    }
  }
  // The GPU idles while it refuses.
  if (std::ranges::any_of(answers, [](const model::Answer& answer) { return !answer.refusal; })) {
    watch_.look_if_due();
  }
  return answers;
}

}  // namespace

std::vector<std::string> cuda_targets() {
  std::vector<std::string> names;
  std::ranges::transform(all_targets, std::back_inserter(names),
                         [](const Target& each) { return std::string(each.name); });
  const auto of_workloads = model::workload_targets();
  names.insert(names.end(), of_workloads.begin(), of_workloads.end());
  return names;
}

std::vector<std::string> cuda_translation_targets() {
  std::vector<std::string> names;
  for (const Target& target : all_targets) {
    if (target.path == LoadPath::lines_cg) {
      names.emplace_back(target.name);
    }
  }
  return names;
}

// As prepare_buffers() takes it and the constructor of CudaProbe wants it.
std::map<std::string, std::uint64_t> cuda::needed_bytes(std::uint64_t l2_bytes) {
  const std::uint64_t pages_of_first_tlb = 4 * CudaProbe::plan_of(Emptying::other_pages).flood.bytes;
  const std::uint64_t pages_of_second_tlb = gpu::nearer_multiple * first_tlb_bytes / page_parts * free_parts;
  std::map<std::string, std::uint64_t> needed{{"L2", 2 * std::bit_ceil(2 * l2_bytes)},
                                              {"L1TLB", pages_of_first_tlb},
                                              {"L2TLB", pages_of_second_tlb},
                                              {"Latency", pages_of_second_tlb}};
  std::erase_if(needed, [](const auto& target) { return target.second <= 1ULL << 30U; });
  return needed;
}

std::unique_ptr<model::Answerer> open_cuda(const CudaOptions& options) {
  try {
    return std::make_unique<CudaProbe>(options);
  } catch (const DeviceError& error) {
    throw DeviceUnavailable(error.what());
  }
}

}  // namespace gpuinfer::probe
