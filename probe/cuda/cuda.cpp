// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "model/errors.hpp"
#include "probe/cuda/gpu.hpp"

namespace gpuinfer::probe {
namespace {

using cuda::LoadPath;
using model::StartState;

struct Target {
  std::string_view name;
  LoadPath path;
};

constexpr std::array<Target, 4> all_targets{{
    {"L1tex", LoadPath::global_ca},
    {"ReadOnly", LoadPath::global_nc},
    {"Texture", LoadPath::texture},
    {"L2", LoadPath::global_cg},
}};

// Why a target cannot be put into these states; it can be put into the others.
using Refusals = std::map<StartState, std::string>;

// How many of the latencies are those of hits, where `hits` holds nothing but hits.
std::size_t count_hits(std::span<const float> latencies, std::span<const float> hits) {
  std::vector<float> sorted(hits.begin(), hits.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  const float slowest_hit = 1.5F * *middle;
  return static_cast<std::size_t>(
      std::ranges::count_if(latencies, [slowest_hit](float latency) { return latency <= slowest_hit; }));
}

class CudaProbe final : public model::Answerer {
 public:
  explicit CudaProbe(const CudaOptions& options);

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override;

 private:
  [[nodiscard]] Refusals try_states(LoadPath path);
  [[nodiscard]] std::vector<cuda::Played> play_clean(LoadPath path, std::span<const model::Question> questions);
  [[nodiscard]] std::optional<cuda::Played> play_on_last_sm(LoadPath path, const model::Question& question);

  [[nodiscard]] std::optional<std::string> why_refused(const model::Question& question) const;
  [[nodiscard]] std::size_t batch_size(std::span<const model::Question> questions) const;

  cuda::Gpu gpu_;
  model::DeviceFacts facts_;
  std::map<std::string, LoadPath, std::less<>> paths_;
  std::map<LoadPath, Refusals> refusals_;
  std::uint32_t last_sm_ = 0;
};

CudaProbe::CudaProbe(const CudaOptions& options) : gpu_(options), facts_(gpu_.facts()) {
  for (const auto& [name, path] : all_targets) {
    if (path != LoadPath::texture || gpu_.buffer().texture()) {
      facts_.targets.emplace_back(name);
      paths_.emplace(name, path);
      refusals_.emplace(path, try_states(path));
    }
  }
}

// A state is given when lines that were there, and fit with room to spare, all miss afterwards, or hit if they were to
// stay.
Refusals CudaProbe::try_states(LoadPath path) {
  if (path == LoadPath::global_cg) {
    const std::string reason = "L2 cannot be emptied from a kernel on " + facts_.source + "; ask with state keep";
    return {{StartState::clean, reason}, {StartState::invalidated, reason}};
  }
  constexpr std::size_t lines = 64;
  constexpr std::uint64_t line_bytes = 128;
  const std::uint64_t span_bytes = std::min(lines * line_bytes, facts_.buffer_bytes);
  const auto touch = model::cold_pass(0, span_bytes, line_bytes);
  model::Question question;
  question.record = model::repeated(touch, 2);

  Refusals refusals;
  const auto refuse = [&](StartState state) {
    refusals[state] = "state " + std::string(to_string(state)) + " was tried on " + facts_.source +
                      " and not reached; ask with another state";
  };

  const std::vector<model::Question> everywhere(gpu_.sm_count(), question);
  static_cast<void>(play_clean(path, everywhere));
  const auto again = play_clean(path, everywhere);
  const auto hits = std::span(again.back().latency_cycles).last(touch.size());
  const auto first_pass_hits = [&](const cuda::Played& played) {
    return count_hits(std::span(played.latency_cycles).first(touch.size()), hits) > 0;
  };
  if (std::ranges::any_of(again, first_pass_hits)) {
    refuse(StartState::clean);
  }

  question.record = touch;
  question.state = StartState::keep;
  const auto kept = play_on_last_sm(path, question);
  constexpr std::size_t stray = 4;
  if (!kept || count_hits(kept->latency_cycles, hits) + stray < touch.size()) {
    refuse(StartState::keep);
  }
  question.state = StartState::invalidated;
  const auto dropped = play_on_last_sm(path, question);
  if (!dropped || count_hits(dropped->latency_cycles, hits) > 0) {
    refuse(StartState::invalidated);
  }
  return refusals;
}

std::vector<cuda::Played> CudaProbe::play_clean(LoadPath path, std::span<const model::Question> questions) {
  auto played = gpu_.play_clean(path, questions);
  last_sm_ = played.back().sm;
  return played;
}

std::optional<cuda::Played> CudaProbe::play_on_last_sm(LoadPath path, const model::Question& question) {
  return gpu_.play_on(last_sm_, path, question);
}

std::optional<std::string> CudaProbe::why_refused(const model::Question& question) const {
  const auto path = paths_.find(question.target);
  if (path == paths_.end()) {
    return "target " + question.target + " is not known to " + facts_.source + "; ask for one that it offers";
  }
  const auto& refusals = refusals_.at(path->second);
  if (const auto state = refusals.find(question.state); state != refusals.end()) {
    return state->second;
  }
  for (const auto* sequence : {&question.warm, &question.record}) {
    for (const std::uint64_t offset : *sequence) {
      if (offset % sizeof(std::uint32_t) != 0 || offset >= facts_.buffer_bytes) {
        return "offset " + std::to_string(offset) + " is not that of a 4-byte word in the buffer of " +
               std::to_string(facts_.buffer_bytes) + " bytes; ask for multiples of 4 below that";
      }
    }
  }
  return std::nullopt;
}

// How many of the first questions can go out in one launch.
std::size_t CudaProbe::batch_size(std::span<const model::Question> questions) const {
  constexpr std::size_t most_accesses = std::size_t{1} << 24U;
  const auto& first = questions.front();
  if (first.state != StartState::clean) {
    return 1;
  }
  std::size_t count = 0;
  std::size_t accesses = 0;
  for (const auto& question : questions.first(std::min(questions.size(), gpu_.sm_count()))) {
    accesses += question.warm.size() + question.record.size();
    const bool fits = count == 0 || accesses <= most_accesses;
    if (!fits || question.state != first.state || question.target != first.target || why_refused(question)) {
      break;
    }
    ++count;
  }
  return count;
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
    const LoadPath path = paths_.find(first.target)->second;
    if (first.state == StartState::clean) {
      for (auto& played : play_clean(path, left.first(batch_size(left)))) {
        answers.push_back({.latency_cycles = std::move(played.latency_cycles), .refusal = std::nullopt});
      }
    } else if (auto played = play_on_last_sm(path, first)) {
      answers.push_back({.latency_cycles = std::move(played->latency_cycles), .refusal = std::nullopt});
    } else {
      answers.push_back({.latency_cycles = {},
                         .refusal = "the SM of the last answer did not get this question alone on " + facts_.source +
                                    "; ask again from a clean state"});
    }
  }
  return answers;
}

}  // namespace

std::vector<std::string> cuda_device_names() {
  int devices = 0;
  std::vector<std::string> names;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {
    return names;
  }
  for (int device = 0; device < devices; ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
      names.emplace_back(properties.name);
    }
  }
  return names;
}

std::unique_ptr<model::Answerer> open_cuda(const CudaOptions& options) {
  try {
    return std::make_unique<CudaProbe>(options);
  } catch (const DeviceError& error) {
    throw DeviceUnavailable(error.what());
  }
}

}  // namespace gpuinfer::probe
