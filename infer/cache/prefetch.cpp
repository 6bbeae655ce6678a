// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/prefetch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "infer/asking/stream.hpp"
#include "infer/cache/rare_departures.hpp"

namespace gpuinfer::infer {

namespace {

using model::Fill;
using model::PrefetchOn;

constexpr Bytes page_bytes = 4096;  // of the smallest pages that a prefetch may end at
constexpr Bytes largest_granule_bytes = page_bytes;
constexpr unsigned most_lines_ahead = 16;
constexpr std::array<Bytes, 4> sectors_of_line{1, 2, 4, 8};

// A rule, with lines of so many sectors.
struct PrefetchRule {
  Fill fill;
  Bytes sectors = 1;
};

std::vector<PrefetchRule> all_prefetch_rules(std::optional<Bytes> sectors) {
  std::vector<PrefetchRule> rules{{.fill = {.prefetch_lines = 0, .fetch_bytes = {}}, .sectors = sectors.value_or(1)}};
  for (const Bytes each : sectors_of_line) {
    if (sectors && each != *sectors) {
      continue;
    }
    for (const PrefetchOn on : {PrefetchOn::miss, PrefetchOn::access, PrefetchOn::stride}) {
      for (unsigned lines = 1; lines <= most_lines_ahead; ++lines) {
        rules.push_back({.fill = {.prefetch_lines = lines, .prefetch_on = on, .fetch_bytes = {}}, .sectors = each});
      }
    }
  }
  return rules;
}

// What is present after a few loads from an empty start, in a cache from which nothing has to go: whole sectors, by
// their numbers.
class PresentSectors {
 public:
  explicit PresentSectors(const PrefetchRule& rule) : rule_(&rule) {}

  // Whether it hits.
  bool load(std::int64_t sector) {
    const std::int64_t line = line_of(sector);
    const bool line_misses = !lines_.contains(line);
    const bool hits = !bring(sector);
    const std::int64_t step = step_of(line, line_misses);
    for (std::int64_t ahead = 1; step != 0 && ahead <= std::int64_t{rule_->fill.lines_ahead()}; ++ahead) {
      bring(sector + ahead * step * static_cast<std::int64_t>(rule_->sectors));
    }
    return hits;
  }

 private:
  [[nodiscard]] std::int64_t line_of(std::int64_t sector) const {
    return sector / static_cast<std::int64_t>(rule_->sectors);
  }

  bool bring(std::int64_t sector) {
    lines_.insert(line_of(sector));
    return sectors_.insert(sector).second;
  }

  std::int64_t step_of(std::int64_t line, bool line_misses) {
    if (rule_->fill.prefetch_on != PrefetchOn::stride) {
      return line_misses || rule_->fill.prefetch_on == PrefetchOn::access ? 1 : 0;
    }
    const std::int64_t step = last_line_ ? line - *last_line_ : 0;
    const bool is_repeated = last_line_ && step == last_step_;
    last_line_ = line;
    last_step_ = step;
    return is_repeated ? step : 0;
  }

  const PrefetchRule* rule_;
  std::set<std::int64_t> sectors_;
  std::set<std::int64_t> lines_;
  std::optional<std::int64_t> last_line_;
  std::int64_t last_step_ = 0;
};

// Loads of sectors by number, from the first one of the buffer that begins at a multiple of a page.
struct NearbyLoads {
  std::vector<std::int64_t> warm;
  std::vector<std::int64_t> record;
};

class PrefetchSearch {
 public:
  PrefetchSearch(Interrogator& device, const CacheClaims& claims)
      : device_(&device), claims_(&claims), random_(stream(device.settings(), "prefetch")),
        first_(bytes_to_next(device.buffer().address, page_bytes)) {}

  [[nodiscard]] Claim<Fill> claim() {
    if (device_->buffer().bytes < first_ + 16 * page_bytes) {
      return {.reason = "the buffer is too small to look for a prefetch"};
    }
    if (auto reason = find_sector(); !reason.empty()) {
      return {.reason = std::move(reason)};
    }
    std::optional<Bytes> sectors;
    if (claims_->line_bytes.value && *claims_->line_bytes.value % sector_bytes_ == 0) {
      sectors = *claims_->line_bytes.value / sector_bytes_;
    }
    rules_ = all_prefetch_rules(sectors);
    judge(pairs());
    judge(begun_walks());
    judge(walks());
    judge(random_walks());
    return conclusion(sectors.has_value());
  }

