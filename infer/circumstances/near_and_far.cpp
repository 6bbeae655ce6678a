// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/circumstances/near_and_far.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>

#include "infer/asking/pages.hpp"
#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"
#include "infer/asking/thresholds.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

// Shares of the lines that two SMs find at different distances: SMs near the same part differ only where a load was
// slow for another reason, others in one line of as many as there are parts or in more.
constexpr double few = 0.1;
constexpr double many = 0.2;

// Of a full set nobody knows which line has to go, so in a set of so many ways one line at a time is surely kept.
constexpr std::uint64_t most_ways = 16;

// What SM `by` brought is loaded by SM `then`, twice.
struct Loads {
  std::vector<float> first;
  std::vector<float> second;
};

Loads load_after(Asker& device, model::ComputeUnit by, model::ComputeUnit then, const AccessSequence& lines) {
  model::Question bring = device.question_unflooded({}, lines);
  bring.state = model::StartState::flooded;
  bring.circumstances.unit = by;
  model::Question look = device.question_unflooded({}, model::repeated(lines, 2));
  look.state = model::StartState::keep;
  look.circumstances.unit = then;
  const std::vector<std::vector<float>> answers = device.latencies(std::vector{bring, look});
  const auto half = answers[1].begin() + static_cast<std::ptrdiff_t>(lines.size());
  return {.first = {answers[1].begin(), half}, .second = {half, answers[1].end()}};
}

// Halfway between two kinds of latencies, less than this share of which are strays and slow; none if there is but one.
std::optional<double> limit_of_near(std::span<const double> sorted, double strays) {
  sorted = sorted.first(sorted.size() - static_cast<std::size_t>(strays * static_cast<double>(sorted.size())));
  // Two means (Lloyd); sorted, a split is a position.
  auto limit = std::midpoint(sorted.front(), sorted.back());
  Spread low;
  Spread high;
  for (int step = 0; step < 64; ++step) {
    const auto split = static_cast<std::size_t>(std::upper_bound(sorted.begin(), sorted.end(), limit) - sorted.begin());
    if (split == 0 || split == sorted.size()) {
      return std::nullopt;
    }
    low = spread_of(sorted.first(split));
    high = spread_of(sorted.subspan(split));
    limit = std::midpoint(low.mean, high.mean);
  }
  // Halves of one kind are less than three deviations apart.
  constexpr double deviations_apart = 5;
  const bool are_two = high.mean - low.mean >= deviations_apart * std::max({low.deviation, high.deviation, 1.0});
  return are_two ? std::optional(limit) : std::nullopt;
}

// The same of first loads, of which few are strays or a few more.
std::optional<double> limit_of_near(const std::vector<Loads>& of_sms) {
  std::vector<double> firsts;
  for (const Loads& loads : of_sms) {
    firsts.insert(firsts.end(), loads.first.begin(), loads.first.end());
  }
  std::sort(firsts.begin(), firsts.end());
  const auto limit = limit_of_near(firsts, 0.01);
  return limit ? limit : limit_of_near(firsts, 0.05);
}

// By how much lines differ for one SM, which loads them again and again: what is a line's own comes again in every
// round, so the covariance of two rounds is its variance.
class LineDifference {
 public:
  // The same lines in the same order every time.
  void add(const std::vector<float>& latency_cycles) {
    std::vector<double> row = without_strays(latency_cycles);
    sum_.resize(row.size());
    std::ranges::transform(sum_, row, sum_.begin(), std::plus<>());
    sum_of_squares_ += std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
    ++rounds_;
  }

  [[nodiscard]] bool is_seen() const {
    constexpr double deviations = 8;
    return rounds_ > 1 && variance() > deviations * deviation();
  }

  // What a far line might take longer at most, as long as a quarter of the lines is far, or near.
  [[nodiscard]] double unseen_far_cycles() const {
    constexpr double deviations = 4;
    constexpr double share_of_far = 0.25;
    if (rounds_ < 2) {
      return std::numeric_limits<double>::infinity();
    }
    return std::sqrt((std::max(variance(), 0.0) + deviations * deviation()) / (share_of_far * (1 - share_of_far)));
  }

