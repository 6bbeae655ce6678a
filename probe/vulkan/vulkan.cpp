// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/vulkan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "model/errors.hpp"
#include "model/number_text.hpp"
#include "model/provenance.hpp"
#include "probe/device_failures.hpp"
#include "probe/gpu/emptying.hpp"
#include "probe/gpu/refusals.hpp"
#include "probe/gpu/texel_places.hpp"
#include "probe/vulkan/carveouts.hpp"
#include "probe/vulkan/gpu.hpp"
#include "probe/vulkan/pipelines.hpp"
#include "probe/vulkan/shared_memory.hpp"

namespace gpuinfer::probe {
namespace {

using model::StartState;
using vulkan::LoadPath;

// What empties the cache behind a path.
enum class Emptying {
  barrier,          // no unit may have old data behind it
  streaming,        // all units load other lines
  other_constants,  // the unit loads other lines first
};

struct Target {
  std::string_view name;
  LoadPath path;
  Emptying emptying;
};

constexpr std::array all_targets{
    Target{"L1tex", LoadPath::global, Emptying::barrier},
    Target{"Texture", LoadPath::texel, Emptying::barrier},
    Target{"Texture2D", LoadPath::texel_2d, Emptying::barrier},
    Target{"ConstL1", LoadPath::constant, Emptying::other_constants},
    Target{"L2", LoadPath::past_l1, Emptying::streaming},
};

// That is asked by workloads.
constexpr std::string_view shared_target = "Shared";

constexpr model::Raster raster{
    .texel_bytes = vulkan::word_bytes, .width = vulkan::raster_width, .height = vulkan::raster_height};

// Where nothing but one unit may touch what is measured, it is always this one.
constexpr std::uint32_t home_unit = 0;

class VulkanProbe final : public model::Answerer {
 public:
  explicit VulkanProbe(const VulkanOptions& options);

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override;
  [[nodiscard]] std::vector<model::Timing> time(std::span<const model::Workload> workloads) override;
  [[nodiscard]] std::optional<std::vector<std::uint64_t>> places_of(const std::string& target,
                                                                    std::span<const std::uint64_t> offsets) override;

 private:
  // A target that can be asked.
  struct Offer {
    Target target;
    vulkan::Reach reach;
    std::uint64_t bytes = 0;                     // of the reach, for questions
    float nothing_cycles = 0;                    // what is timed without a load
    std::map<StartState, std::string> refusals;  // why it cannot be put into these states; it can be into the others
  };

  void offer(const Target& target);
  [[nodiscard]] gpu::Emptying plan_of(Emptying emptying) const;
  void find_carveouts(std::optional<std::uint32_t> asked_kb);
  // The longest contiguous array of which nothing misses when it is loaded once more.
  [[nodiscard]] std::uint64_t bytes_that_fit(const Offer& offer, const vulkan::Shape& shape);
  [[nodiscard]] vulkan::Manner manner_of(const Offer& offer, const model::Question& question) const;
  // What the clock costs on this path. Throws DeviceUnavailable where the clock is too coarse for a load.
  [[nodiscard]] float time_nothing(const Target& target, const vulkan::Reach& reach);
  void try_states(Offer& offer);

