// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/known_outcomes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "infer/asking/statistics.hpp"
#include "infer/asking/stream.hpp"

namespace gpuinfer::infer {

namespace {

// The larger part of the lines in so wide a window are not in the nearer level when they are loaded in random order; in
// turn, of a narrow one.
AccessSequence beyond_nearer_level(std::uint64_t nearer_bytes, Reach reach) {
  const std::uint64_t windows = reach == Reach::wide ? 4 : 2;
  const std::uint64_t first = reach == Reach::narrow_elsewhere ? windows * nearer_bytes : 0;
  constexpr std::uint64_t lines = 64;
  return model::cold_pass(first, windows * nearer_bytes, std::max(model::load_bytes, nearer_bytes / lines));
}

// Far enough apart that no fill granule holds two, in a buffer that holds many.
std::uint64_t far_stride(std::uint64_t buffer_bytes) {
  return std::max<std::uint64_t>(256, std::bit_floor(buffer_bytes) / 64);
}

// Somewhere in the first half of a stride, since what lies strides apart may be equally near or far in the next level.
std::uint64_t anywhere_after(std::uint64_t offset, std::uint64_t stride, model::Random& random) {
  constexpr std::uint64_t large = 4096;  // the half of it still holds any fill granule
  return stride < large ? offset : offset + model::load_bytes * random.below(stride / 2 / model::load_bytes);
}

constexpr std::size_t evicted_places = 16;

// A few places that were loaded, and then evicted by loads of a span elsewhere: what they take now comes from the
// next level, where first touches may come from further away. Places that are still present read as hits, and are left
// out later. The spans grow: a small one drives lines out of a small cache and leaves them in the next one, which a
// large span would empty as well.
std::vector<model::Question> eviction_questions(const Starts& device, Spans spans) {
  constexpr std::size_t most_loads = 8192;  // more lines than any first level holds
  constexpr std::uint64_t smallest_stride = 32;
  constexpr std::uint64_t place_stride = 256;  // beyond the line, and with the other stride no power of two
  const std::uint64_t buffer_bytes = device.buffer().bytes;
  if (device.buffer().nearer_bytes) {
    // Lines may be too long to leave small spans between them.
    const AccessSequence lap = model::cold_pass(0, buffer_bytes, std::max(smallest_stride, buffer_bytes / most_loads));
    return {device.question(lap, lap)};
  }
  const std::uint64_t half = std::bit_floor(buffer_bytes) / 2;
  std::vector<model::Question> questions;
  for (std::uint64_t span_bytes = (spans == Spans::coarse ? 32 : 4) * smallest_stride; span_bytes <= half;
       span_bytes *= spans == Spans::coarse ? 4 : 2) {
    const std::uint64_t stride = std::max(smallest_stride, span_bytes / most_loads);
    if (half + evicted_places * (stride + place_stride) > buffer_bytes) {
      break;
    }
    const std::uint64_t apart = stride + place_stride;
    const AccessSequence kept = model::cold_pass(half, evicted_places * apart, apart);
    AccessSequence warm = kept;
    const AccessSequence elsewhere = model::cold_pass(0, span_bytes, stride);
    warm.insert(warm.end(), elsewhere.begin(), elsewhere.end());
    questions.push_back(device.question(std::move(warm), kept));
  }
  return questions;
}

constexpr std::uint64_t most_repeats = 64;

// The same of places elsewhere, as far as the buffer has room for them: a next level may lie nearer to some lines than
// to others.
model::Question of_other_places(const Starts& device, const model::Question& question, std::uint64_t round) {
  if (device.buffer().nearer_bytes) {
    return question;
  }
  const std::uint64_t first = question.record.front();
  const std::uint64_t group_bytes = evicted_places * (question.record[1] - first);
  const std::uint64_t groups = (device.buffer().bytes - first) / group_bytes;
  const std::uint64_t further = round * std::max<std::uint64_t>(1, groups / (most_repeats + 1)) % groups * group_bytes;
  model::Question moved = question;
  for (std::size_t i = 0; i < evicted_places; ++i) {
    moved.warm[i] += further;
    moved.record[i] += further;
  }
  return moved;
}

// To three in a thousand, by the spread around it.
bool median_is_known(const std::vector<float>& sample_cycles) {
  const std::vector<double> sample(sample_cycles.begin(), sample_cycles.end());
  const double centre = median(sample);
  std::vector<double> distances;
  for (const double value : sample) {
    distances.push_back(std::abs(value - centre));
  }
  const double deviation = 1.4826 * median(std::move(distances));
  return 1.25 * deviation / std::sqrt(static_cast<double>(sample.size())) <= 0.003 * centre;
}

}  // namespace

std::vector<model::Question> known_hits(const Asker& device, std::size_t loads) {
  constexpr std::size_t in_places = 16;
  const std::uint64_t stride = far_stride(device.buffer().bytes);
  const std::uint64_t places = std::max<std::uint64_t>(1, device.buffer().bytes / stride);
  model::Random random = stream(device.settings(), "known hits");
  std::vector<model::Question> questions;
  // Hits in a nearer level are hits, too, but few.
  const auto& nearer_bytes = device.buffer().nearer_bytes;
  const std::size_t near_loads = nearer_bytes ? loads / 8 : loads;
  const std::size_t in_turn = device.lines_hit_in_turn();
  for (std::uint64_t i = 0; i < in_places; ++i) {
    std::vector<std::uint64_t> lines;
    for (std::uint64_t k = 0; k < in_turn; ++k) {
      lines.push_back(anywhere_after(((i + k) * 7 % places) * stride, stride, random));
    }
    AccessSequence laps = model::repeated(lines, near_loads / in_places / in_turn + 1);
    laps.resize(near_loads / in_places);
    // Once more than one of them has to be loaded to stay, for each that may have to give way before.
    questions.push_back(device.question(model::repeated(lines, 1 + in_turn), std::move(laps)));
  }
  if (nearer_bytes) {
    const Reach reach = device.reach_beyond_nearer();
    AccessSequence lines = beyond_nearer_level(*nearer_bytes, reach);
    model::Question& walks = questions.emplace_back(device.question(lines, {}));
    while (walks.record.size() < loads - near_loads) {
      if (reach == Reach::wide) {
        random.shuffle(lines);
      }
      walks.record.insert(walks.record.end(), lines.begin(), lines.end());
    }
    walks.record.resize(loads - near_loads);
  }
  return questions;
}

namespace {

struct ReadAs {
  std::size_t hits = 0;
  std::size_t misses = 0;
};

ReadAs read_all(Interrogator& device, const std::vector<model::Question>& questions) {
  ReadAs read;
  for (const std::vector<float>& answer : device.latencies(questions)) {
    for (const Reading reading : device.classifier().readings(answer)) {
      read.hits += reading == Reading::hit ? 1U : 0U;
      read.misses += reading == Reading::miss ? 1U : 0U;
    }
  }
  return read;
}

}  // namespace

void look_at_hits(Interrogator& device, std::size_t loads) {
  constexpr std::size_t loads_at_once = std::size_t{1} << 22U;
  ReadAs all;
  for (std::size_t left = loads; left > 0;) {
    const std::size_t now = std::min(left, loads_at_once);
    left -= now;
    const ReadAs read = read_all(device, known_hits(device, now));
    all.hits += read.hits;
    all.misses += read.misses;
  }
  device.learn_hits(all.hits + all.misses, all.misses);
}

namespace {

constexpr std::size_t hit_looks = 1152;
constexpr std::size_t miss_looks = 1024;

// A longer look takes so many times as many.
constexpr std::size_t more_hits = 14;
constexpr std::size_t more_misses = 3;

// A flood costs more than the loads it makes room for.
std::size_t miss_looks_of(const Starts& device, std::size_t times) {
  return device.starts_flooded() ? miss_looks / 4 : times * miss_looks;
}

// First touches of places, so many of them, and behind a nearer level a walk as well.
std::vector<model::Question> known_misses(const Starts& device, std::size_t loads, model::Random& random) {
  const std::uint64_t stride = far_stride(device.buffer().bytes);
  const std::uint64_t places = std::max<std::uint64_t>(1, device.buffer().bytes / stride);
  // A flood needs room itself.
  const std::uint64_t first_touches = device.starts_flooded() ? places / 4 : places;
  std::vector<model::Question> questions;
  for (std::uint64_t i = 0; i * first_touches < loads; ++i) {
    const std::uint64_t first = first_touches == places ? 0 : (i % 4) * first_touches * stride;
    AccessSequence touches = model::cold_pass(first, first_touches * stride, stride);
    std::transform(touches.begin(), touches.end(), touches.begin(),
                   [&](std::uint64_t offset) { return anywhere_after(offset, stride, random); });
    questions.push_back(device.question({}, std::move(touches)));
  }
  if (const auto& nearer_bytes = device.buffer().nearer_bytes) {
    // What lies close together may share a part of the way: the upper levels of a page table.
    const std::uint64_t close = *nearer_bytes / 8;
    const AccessSequence walk = model::cold_pass(0, device.buffer().bytes / 2 / close * close, close);
    questions.insert(questions.end(), std::max<std::size_t>(1, loads / walk.size()), device.question({}, walk));
  }
  return questions;
}

}  // namespace

void look_at_misreads(Interrogator& device) {
  model::Random random = stream(device.settings(), "known misses");
  const ReadAs misses = read_all(device, known_misses(device, miss_looks_of(device, more_misses), random));
  device.learn_misses(misses.hits + misses.misses, misses.hits);
  look_at_hits(device, more_hits * hit_looks);
}

namespace {

// Loads of known outcome, and what they took.
class Looks {
 public:
  Looks(Asker& device, Spans spans)
      : device_(&device), spans_(spans), random_(stream(device.settings(), "known outcomes")) {}