 private:
  [[nodiscard]] double lines() const { return static_cast<double>(sum_.size()); }
  [[nodiscard]] double pairs() const { return static_cast<double>(rounds_) * static_cast<double>(rounds_ - 1); }

  [[nodiscard]] double variance() const {
    const double square_of_sum = std::inner_product(sum_.begin(), sum_.end(), sum_.begin(), 0.0);
    return (square_of_sum - sum_of_squares_) / (pairs() * lines());
  }

  // Of that, if lines do not differ.
  [[nodiscard]] double deviation() const {
    const double of_load = sum_of_squares_ / (static_cast<double>(rounds_) * lines());
    return of_load * std::sqrt(2 / (pairs() * lines()));
  }

  // From the mean; the slowest and the fastest count no more than those next to them.
  static std::vector<double> without_strays(const std::vector<float>& latency_cycles) {
    std::vector<double> row(latency_cycles.begin(), latency_cycles.end());
    std::vector<double> sorted = row;
    std::ranges::sort(sorted);
    const std::size_t strays = sorted.size() / 48;
    std::ranges::transform(row, row.begin(), [&](double cycles) {
      return std::clamp(cycles, sorted[strays], sorted[sorted.size() - 1 - strays]);
    });
    const double mean = spread_of(row).mean;
    std::ranges::transform(row, row.begin(), [mean](double cycles) { return cycles - mean; });
    return row;
  }

  std::vector<double> sum_;  // over the rounds, of each line
  double sum_of_squares_ = 0;
  std::size_t rounds_ = 0;
};

// Which of the lines of an aligned page have their home near SM `by`, as SM `then` sees it, a block at a time.
std::vector<bool> homes_in_page(Asker& device, model::ComputeUnit by, model::ComputeUnit then, std::uint64_t page,
                                std::uint64_t block_bytes, std::uint64_t line_bytes, double limit) {
  model::Random random = stream(device.settings(), "homes in a page", page);
  std::vector<bool> homes(mapped_page_bytes / line_bytes);
  const std::size_t lines_of_block = block_bytes / line_bytes;
  for (std::size_t first = 0; first < homes.size(); first += lines_of_block) {
    std::vector<std::size_t> order(lines_of_block);
    std::iota(order.begin(), order.end(), first);
    random.shuffle(order);
    AccessSequence lines;
    std::transform(order.begin(), order.end(), std::back_inserter(lines),
                   [&](std::size_t line) { return page + line * line_bytes; });
    const Loads loads = load_after(device, by, then, lines);
    for (std::size_t i = 0; i < order.size(); ++i) {
      homes[order[i]] = loads.first[i] > limit;
    }
  }
  return homes;
}

// The address bits that swap the part whenever they change; none if some bit does so for some lines only. A few lines
// may be misread.
std::optional<std::uint64_t> parity_mask(const std::vector<bool>& homes, std::uint64_t line_bytes) {
  constexpr double misread = 0.01;
  std::uint64_t mask = 0;
  for (std::size_t bit = 1; bit < homes.size(); bit *= 2) {
    std::size_t swaps = 0;
    for (std::size_t line = 0; line < homes.size(); ++line) {
      swaps += homes[line] != homes[line ^ bit] ? 1U : 0U;
    }
    const double share = static_cast<double>(swaps) / static_cast<double>(homes.size());
    if (share > misread && share < 1 - misread) {
      return std::nullopt;
    }
    mask |= share > 0.5 ? bit * line_bytes : 0;
  }
  return mask;
}

class NearAndFarSearch {
 public:
  NearAndFarSearch(Asker& device, std::uint64_t line_bytes, std::uint64_t fits_bytes)
      : device_(&device), line_bytes_(line_bytes), kept_bytes_(std::max(fits_bytes / most_ways, line_bytes)),
        block_bytes_(std::min(std::bit_floor(kept_bytes_), mapped_page_bytes)) {}