 private:
  // A load brings what lies before it in its own sector and nothing before that, whatever it brings ahead. Returns why
  // it is not known, or nothing.
  std::string find_sector() {
    constexpr Bytes pages = 4;
    const Bytes step = (device_->buffer().bytes - first_) / page_bytes / pages * page_bytes;
    std::vector<model::Question> questions;
    std::vector<Bytes> distances;
    for (Bytes distance = model::load_bytes; distance <= largest_granule_bytes / 2; distance *= 2) {
      distances.push_back(distance);
    }
    for (Bytes page = 0; page < pages; ++page) {
      for (const Bytes distance : distances) {
        questions.push_back(device_->question({first_ + page * step + distance}, {first_ + page * step}));
      }
    }
    const auto answers = device_->ask_voted(questions, device_->votes_needed());
    for (Bytes page = 0; page < pages; ++page) {
      Bytes bytes = 0;
      for (std::size_t i = 0; i < distances.size(); ++i) {
        const bool hits = answers[page * distances.size() + i][0] == Reading::hit;
        if (hits && bytes != 0) {
          return "what a miss brings does not end at powers of two";
        }
        bytes = hits || bytes != 0 ? bytes : distances[i];
      }
      if (bytes == 0 || (page > 0 && bytes != sector_bytes_)) {
        return "what a miss brings before it differs from page to page, or has no end";
      }
      sector_bytes_ = bytes;
    }
    const auto& known = claims_->sector_bytes.value;
    return known && *known != sector_bytes_ ? "what a miss brings before it and behind it differs in size" : "";
  }

  [[nodiscard]] Bytes sectors_of_page() const { return page_bytes / sector_bytes_; }

  // Away from both ends of the buffer, with every place in a page.
  std::int64_t any_place() {
    const Bytes room = (device_->buffer().bytes - first_) / sector_bytes_;
    const Bytes margin = std::min(4 * sectors_of_page(), room / 4);
    return static_cast<std::int64_t>(margin + random_.below(room - 2 * margin));
  }

  // Far enough off to have nothing to do with the place, in one page of a GPU with it.
  [[nodiscard]] std::int64_t far_from(std::int64_t place) const {
    const auto room = static_cast<std::int64_t>((device_->buffer().bytes - first_) / sector_bytes_);
    const std::int64_t apart =
        std::min<std::int64_t>(room / 2, static_cast<std::int64_t>((Bytes{1} << 17U) / sector_bytes_));
    return place >= apart ? place - apart : place + apart;
  }

  // One load, and what is there at a distance: in every second place with the translation of the page there before.
  std::vector<NearbyLoads> pairs() {
    constexpr std::size_t places = 8;
    std::vector<NearbyLoads> all;
    for (std::size_t i = 0; i < places; ++i) {
      // The last of a page, or any in turn.
      const std::int64_t at = any_place() / 8 * 8 + static_cast<std::int64_t>(i);
      const auto page = static_cast<std::int64_t>(sectors_of_page());
      const std::int64_t place = i == 7 ? at / page * page + page - 1 : at;
      for (const std::int64_t distance : {-2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 24, 32}) {
        NearbyLoads& loads = all.emplace_back(NearbyLoads{.warm = {place}, .record = {place + distance}});
        if (i % 2 == 1) {
          loads.warm.insert(loads.warm.begin(), far_from(place));
        }
      }
    }
    return all;
  }

  // Two equal steps, and what is there so many further on.
  std::vector<NearbyLoads> begun_walks() {
    std::vector<NearbyLoads> all;
    for (const std::int64_t step : {1, 2, -1}) {
      for (const std::int64_t ahead : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 17, 24}) {
        const std::int64_t place = any_place();
        all.push_back({.warm = {place, place + step, place + 2 * step}, .record = {place + (2 + ahead) * step}});
      }
    }
    return all;
  }

  // In equal steps, longer than any rule waits.
  std::vector<NearbyLoads> walks() {
    constexpr std::int64_t steps = 24;
    std::vector<NearbyLoads> all;
    for (const std::int64_t step : {1, -1, 2, 3, 4, -2, 8}) {
      const std::int64_t place = any_place();
      NearbyLoads& loads = all.emplace_back();
      for (std::int64_t i = 0; i < steps && place + i * step >= 0; ++i) {
        loads.record.push_back(place + i * step);
      }
    }
    return all;
  }

  // A few steps that took no part in making up the rules.
  std::vector<NearbyLoads> random_walks() {
    constexpr std::size_t questions = 64;
    constexpr std::array<std::int64_t, 10> steps{1, 1, 1, 2, 2, -1, 3, 4, 5, 8};
    std::vector<NearbyLoads> all;
    for (std::size_t i = 0; i < questions; ++i) {
      NearbyLoads& loads = all.emplace_back();
      std::int64_t place = any_place();
      if (i % 2 == 1) {
        loads.warm.push_back(far_from(place));
      }
      std::int64_t step = steps.at(random_.below(steps.size()));
      for (std::size_t load = 0; load < 6; ++load) {
        (load < 2 ? loads.warm : loads.record).push_back(place);
        step = random_.below(3) == 0 ? steps.at(random_.below(steps.size())) : step;
        place += step;
      }
    }
    return all;
  }