  void look_first() {
    look(hit_looks, miss_looks_of(*device_, 1));
    look_at_evicted();
  }

  void look_longer() { look(more_hits * hit_looks, miss_looks_of(*device_, more_misses)); }

  [[nodiscard]] LevelClassifier fit() const { return {hits_, misses_, evicted_}; }
  [[nodiscard]] const std::vector<float>& misses() const { return misses_; }

 private:
  void ask(const std::vector<model::Question>& questions, std::vector<float>& sample) {
    for (const std::vector<float>& answer : device_->latencies(questions)) {
      sample.insert(sample.end(), answer.begin(), answer.end());
    }
  }

  void look(std::size_t at_hits, std::size_t at_misses) {
    ask(known_hits(*device_, at_hits), hits_);
    ask(known_misses(*device_, at_misses, random_), misses_);
  }

  void look_at_evicted() {
    const LevelClassifier first_look(hits_, misses_, {});
    for (const model::Question& question : eviction_questions(*device_, spans_)) {
      std::vector<float> looked_at;
      ask({question}, looked_at);
      const auto evicted_now = static_cast<std::size_t>(std::count_if(
          looked_at.begin(), looked_at.end(), [&](float latency) { return first_look.read(latency) != Reading::hit; }));
      if (4 * evicted_now >= 3 * evicted_places) {
        look_at_more_evicted(question, looked_at);
      }
      evicted_.insert(evicted_.end(), looked_at.begin(), looked_at.end());
      // The next span would only drive them further away.
      if (4 * evicted_now >= 3 * evicted_places) {
        break;
      }
    }
  }