  NearAndFar find() {
    const model::ComputeUnits sms = model::all_units(*device_->facts().sm_count);
    const std::vector<Loads> loads = after(sms.front(), sms);
    const auto limit = limit_of_near(loads);
    limit_ = limit.value_or(std::numeric_limits<double>::infinity());
    if (limit) {
      describe(loads);
      group(loads);
    } else {
      found_.sms = {sms};
    }
    if (found_.sms.size() == 1 && share_of_far(loads) <= few) {
      if (found_.reason.empty()) {
        found_.reason = why_some_may_be_far(loads, sms);
      }
      return std::move(found_);
    }
    if (found_.reason.empty()) {
      find_home();
    }
    if (found_.keeps_copies) {
      find_resident();
    }
    return std::move(found_);
  }

 private:
  // Of lines from everywhere. Where they might not all find room at once, of a few in a row at a time, which do.
  std::vector<Loads> after(model::ComputeUnit by, const model::ComputeUnits& sms) {
    constexpr std::size_t lines = 96;
    constexpr std::uint64_t room_for_all = 4 * lines;
    constexpr std::uint64_t few_in_a_row = 4;
    const std::uint64_t fitting = kept_bytes_ / line_bytes_;
    const std::uint64_t in_a_row = fitting < room_for_all ? std::clamp(fitting, std::uint64_t{1}, few_in_a_row) : 1;
    model::Random random = stream(device_->settings(), "lines brought by an SM", number_of(by));
    std::vector<AccessSequence> together(fitting < room_for_all ? lines / in_a_row : 1);
    for (AccessSequence& sequence : together) {
      for (std::size_t row = 0; row < lines / together.size(); row += in_a_row) {
        const std::uint64_t begin = random.below(device_->buffer().bytes / line_bytes_ / in_a_row) * in_a_row;
        const AccessSequence lines_in_a_row =
            model::cold_pass(begin * line_bytes_, in_a_row * line_bytes_, line_bytes_);
        sequence.insert(sequence.end(), lines_in_a_row.begin(), lines_in_a_row.end());
      }
    }
    std::vector<Loads> loads;
    for (const model::ComputeUnit sm : sms) {
      Loads& of_sm = loads.emplace_back();
      for (const AccessSequence& sequence : together) {
        const Loads more = load_after(*device_, by, sm, sequence);
        of_sm.first.insert(of_sm.first.end(), more.first.begin(), more.first.end());
        of_sm.second.insert(of_sm.second.end(), more.second.begin(), more.second.end());
      }
    }
    return loads;
  }

  // Where near cannot be told from far: why it is not sure that no line is far, if it is not. Every SM loads the same
  // lines again until parts would have shown however little farther they are.
  std::string why_some_may_be_far(std::vector<Loads> loads, const model::ComputeUnits& sms) {
    constexpr double least_far_cycles = 1;
    constexpr std::size_t most_loads = 8192;
    std::vector<LineDifference> of_sms(sms.size());
    for (std::size_t asked = loads.size();; asked += loads.size()) {
      double unseen_cycles = 0;
      for (std::size_t sm = 0; sm < loads.size(); ++sm) {
        of_sms[sm].add(loads[sm].first);
        if (of_sms[sm].is_seen()) {
          return "some lines take longer than others again and again, but not so clearly that near could be told from "
                 "far";
        }
        unseen_cycles = std::max(unseen_cycles, of_sms[sm].unseen_far_cycles());
      }
      if (unseen_cycles < least_far_cycles) {
        return {};
      }
      if (asked >= most_loads) {
        return "lines that are far by up to " + model::whole_text(std::ceil(unseen_cycles)) +
               " cycles would not have been seen";
      }
      loads = after(sms.front(), sms);
    }
  }

  void describe(const std::vector<Loads>& of_sms) {
    std::vector<double> near;
    std::vector<double> far;
    std::size_t far_seconds = 0;
    for (const Loads& loads : of_sms) {
      for (std::size_t i = 0; i < loads.first.size(); ++i) {
        (loads.first[i] > limit_ ? far : near).push_back(loads.first[i]);
        far_seconds += loads.first[i] > limit_ && loads.second[i] > limit_ ? 1U : 0U;
      }
    }
    found_.near_cycles = median(near);
    found_.far_cycles = median(far) - found_.near_cycles;
    found_.keeps_copies = static_cast<double>(far_seconds) < few * static_cast<double>(far.size());
  }