  // Each on a unit of its own. Throws TransientError where that cannot be had, time and again; but what keeps the state
  // is tried once.
  [[nodiscard]] std::vector<vulkan::Played> play(const Offer& offer, std::span<const model::Question> questions) {
    return play(offer, manner_of(offer, questions.front()), questions);
  }
  [[nodiscard]] std::vector<vulkan::Played> play(const Offer& offer, const vulkan::Manner& manner,
                                                 std::span<const model::Question> questions);
  [[nodiscard]] bool is_played_in_parts(const model::Question& question) const {
    return question.warm.size() + question.record.size() > most_accesses_of_part();
  }
  // Played at a time: less than 100 ms, even of misses, so that no driver takes the GPU for hung and no display stands
  // still. Longer questions are played in parts where the state is kept from one to the next.
  [[nodiscard]] std::uint64_t most_accesses_of_part() const { return gpu_.most_accesses() / 2; }
  [[nodiscard]] model::Answer answer_in_parts(const Offer& offer, const model::Question& question);
  [[nodiscard]] model::Answer answer_of(const Offer& offer, const model::Question& question,
                                        vulkan::Played played) const;
  [[nodiscard]] std::vector<std::uint32_t> units_for(const Offer& offer, std::span<const model::Question> questions);
  [[nodiscard]] std::size_t together(const Offer& offer, std::span<const model::Question> questions) const;
  // Of the first questions, as many as their lists have room at a time.
  [[nodiscard]] std::size_t with_room(const Offer& offer, std::span<const model::Question> questions) const;
  // That come before a question which begins so.
  [[nodiscard]] std::uint64_t flood_accesses(const Offer& offer, StartState state) const;
  [[nodiscard]] std::optional<std::string> why_refused(const model::Question& question) const;