  // Leaves the rules that explain all answers.
  void judge(const std::vector<NearbyLoads>& all) {
    std::vector<model::Question> questions;
    for (const NearbyLoads& each : all) {
      // Anywhere in the sector.
      const auto offsets = [&](const std::vector<std::int64_t>& sectors) {
        AccessSequence sequence;
        for (const std::int64_t sector : sectors) {
          sequence.push_back(first_ + static_cast<Bytes>(sector) * sector_bytes_ +
                             model::load_bytes * random_.below(sector_bytes_ / model::load_bytes));
        }
        return sequence;
      };
      AccessSequence warm = offsets(each.warm);
      questions.push_back(device_->question(std::move(warm), offsets(each.record)));
    }
    const auto answers = device_->ask_voted(questions, device_->votes_needed());
    for (const auto& answer : answers) {
      judged_ += static_cast<std::size_t>(
          std::ranges::count_if(answer, [](Reading reading) { return reading != Reading::unclear; }));
    }
    std::erase_if(rules_, [&](const PrefetchRule& rule) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        PresentSectors present(rule);
        for (const std::int64_t sector : all[i].warm) {
          present.load(sector);
        }
        for (std::size_t k = 0; k < all[i].record.size(); ++k) {
          const Reading expected = present.load(all[i].record[k]) ? Reading::hit : Reading::miss;
          if (answers[i][k] != Reading::unclear && answers[i][k] != expected) {
            return true;
          }
        }
      }
      return false;
    });
  }

  // Whether both of two neighbours are in lines of their own: after some number of loads from elsewhere one is there
  // and the other is not. The loads go downwards, so that each of them brings one line and no other ahead of it.
  [[nodiscard]] bool leave_apart(std::int64_t place) {
    constexpr Bytes most_loads = Bytes{1} << 16U;
    const Bytes room = (device_->buffer().bytes - first_) / sector_bytes_;
    const Bytes loads = std::min(room / 2 - 4 * sectors_of_page(), most_loads);
    const Bytes top = static_cast<Bytes>(place) < room / 2 ? room - most_lines_ahead - 1 : loads;
    const auto after = [&](Bytes count, std::int64_t asked) {
      AccessSequence warm{offset_of(place + 1), offset_of(place)};
      for (Bytes i = 0; i < count; ++i) {
        warm.push_back(first_ + (top - i) * sector_bytes_);
      }
      return device_->question(std::move(warm), {offset_of(asked)});
    };
    const auto is_there = [&](Bytes count, std::int64_t asked) {
      const model::Question question = after(count, asked);
      return device_->ask_voted({&question, 1}, device_->votes_needed()).front().front() == Reading::hit;
    };
    const auto first_gone = [&](std::int64_t asked) {
      Bytes there = 0;
      Bytes gone = 1;
      while (gone <= loads && is_there(gone, asked)) {
        there = gone;
        gone = 2 * gone;
      }
      while (gone - there > 1) {
        const Bytes middle = there + (gone - there) / 2;
        (is_there(middle, asked) ? there : gone) = middle;
      }
      return gone;
    };
    const Bytes of_place = first_gone(place);
    const Bytes of_next = first_gone(place + 1);
    if (of_place == of_next || std::max(of_place, of_next) > loads) {
      return false;
    }
    // By chance alone they would not do so each time.
    constexpr std::size_t times = 8;
    const Bytes count = std::min(of_place, of_next);
    std::vector<model::Question> again(times, after(count, place));
    again.insert(again.end(), times, after(count, place + 1));
    const auto answers = device_->ask_voted(again, device_->votes_needed());
    const auto reads = [&](std::size_t first, Reading reading) {
      const auto begin = answers.begin() + static_cast<std::ptrdiff_t>(first);
      return std::all_of(begin, begin + times, [&](const auto& answer) { return answer.front() == reading; });
    };
    return of_place < of_next ? reads(0, Reading::miss) && reads(times, Reading::hit)
                              : reads(0, Reading::hit) && reads(times, Reading::miss);
  }

  // Whether each access prefetches, and not the first one to a line alone: what it brought is there although loads from
  // elsewhere drive out what is not brought again. None: the place itself was driven out.
  [[nodiscard]] std::optional<bool> brings_again(Bytes line_sectors) {
    constexpr Bytes most_loads = Bytes{1} << 16U;
    constexpr Bytes between = 4;
    const Bytes room = (device_->buffer().bytes - first_) / sector_bytes_;
    const auto place = static_cast<std::int64_t>(sectors_of_page());
    const std::int64_t next = place + static_cast<std::int64_t>(line_sectors);
    // As many as drive out what is not brought again, and as many again.
    const auto elsewhere = [&](Bytes number) {
      return first_ + (room - most_lines_ahead - 1 - number) * sector_bytes_;
    };
    const auto drives_out = [&](Bytes loads) {
      AccessSequence warm{offset_of(place)};
      for (Bytes i = 0; i < loads; ++i) {
        warm.push_back(elsewhere(i));
      }
      const model::Question question = device_->question(std::move(warm), {offset_of(next)});
      return device_->ask_voted({&question, 1}, device_->votes_needed()).front().front() == Reading::miss;
    };
    const Bytes most = std::min(room / 4, most_loads);
    Bytes loads = 1;
    while (loads <= most && !drives_out(loads)) {
      loads *= 2;
    }
    if (loads > most || !drives_out(2 * loads)) {
      return std::nullopt;
    }
    AccessSequence record{offset_of(place)};
    for (Bytes i = 0; i < 2 * loads; ++i) {
      record.push_back(elsewhere(i));
      if (i % between == between - 1) {
        record.push_back(offset_of(place));
      }
    }
    record.push_back(offset_of(place));
    record.push_back(offset_of(next));
    const model::Question question = device_->question({}, std::move(record));
    const auto answer = device_->ask_voted({&question, 1}, device_->votes_needed()).front();
    for (std::size_t i = 1; i + 1 < question.record.size(); ++i) {
      if (question.record[i] == offset_of(place) && answer[i] != Reading::hit) {
        return std::nullopt;
      }
    }
    return answer.back() == Reading::hit;
  }

  [[nodiscard]] Bytes offset_of(std::int64_t sector) const {
    return first_ + static_cast<Bytes>(sector) * sector_bytes_;
  }

  [[nodiscard]] Claim<Fill> conclusion(bool knows_line) {
    if (rules_.empty()) {
      return {.reason = device_->starts_flooded()
                            ? "what is present is neither what was loaded nor lines ahead by any rule, or is left from "
                              "before: no question began with an empty cache"
                            : "no rule of the next lines, or of lines in equal steps, explains what is present"};
    }
    if (rules_.size() > 1) {
      Claim<Fill> claim{.reason = "several rules explain what is present"};
      std::ranges::transform(rules_, std::back_inserter(claim.alternatives), &PrefetchRule::fill);
      return claim;
    }
    const PrefetchRule& rule = rules_.front();
    if (rule.fill.lines_ahead() == 0) {
      constexpr double at = 0.01;
      Claim<Fill> claim{.value = rule.fill, .stands_alone = true, .trials = judged_};
      claim.bound = bound_of(1 - std::pow(at, 1.0 / static_cast<double>(judged_)));
      return claim;
    }
    const auto open = [&](std::string reason) {
      return Claim<Fill>{.alternatives = {rule.fill}, .reason = std::move(reason)};
    };
    if (!knows_line && rule.sectors == 1 && !(leave_apart(8) && leave_apart(9))) {
      return open("lines ahead are counted in fills of " + std::to_string(sector_bytes_) +
                  " bytes, and how long a line is is not known");
    }
    if (rule.fill.prefetch_on == PrefetchOn::access) {
      const std::optional<bool> again = brings_again(rule.sectors);
      if (!again || !*again) {
        return open(again ? "it is the first access to a line that brings others, and not each"
                          : "whether each access brings others, or the first one to a line alone, is not known");
      }
    }
    return {.value = rule.fill, .stands_alone = true, .trials = judged_};
  }

  Interrogator* device_;
  const CacheClaims* claims_;
  model::Random random_;
  Bytes first_;
  Bytes sector_bytes_ = 0;
  std::vector<PrefetchRule> rules_;
  std::size_t judged_ = 0;
};

}  // namespace

void claim_prefetch(Interrogator& device, CacheClaims& claims, bool may_prefetch) {
  const bool is_outer = device.target() == "L2" || device.target() == "L3";
  if ((!is_outer && !may_prefetch) || device.buffer().nearer_bytes || device.buffer().raster) {
    return;
  }
  device.report("prefetch", 0.99);
  device.inquire("loads near one to a few others, from an empty start",
                 "what is there without having been loaded was prefetched");
  const std::size_t questions_before = device.questions_asked();
  try {
    claims.fill = PrefetchSearch(device, claims).claim();
  } catch (const QuestionRefused&) {
    device.learned("not recorded");
    return;
  }
  claims.fill->questions = device.questions_asked() - questions_before;
  const auto& fill = claims.fill->value;
  device.learned(!fill                      ? claims.fill->reason
                 : fill->lines_ahead() == 0 ? "nothing comes along"
                                            : std::to_string(fill->lines_ahead()) + " lines ahead come along");
}

}  // namespace gpuinfer::infer