  // SMs that have the same part near find the same lines far.
  void group(const std::vector<Loads>& of_sms) {
    for (std::uint32_t sm = 0; sm < of_sms.size(); ++sm) {
      auto of_alike = found_.sms.end();
      for (auto group = found_.sms.begin(); group != found_.sms.end(); ++group) {
        const double share = share_of_others(of_sms[sm], of_sms[number_of(group->front())]);
        if (share > few && share < many) {
          found_.reason = "SM " + std::to_string(sm) + " is neither like SM " +
                          std::to_string(number_of(group->front())) + " nor clearly unlike it";
          return;
        }
        of_alike = share <= few ? group : of_alike;
      }
      if (of_alike == found_.sms.end()) {
        found_.sms.push_back({model::ComputeUnit{sm}});
      } else {
        of_alike->push_back(model::ComputeUnit{sm});
      }
    }
  }

  [[nodiscard]] double share_of_far(const std::vector<Loads>& of_sms) const {
    std::size_t far = 0;
    std::size_t all = 0;
    for (const Loads& loads : of_sms) {
      far += static_cast<std::size_t>(
          std::ranges::count_if(loads.first, [this](float cycles) { return cycles > limit_; }));
      all += loads.first.size();
    }
    return static_cast<double>(far) / static_cast<double>(all);
  }

  // Of the lines that one of two SMs finds far.
  [[nodiscard]] double share_of_others(const Loads& a, const Loads& b) const {
    std::size_t differ = 0;
    for (std::size_t i = 0; i < a.first.size(); ++i) {
      differ += (a.first[i] > limit_) != (b.first[i] > limit_) ? 1U : 0U;
    }
    return static_cast<double>(differ) / static_cast<double>(a.first.size());
  }

  // Two pages must agree, but for a swap.
  void find_home() {
    if (found_.sms.size() > 2) {
      found_.reason = "homes are told for two parts only";
      return;
    }
    const std::uint64_t first_page = bytes_to_next(device_->buffer().address, mapped_page_bytes);
    std::optional<std::uint64_t> mask;
    constexpr std::uint64_t pages_apart = 5;
    for (const std::uint64_t page : {first_page, first_page + pages_apart * mapped_page_bytes}) {
      const std::vector<bool> homes = homes_in_page(*device_, found_.sms.front().front(), found_.sms.back().front(),
                                                    page, block_bytes_, line_bytes_, limit_);
      const auto found = parity_mask(homes, line_bytes_);
      if (!found || *found == 0 || (mask && *found != *mask)) {
        found_.reason = "the home of a line is no parity of address bits inside a page of 2 MB";
        return;
      }
      mask = found;
    }
    found_.home = model::XorIndex{.row_masks = {*mask}, .constant = 0};
    found_.block_bytes = mapped_page_bytes;
  }

  static constexpr std::uint64_t lines_bytes = 256;

  // Whatever the order of loads and the policy, a random load finds its line near with the probability that it is
  // there.
  void find_resident() {
    constexpr std::uint64_t smallest_bytes = 1ULL << 20U;
    constexpr std::size_t tried = 1U << 11U;
    constexpr std::size_t recorded = 1U << 15U;
    constexpr double overflows = 0.7;
    for (std::uint64_t bytes = smallest_bytes; bytes <= device_->buffer().bytes; bytes *= 2) {
      if (static_cast<double>(near_blocks(bytes, fill(bytes), tried)) < overflows * tried) {
        const std::size_t near = near_blocks(bytes, {}, recorded);
        const auto [low, high] = wilson_interval(near, recorded, 1 - wrong_verdict);
        const auto all = static_cast<double>(bytes);
        found_.resident_bytes = {std::floor(low * all), std::ceil(high * all)};
        return;
      }
    }
  }