  vulkan::Gpu gpu_;
  model::DeviceFacts facts_;
  std::map<std::string, Offer, std::less<>> offers_;
  vulkan::Shape shape_;                               // where questions ask for no carve-out
  std::map<std::uint32_t, vulkan::Shape> carveouts_;  // by KB
  std::optional<vulkan::Reach> streamed_;
  std::optional<vulkan::SharedMemory> shared_memory_;
  std::uint32_t last_unit_ = home_unit;
};

bool is_asked(const VulkanOptions& options, std::string_view name) {
  return options.targets.empty() || std::ranges::find(options.targets, name) != options.targets.end();
}

VulkanProbe::VulkanProbe(const VulkanOptions& options)
    : gpu_(options), facts_(gpu_.facts()), shape_(gpu_.shapes().back()) {
  const vulkan::Reach reach = gpu_.reach(LoadPath::global);
  facts_.buffer = {.bytes = reach.bytes, .address = model::Address{reach.address}};
  for (const Target& target : all_targets) {
    // A CPU that plays a GPU passes no cache by.
    if (target.path != LoadPath::past_l1 || gpu_.is_gpu()) {
      facts_.targets.emplace_back(target.name);
      if (is_asked(options, target.name)) {
        offer(target);
      }
    }
  }
  if (gpu_.is_gpu() && vulkan::loads_shared(gpu_)) {
    facts_.targets.emplace_back(shared_target);
    shared_memory_.emplace(gpu_, facts_.source);
  }
  find_carveouts(options.carveout_kb);
}

void VulkanProbe::find_carveouts(std::optional<std::uint32_t> asked_kb) {
  for (const auto& [name, offer] : offers_) {
    if (offer.target.emptying == Emptying::barrier && offer.target.path != LoadPath::texel_2d &&
        !offer.refusals.contains(StartState::clean)) {
      facts_.warm_targets.push_back(name);
    }
  }
  if (!facts_.warm_targets.empty()) {
    const Offer& carved = offers_.find(facts_.warm_targets.front())->second;
    std::vector<vulkan::Fit> fits;
    for (const vulkan::Shape& shape : gpu_.shapes()) {
      fits.push_back({.shape = shape, .bytes = bytes_that_fit(carved, shape)});
    }
    carveouts_ = vulkan::carveouts_of(fits, vulkan::most_of_unit);
  }
  if (carveouts_.empty() && !asked_kb) {
    return;
  }
  const auto chosen = carveouts_.lower_bound(asked_kb.value_or(0));
  if (chosen == carveouts_.end()) {
    throw InputError(facts_.source + " cannot set aside " + std::to_string(*asked_kb) + " KB as shared memory; " +
                     (carveouts_.empty() ? "leave out --carveout"
                                         : "ask for at most " + std::to_string(carveouts_.rbegin()->first)));
  }
  const auto& [kb, shape] = asked_kb ? *chosen : *carveouts_.rbegin();
  shape_ = shape;
  facts_.provenance[std::string(model::carveout_fact)] = std::to_string(kb);
  for (const auto& [each_kb, each] : carveouts_) {
    facts_.shared_memories_kb.push_back(each_kb);
  }
}

std::uint64_t VulkanProbe::bytes_that_fit(const Offer& offer, const vulkan::Shape& shape) {
  constexpr std::uint64_t stride_bytes = 64;  // no more than a line of any L1
  const auto latencies_of = [&](std::uint64_t bytes, std::uint64_t passes) {
    model::Question question{.target = std::string(offer.target.name),
                             .state = StartState::clean,
                             .warm = {},
                             .record = model::repeated(model::cold_pass(0, bytes, stride_bytes), passes)};
    vulkan::Manner manner = manner_of(offer, question);
    manner.shape = shape;
    return play(offer, manner, {&question, 1}).front().latency_cycles;
  };
  constexpr std::uint64_t fits_anyhow_bytes = 1024;
  constexpr std::uint64_t step_bytes = 512;
  constexpr std::uint64_t most_bytes = 1U << 20U;
  // What is loaded for the first time may come from further away.
  static_cast<void>(latencies_of(fits_anyhow_bytes, 1));
  const std::vector<float> few = latencies_of(fits_anyhow_bytes, 4);
  const float limit = (std::ranges::min(few) + few.front()) / 2;
  const auto fits = [&](std::uint64_t bytes) {
    constexpr std::ptrdiff_t stray = 2;
    const std::vector<float> latencies = latencies_of(bytes, 2);
    return std::count_if(latencies.begin() + std::ssize(latencies) / 2, latencies.end(),
                         [&](float latency) { return latency > limit; }) <= stray;
  };
  std::uint64_t fitting = fits_anyhow_bytes;
  for (std::uint64_t too_many = most_bytes; too_many - fitting > step_bytes;) {
    const std::uint64_t middle = (fitting + too_many) / 2 / step_bytes * step_bytes;
    (fits(middle) ? fitting : too_many) = middle;
  }
  return fitting;
}

vulkan::Manner VulkanProbe::manner_of(const Offer& offer, const model::Question& question) const {
  const auto& warm_target = question.circumstances.warm_target;
  const auto& kb = question.circumstances.shared_memory_kb;
  return {.path = offer.target.path,
          .warm = warm_target ? offers_.find(*warm_target)->second.target.path : offer.target.path,
          .shape = kb ? carveouts_.at(*kb) : shape_,
          .reach = offer.reach,
          .new_l1 = question.state == StartState::clean,
          .nothing = false};
}

// A buffer of its own is several times what the last cache of any GPU holds, as far as there is memory.
void VulkanProbe::offer(const Target& target) {
  Offer made{.target = target, .reach = gpu_.reach(target.path), .refusals = {}};
  if (target.emptying == Emptying::streaming) {
    constexpr std::uint64_t enough_bytes = 256ULL << 20U;
    constexpr std::uint64_t parts = 16;
    const std::uint64_t bytes = std::bit_floor(std::min(enough_bytes, gpu_.memory_bytes() / parts));
    made.reach = gpu_.allocate(bytes);
    streamed_ = gpu_.allocate(2 * bytes);
  }
  const auto bytes = gpu::asked_bytes(plan_of(target.emptying), made.reach.bytes);
  if (!bytes) {
    std::erase(facts_.targets, target.name);
    return;
  }
  made.bytes = *bytes;
  const model::BufferFacts buffer{.bytes = made.bytes,
                                  .address = model::Address{made.reach.address},
                                  .raster = target.path == LoadPath::texel_2d ? std::optional(raster) : std::nullopt};
  if (buffer != facts_.buffer) {
    facts_.own_buffers[std::string(target.name)] = buffer;
  }
  made.nothing_cycles = time_nothing(target, made.reach);
  std::string& told = facts_.provenance["clock_cycles"];
  told += (told.empty() ? "" : ", ") + std::string(target.name) + " " + model::whole_text(made.nothing_cycles);
  try_states(made);
  if (target.emptying == Emptying::streaming && gpu_.units()) {
    facts_.contended_targets.emplace_back(target.name);
  }
  offers_.emplace(target.name, std::move(made));
}

gpu::Emptying VulkanProbe::plan_of(Emptying emptying) const {
  if (emptying == Emptying::streaming) {
    return {.to_flooded = true};
  }
  const auto where_units_are_known = [this](StartState state) {
    return gpu_.units() ? std::optional(state) : std::nullopt;
  };
  if (emptying == Emptying::other_constants) {
    return {.to_flooded = true,
            .apart = where_units_are_known(StartState::flooded),
            .flood = {.bytes = 16U << 10U, .stride_bytes = 64},
            .touches = {.count = 16, .stride_bytes = 64}};
  }
  // Only where L1 and shared memory are one memory, as on GPUs of NVIDIA, is the state of replacement new as well. No
  // barrier empties the caches of a CPU.
  return {.to_clean = gpu_.units().has_value(),
          .to_invalidated = gpu_.is_gpu(),
          .apart = where_units_are_known(StartState::clean)};
}

float VulkanProbe::time_nothing(const Target& target, const vulkan::Reach& reach) {
  constexpr std::size_t times = 1024;
  const model::Question question{.target = std::string(target.name),
                                 .state = StartState::keep,
                                 .warm = {},
                                 .record = model::AccessSequence(times)};
  std::vector<float> latencies =
      gpu_.play({.path = target.path, .warm = target.path, .shape = shape_, .reach = reach, .nothing = true},
                {&question, 1}, {&home_unit, 1})
          .front()
          .latency_cycles;
  const auto middle = latencies.begin() + static_cast<std::ptrdiff_t>(latencies.size() / 2);
  std::ranges::nth_element(latencies, middle);
  constexpr std::uint32_t fewest_steps = 4;
  if (*middle < static_cast<float>(fewest_steps * gpu_.clock().step_ticks)) {
    throw DeviceUnavailable(facts_.source + " has a clock that moves in steps of " +
                            std::to_string(gpu_.clock().step_ticks) + " and shows " + model::whole_text(*middle) +
                            " from one reading to the next, which is too coarse for single loads; take another device");
  }
  return *middle;
}

void VulkanProbe::try_states(Offer& offer) {
  const std::string name(offer.target.name);
  const gpu::Launches launches{
      .alone = [&](const model::Question& question) -> std::optional<gpu::Latencies> {
        vulkan::Played played = std::move(play(offer, {&question, 1}).front());
        return played.was_alone ? std::optional(std::move(played.latency_cycles)) : std::nullopt;
      },
      .everywhere =
          [&](model::Question question) {
            std::vector<model::Question> all;
            for (std::uint32_t unit = 0; unit < gpu_.units().value_or(1); ++unit) {
              question.circumstances.unit = model::ComputeUnit{unit};
              all.push_back(question);
            }
            std::vector<gpu::Latencies> latencies;
            while (latencies.size() < all.size()) {
              const auto left = std::span<const model::Question>(all).subspan(latencies.size());
              for (auto& played : play(offer, left.first(with_room(offer, left)))) {
                latencies.push_back(std::move(played.latency_cycles));
              }
            }
            return latencies;
          }};
  const gpu::Emptying plan = plan_of(offer.target.emptying);
  std::set<StartState> reached = gpu::states_reached(plan, name, offer.bytes, plan.touches, launches);
  // What else runs on the device, or on the CPU that plays one, drives out lines at times.
  constexpr int tries = 4;
  for (int i = 0; i < tries && !reached.contains(StartState::keep); ++i) {
    if (gpu::states_reached(plan, name, offer.bytes, plan.touches, launches).contains(StartState::keep)) {
      reached.insert(StartState::keep);
    }
  }
  offer.refusals = gpu::refused_states(reached, name, facts_.source);
}

// A clean question goes to any unit that it does not name; the others stay where the last one was.
std::vector<std::uint32_t> VulkanProbe::units_for(const Offer& offer, std::span<const model::Question> questions) {
  std::vector<std::uint32_t> units(questions.size());
  if (!gpu_.units()) {
    return units;
  }
  const bool apart = plan_of(offer.target.emptying).apart == questions.front().state;
  std::iota(units.begin(), units.end(), 0U);
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const std::uint32_t usual = offer.target.emptying == Emptying::streaming ? home_unit
                                : apart                                      ? units[i]
                                                                             : last_unit_;
    units[i] = number_of(questions[i].circumstances.unit.value_or(model::ComputeUnit{usual}));
  }
  last_unit_ = units.back();
  return units;
}

std::vector<vulkan::Played> VulkanProbe::play(const Offer& offer, const vulkan::Manner& manner,
                                              std::span<const model::Question> questions) {
  constexpr int tries = 8;
  const StartState state = questions.front().state;
  const std::vector<std::uint32_t> units = units_for(offer, questions);
  const gpu::Emptying plan = plan_of(offer.target.emptying);
  const std::vector<model::Question> flooded =
      plan.flood.bytes > 0 ? gpu::after_flood(plan, offer.bytes, questions) : std::vector<model::Question>{};
  for (int i = 0; i < tries; ++i) {
    if (state == StartState::flooded && offer.target.emptying == Emptying::streaming) {
      gpu_.stream_through(*streamed_);
    }
    std::vector<vulkan::Played> all = gpu_.play(manner, flooded.empty() ? questions : flooded, units);
    if (state == StartState::keep || std::ranges::all_of(all, &vulkan::Played::was_alone)) {
      for (vulkan::Played& played : all) {
        for (float& latency : played.latency_cycles) {
          latency = std::max(0.0F, latency - offer.nothing_cycles);
        }
      }
      return all;
    }
  }
  throw TransientError(facts_.source + " put several workgroups on one unit " + std::to_string(tries) +
                       " times in a row; end what else runs on it");
}

std::uint64_t VulkanProbe::flood_accesses(const Offer& offer, StartState state) const {
  const gpu::Emptying plan = plan_of(offer.target.emptying);
  const bool floods = state == StartState::flooded && plan.flood.bytes > 0;
  return floods ? (offer.bytes + plan.flood.bytes) / plan.flood.stride_bytes : 0;
}

// As many as have room.
std::size_t VulkanProbe::together(const Offer& offer, std::span<const model::Question> questions) const {
  if (plan_of(offer.target.emptying).apart != questions.front().state) {
    return 1;
  }
  const std::size_t most = gpu::batch_size(questions, *gpu_.units(), [&](const model::Question& question) {
    return is_played_in_parts(question) || why_refused(question).has_value();
  });
  return with_room(offer, questions.first(most));
}

std::size_t VulkanProbe::with_room(const Offer& offer, std::span<const model::Question> questions) const {
  std::size_t count = 0;
  for (std::uint64_t room = gpu_.most_accesses(); count < questions.size(); ++count) {
    const std::uint64_t needed =
        questions[count].warm.size() + questions[count].record.size() + flood_accesses(offer, questions.front().state);
    if (needed > room) {
      break;
    }
    room -= needed;
  }
  return count;
}

std::optional<std::string> VulkanProbe::why_refused(const model::Question& question) const {
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
  if (const auto& asked = question.circumstances;
      question.state != StartState::clean && (asked.warm_target || asked.shared_memory_kb)) {
    return "another carve-out or path of the warm-up needs a clean start on " + facts_.source + "; ask for that";
  }
  if (is_played_in_parts(question) && refusals.contains(StartState::keep)) {
    return "a question of " + std::to_string(question.warm.size() + question.record.size()) +
           " accesses is longer than the " + std::to_string(most_accesses_of_part()) + " that " + facts_.source +
           " takes; ask shorter ones";
  }
  return gpu::refusal_of_offsets(question, vulkan::word_bytes, offer->second.bytes);
}

model::Answer VulkanProbe::answer_of(const Offer& offer, const model::Question& question, vulkan::Played played) const {
  const std::uint64_t accesses = question.warm.size() + question.record.size() + flood_accesses(offer, question.state);
  if (!played.was_alone) {
    return {.latency_cycles = {},
            .refusal = "the unit of the last answer did not get this question alone on " + facts_.source +
                       "; ask again from a clean state"};
  }
  if (played.accesses != accesses) {
    return {.latency_cycles = {},
            .refusal = "the driver of " + facts_.source + " ended a question of " + std::to_string(accesses) +
                       " accesses after " + std::to_string(played.accesses) + "; ask shorter ones"};
  }
  return {.latency_cycles = std::move(played.latency_cycles), .refusal = std::nullopt};
}

// Each part but the first goes on where the one before it ended.
model::Answer VulkanProbe::answer_in_parts(const Offer& offer, const model::Question& question) {
  const auto part_of = [](const model::AccessSequence& all, std::uint64_t begin, std::uint64_t end) {
    const auto at = [&all](std::uint64_t place) {
      return all.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(place, all.size()));
    };
    return model::AccessSequence(at(begin), at(end));
  };
  const std::uint64_t warm = question.warm.size();
  const std::uint64_t accesses = warm + question.record.size();
  model::Answer all;
  model::Question part = question;
  for (std::uint64_t begin = 0; begin < accesses; begin += most_accesses_of_part()) {
    const std::uint64_t end = begin + most_accesses_of_part();
    part.warm = part_of(question.warm, begin, end);
    part.record = part_of(question.record, std::max(begin, warm) - warm, std::max(end, warm) - warm);
    model::Answer answer = answer_of(offer, part, std::move(play(offer, {&part, 1}).front()));
    if (answer.refusal) {
      return answer;
    }
    all.latency_cycles.insert(all.latency_cycles.end(), answer.latency_cycles.begin(), answer.latency_cycles.end());
    part.state = StartState::keep;
  }
  return all;
}