  void look_at_more_evicted(const model::Question& question, std::vector<float>& looked_at) {
    try {
      for (std::uint64_t repeat = 1; repeat <= most_repeats && !median_is_known(looked_at); ++repeat) {
        ask({of_other_places(*device_, question, repeat)}, looked_at);
      }
    } catch (const QuestionRefused&) {  // as recordings do
    }
  }

  Asker* device_;
  Spans spans_;
  model::Random random_;
  std::vector<float> hits_;
  std::vector<float> misses_;
  std::vector<float> evicted_;
};

// Readings that are hardly ever wrong, by overlap or by misreads.
bool is_crisp(const LevelClassifier& classifier) {
  constexpr double crisp = 1e-3;
  return std::max(classifier.hit_misread_rate(), classifier.miss_misread_rate()) <= crisp / 2 &&
         classifier.overlap() <= crisp;
}

// More first touches hit, as `classifier` reads them, than its own do. They were no first touches then.
bool hit_more_often(const std::vector<float>& first_touches, const LevelClassifier& classifier) {
  constexpr double by_chance = 1e-3;
  const auto hits =
      static_cast<std::size_t>(std::count_if(first_touches.begin(), first_touches.end(),
                                             [&](float latency) { return classifier.read(latency) == Reading::hit; }));
  return classifier.levels_are_apart() &&
         binomial_upper_tail(hits, first_touches.size(), classifier.miss_misread_rate()) < by_chance;
}

// Whether so many lines hit in turn. Half of all misses take longer than their median, and hardly any hit.
bool lines_hit_in_turn(Asker& asker, const LevelClassifier& classifier) {
  constexpr double most_misses = 0.05;
  constexpr double most_misses_of_a_line = 0.25;
  const std::size_t lines = asker.lines_hit_in_turn();
  double loads = 0;
  double slow_loads = 0;
  bool each_hits = true;
  for (const std::vector<float>& answer : asker.latencies(known_hits(asker, 4 * hit_looks))) {
    std::vector<double> slow_of_line(lines);
    for (std::size_t i = 0; i < answer.size(); ++i) {
      const bool is_slow =
          answer[i] >= classifier.miss_median_cycles() && classifier.read(answer[i]) != Reading::unclear;
      slow_of_line[i % lines] += is_slow ? 1 : 0;
    }
    const double laps = static_cast<double>(answer.size()) / static_cast<double>(lines);
    each_hits = each_hits && 2 * std::ranges::max(slow_of_line) <= most_misses_of_a_line * laps;
    loads += static_cast<double>(answer.size());
    slow_loads += std::reduce(slow_of_line.begin(), slow_of_line.end());
  }
  return each_hits && 2 * slow_loads <= most_misses * loads;
}

// Where levels overlap, much depends on how latencies are spread, and lines in turn may be answered a little later, or
// less evenly, than one again and again. So hits are looked at in laps, over the most lines that hit in turn.
void look_at_hits_in_turn(Asker& asker, const LevelClassifier& classifier) {
  constexpr double overlap_worth_a_closer_look = 1e-3;
  if (asker.buffer().nearer_bytes || !classifier.levels_are_apart() ||
      classifier.overlap() < overlap_worth_a_closer_look) {
    return;
  }
  try {
    for (const std::size_t lines : {8U, 4U, 2U}) {
      asker.hit_in_turn(lines);
      if (lines_hit_in_turn(asker, classifier)) {
        return;
      }
    }
  } catch (const QuestionRefused&) {  // as recordings do
  }
  asker.hit_in_turn(1);
}

bool tells_levels(const LevelClassifier& classifier) {
  return classifier.levels_are_apart() && !classifier.misreads_are_too_frequent();
}

// What should hit may be more than a level behind a nearer one holds.
void look_nearby(Asker& asker, Spans spans, Looks& looks, LevelClassifier& classifier) {
  const Reach before = asker.reach_beyond_nearer();
  try {
    for (const Reach reach : {Reach::narrow, Reach::narrow_elsewhere}) {
      asker.reach_beyond_nearer(reach);
      Looks nearby(asker, spans);
      nearby.look_first();
      LevelClassifier fitted = nearby.fit();
      if (tells_levels(fitted)) {
        looks = std::move(nearby);
        classifier = std::move(fitted);
        return;
      }
    }
  } catch (const QuestionRefused&) {  // as recordings do
  }
  asker.reach_beyond_nearer(before);
}

}  // namespace

LevelClassifier calibrate(Asker& asker, Spans spans) {
  Looks looks(asker, spans);
  looks.look_first();
  LevelClassifier classifier = looks.fit();
  if (asker.buffer().nearer_bytes && !tells_levels(classifier)) {
    look_nearby(asker, spans, looks, classifier);
  }
  if (!is_crisp(classifier) && asker.floods_by_loads()) {
    // What looks like misreads may be lines that were hit once and that no flood has evicted since.
    constexpr unsigned repeats = 2;
    asker.flood_in_repeats(repeats);
    Looks after_repeats(asker, spans);
    after_repeats.look_first();
    LevelClassifier fitted = after_repeats.fit();
    if (hit_more_often(looks.misses(), fitted)) {
      looks = std::move(after_repeats);
      classifier = std::move(fitted);
    } else {
      asker.flood_in_repeats(1);
    }
  }
  // Where readings were wrong, it must be known well how often, to tell that from rare real misses.
  if (!is_crisp(classifier)) {
    look_at_hits_in_turn(asker, classifier);
    looks.look_longer();
    classifier = looks.fit();
    if (asker.reach_beyond_nearer() == Reach::wide && asker.buffer().nearer_bytes && !tells_levels(classifier)) {
      look_nearby(asker, spans, looks, classifier);
    }
  }
  return classifier;
}

bool meets_another_level(Interrogator& device) {
  if (device.buffer().nearer_bytes) {
    return false;
  }
  try {
    return std::ranges::any_of(eviction_questions(device, Spans::fine), [&](const model::Question& question) {
      const std::vector<float> cycles = device.latencies({&question, 1}).front();
      const auto of_none = std::ranges::count_if(
          cycles, [&](float latency) { return device.classifier().read(latency) == Reading::unclear; });
      return 2 * static_cast<std::size_t>(of_none) >= cycles.size();
    });
  } catch (const QuestionRefused&) {
    return false;
  }
}

}  // namespace gpuinfer::infer