  // So many bytes of random blocks out of the first ones of the buffer. A block holds whole lines, however long they
  // are, and is loaded whole; its first line stands for it.
  [[nodiscard]] AccessSequence random_blocks(std::uint64_t loaded_bytes, std::uint64_t of_bytes) const {
    const std::uint64_t blocks = loaded_bytes / lines_bytes;
    model::Random random = stream(device_->settings(), "near blocks", of_bytes + blocks);
    AccessSequence loads;
    for (std::uint64_t block = 0; block < blocks; ++block) {
      const AccessSequence lines =
          model::cold_pass(random.below(of_bytes / lines_bytes) * lines_bytes, lines_bytes, line_bytes_);
      loads.insert(loads.end(), lines.begin(), lines.end());
    }
    return loads;
  }

  // Half as many blocks again as there are in so many bytes: that fills whatever holds 0.7 of them (1.2 times as many
  // do, as ln(1 / (1 - 0.7)) is 1.2).
  [[nodiscard]] AccessSequence fill(std::uint64_t bytes) const { return random_blocks(bytes + bytes / 2, bytes); }

  // How many of `recorded` random blocks of so many bytes are near, after a flood and these loads; without any, going
  // on from what was loaded before.
  std::size_t near_blocks(std::uint64_t bytes, AccessSequence filling, std::size_t recorded) {
    const bool goes_on = filling.empty();
    model::Question question =
        device_->question_unflooded(std::move(filling), random_blocks(recorded * lines_bytes, bytes));
    question.state = goes_on ? model::StartState::keep : model::StartState::flooded;
    question.circumstances.unit = found_.sms.front().front();
    const std::vector<float> cycles = device_->latencies({&question, 1}).front();
    std::size_t near = 0;
    for (std::size_t first = 0; first < cycles.size(); first += cycles.size() / recorded) {
      near += cycles[first] <= limit_ ? 1U : 0U;
    }
    return near;
  }

  Asker* device_;
  std::uint64_t line_bytes_;
  std::uint64_t kept_bytes_;   // contiguous ones, which find room side by side whoever has to go for them
  std::uint64_t block_bytes_;  // of a page that is asked at once
  double limit_ = 0;
  NearAndFar found_;
};

}  // namespace

NearAndFar find_near_and_far(Asker& device, std::uint64_t line_bytes, std::optional<std::uint64_t> fits_bytes) {
  return NearAndFarSearch(device, line_bytes, fits_bytes.value_or(most_ways * mapped_page_bytes)).find();
}

std::optional<NearLatencies> find_near_latencies(Asker& device, std::uint64_t line_bytes, const NearAndFar& parts) {
  constexpr std::uint64_t lines = 8192;
  const std::uint64_t page = bytes_to_next(device.buffer().address, mapped_page_bytes);
  const std::uint64_t apart_bytes = std::max(line_bytes, mapped_page_bytes / lines);
  AccessSequence once = model::cold_pass(page, mapped_page_bytes, apart_bytes);
  stream(device.settings(), "near latencies").shuffle(once);
  model::Question question = device.question_unflooded({}, model::repeated(once, 2));
  question.state = model::StartState::flooded;
  question.circumstances.unit = parts.sms.front().front();
  const std::vector<float> cycles = device.latencies({&question, 1}).front();
  // Of each part, at first loads and at second ones.
  std::array<std::vector<double>, 2> misses;
  std::array<std::vector<double>, 2> hits;
  for (std::size_t i = 0; i < once.size(); ++i) {
    const std::uint32_t part = parts.home->set_of(device.address_of(once[i]));
    misses.at(part).push_back(cycles[i]);
    hits.at(part).push_back(cycles[i + once.size()]);
  }
  if (misses[0].empty() || misses[1].empty()) {
    return std::nullopt;
  }
  const std::array<double, 2> miss_cycles{median(misses[0]), median(misses[1])};
  const std::size_t near = miss_cycles[0] < miss_cycles[1] ? 0 : 1;
  const double more_cycles = miss_cycles.at(1 - near) - miss_cycles.at(near);
  const auto [low, high] = median_interval(misses.at(near));
  constexpr double alike = 0.25;
  constexpr double known = 0.05;
  if (std::abs(more_cycles - parts.far_cycles) > alike * parts.far_cycles ||
      high - low > known * miss_cycles.at(near)) {
    return std::nullopt;
  }
  return NearLatencies{.hit_cycles = median(hits.at(near)), .miss_cycles = miss_cycles.at(near)};
}

}  // namespace gpuinfer::infer