std::vector<model::Answer> VulkanProbe::ask(std::span<const model::Question> questions) {
  std::vector<model::Answer> answers;
  answers.reserve(questions.size());
  while (answers.size() < questions.size()) {
    const auto left = questions.subspan(answers.size());
    if (auto refusal = why_refused(left.front())) {
      answers.push_back({.latency_cycles = {}, .refusal = std::move(refusal)});
      continue;
    }
    const Offer& offer = offers_.find(left.front().target)->second;
    if (left.front().circumstances.contended_pairs) {
      answers.push_back({.latency_cycles = gpu_.contend(offer.reach, left.front().record), .refusal = std::nullopt});
      continue;
    }
    if (is_played_in_parts(left.front())) {
      answers.push_back(answer_in_parts(offer, left.front()));
      continue;
    }
    const auto first = left.first(together(offer, left));
    auto played = play(offer, first);
    for (std::size_t i = 0; i < first.size(); ++i) {
      answers.push_back(answer_of(offer, first[i], std::move(played[i])));
    }
  }
  return answers;
}

std::vector<model::Timing> VulkanProbe::time(std::span<const model::Workload> workloads) {
  return shared_memory_ ? shared_memory_->time(workloads) : Answerer::time(workloads);
}

std::optional<std::vector<std::uint64_t>> VulkanProbe::places_of(const std::string& target,
                                                                 std::span<const std::uint64_t> offsets) {
  const auto offer = offers_.find(target);
  if (offer == offers_.end() || offer->second.target.path != LoadPath::texel_2d) {
    return std::nullopt;
  }
  return gpu::places_of_offsets(gpu_.places_of_texels(), offsets);
}

}  // namespace

std::vector<std::string> vulkan_targets() {
  std::vector<std::string> names;
  std::ranges::transform(all_targets, std::back_inserter(names),
                         [](const Target& each) { return std::string(each.name); });
  names.emplace_back(shared_target);
  return names;
}

std::unique_ptr<model::Answerer> open_vulkan(const VulkanOptions& options) {
  try {
    return std::make_unique<VulkanProbe>(options);
  } catch (const DeviceError& error) {
    throw DeviceUnavailable(error.what());
  }
}

}  // namespace gpuinfer::probe
