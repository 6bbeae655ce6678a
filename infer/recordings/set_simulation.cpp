// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/set_simulation.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <unordered_map>

#include "model/cache_simulator.hpp"
#include "model/errors.hpp"
#include "model/line_table.hpp"

namespace gpuinfer::infer {

namespace {

using model::Measured;

bool fits(const model::Replacement& policy, std::uint32_t ways) {
  try {
    model::check(policy, {ways});
    return true;
  } catch (const InputError&) {
    return false;
  }
}

bool is_judged(Measured measured) { return measured != Measured::unclear; }

std::vector<std::size_t> whole(std::span<const Played> recordings) {
  std::vector<std::size_t> lengths;
  for (const Played& played : recordings) {
    lengths.push_back(played.addresses.size());
  }
  return lengths;
}

}  // namespace

SetSimulation::SetSimulation(std::span<const Played> recordings, std::uint64_t line_bytes, std::uint64_t sector_bytes)
    : SetSimulation(recordings, whole(recordings), line_bytes, sector_bytes) {}

SetSimulation SetSimulation::of_beginning(std::span<const Played> recordings, std::uint64_t line_bytes,
                                          std::uint64_t sector_bytes, std::size_t accesses, std::size_t fewest) {
  std::vector<std::size_t> lengths = whole(recordings);
  const std::size_t total = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  std::size_t of_each = accesses / recordings.size();
  std::size_t step = 1;
  if (of_each < fewest) {
    of_each = accesses / 4;
    const std::size_t taken = accesses / std::max<std::size_t>(1, std::min(of_each, total / recordings.size()));
    step = std::max<std::size_t>(1, recordings.size() / std::max<std::size_t>(1, taken));
  }
  for (std::size_t r = 0; r < recordings.size(); ++r) {
    const std::vector<Measured>& measured = recordings[r].measured;
    const auto first_judged = std::find_if(measured.begin(), measured.end(), is_judged);
    const auto unseen = static_cast<std::size_t>(first_judged - measured.begin());
    lengths[r] = r % step == 0 ? std::min(lengths[r], unseen + of_each) : 0;
  }
  return {recordings, lengths, line_bytes, sector_bytes};
}

SetSimulation::SetSimulation(std::span<const Played> recordings, const std::vector<std::size_t>& lengths,
                             std::uint64_t line_bytes, std::uint64_t sector_bytes)
    : recordings_(recordings), line_bytes_(line_bytes), sector_bytes_(sector_bytes) {
  const std::size_t total = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  if (total > std::numeric_limits<std::uint32_t>::max()) {
    throw InputError("the recordings hold " + std::to_string(total) +
                     " accesses, of which 4,294,967,295 are looked at together; name fewer recordings");
  }
  model::LineTable table;
  std::vector<std::uint32_t> id_of;  // by access
  id_of.reserve(total);
  first_of_recording_.push_back(0);
  for (std::size_t r = 0; r < recordings.size(); ++r) {
    for (std::size_t i = 0; i < lengths[r]; ++i) {
      id_of.push_back(table.id_of(recordings[r].addresses[i] / line_bytes));
      judged_ += is_judged(recordings[r].measured[i]) ? 1U : 0U;
    }
    first_of_recording_.push_back(static_cast<std::uint32_t>(id_of.size()));
  }
  std::vector<std::uint32_t> accesses_of_id(table.ids());
  for (const std::uint32_t id : id_of) {
    ++accesses_of_id[id];
  }
  std::vector<std::uint32_t> ids;
  for (std::uint32_t id = 0; id < table.ids(); ++id) {
    if (accesses_of_id[id] > 0) {
      ids.push_back(id);
    }
  }
  std::sort(ids.begin(), ids.end(),
            [&](std::uint32_t a, std::uint32_t b) { return table.number_of(a) < table.number_of(b); });
  std::vector<std::uint32_t> next_of_id(table.ids());
  std::uint32_t next = 0;
  for (const std::uint32_t id : ids) {
    lines_.push_back(table.number_of(id) * line_bytes);
    first_of_line_.push_back(next);
    next_of_id[id] = next;
    next += accesses_of_id[id];
  }
  first_of_line_.push_back(next);
  accesses_.resize(total);
  for (std::uint32_t access = 0; access < id_of.size(); ++access) {
    accesses_[next_of_id[id_of[access]]++] = access;
  }
}

std::span<const std::uint32_t> SetSimulation::accesses_to_line(std::uint64_t line) const {
  const auto found = std::lower_bound(lines_.begin(), lines_.end(), line);
  if (found == lines_.end() || *found != line) {
    return {};
  }
  const auto place = static_cast<std::size_t>(found - lines_.begin());
  return std::span(accesses_).subspan(first_of_line_[place], first_of_line_[place + 1] - first_of_line_[place]);
}

std::size_t SetSimulation::count_accesses_to(std::span<const std::uint64_t> lines) const {
  std::size_t count = 0;
  for (const std::uint64_t line : lines) {
    count += accesses_to_line(line).size();
  }
  return count;
}

std::vector<std::uint32_t> SetSimulation::accesses_to(std::span<const std::uint64_t> lines, std::uint32_t end) const {
  std::vector<std::uint32_t> accesses;
  for (const std::uint64_t line : lines) {
    const std::span<const std::uint32_t> all = accesses_to_line(line);
    accesses.insert(accesses.end(), all.begin(), std::lower_bound(all.begin(), all.end(), end));
  }
  // Where there are many, marking them costs less than sorting.
  constexpr std::size_t few_in = 256;
  if (accesses.size() < end / few_in) {
    std::sort(accesses.begin(), accesses.end());
    return accesses;
  }
  constexpr unsigned bits = 64;
  std::vector<std::uint64_t> marks(end / bits + 1);
  for (const std::uint32_t access : accesses) {
    marks[access / bits] |= std::uint64_t{1} << (access % bits);
  }
  std::size_t place = 0;
  for (std::size_t word = 0; word < marks.size(); ++word) {
    for (std::uint64_t left = marks[word]; left != 0; left &= left - 1) {
      accesses[place++] = static_cast<std::uint32_t>(word * bits) + static_cast<std::uint32_t>(std::countr_zero(left));
    }
  }
  return accesses;
}

std::uint32_t SetSimulation::end_of_first(std::size_t accesses, std::span<const std::uint64_t> lines) const {
  const std::uint32_t all = first_of_recording_.back();
  if (accesses >= all) {
    return all;
  }
  const std::size_t there = count_accesses_to(lines);
  return accesses >= there ? all : static_cast<std::uint32_t>(std::uint64_t{all} * accesses / there);
}

template <class Visit>
void SetSimulation::for_each_access(std::span<const std::uint64_t> lines, std::uint32_t end, const Visit& visit) const {
  std::size_t r = 0;
  for (const std::uint32_t access : accesses_to(lines, end)) {
    while (access >= first_of_recording_[r + 1]) {
      ++r;
    }
    visit(r, access - first_of_recording_[r]);
  }
}

std::vector<std::size_t> SetSimulation::wrong_before(std::uint32_t end, std::span<const std::uint64_t> lines,
                                                     std::span<const Supposed> suppositions) const {
  model::HypothesisTester tester(line_bytes_, sector_bytes_);
  std::vector<std::uint64_t> addresses;
  std::vector<Measured> measured;
  std::size_t recording = 0;
  const auto add = [&] {
    if (!addresses.empty()) {
      tester.add(addresses, measured);
      addresses.clear();
      measured.clear();
    }
  };
  for_each_access(lines, end, [&](std::size_t r, std::size_t i) {
    if (r != recording) {
      add();
      recording = r;
    }
    addresses.push_back(recordings_[r].addresses[i]);
    measured.push_back(recordings_[r].measured[i]);
  });
  add();
  std::vector<model::Hypothesis> hypotheses;
  std::vector<std::size_t> place;
  for (std::size_t i = 0; i < suppositions.size(); ++i) {
    if (fits(suppositions[i].policy, suppositions[i].ways)) {
      hypotheses.push_back(
          {.index = model::BitsIndex{}, .ways = {suppositions[i].ways}, .replacement = suppositions[i].policy});
      place.push_back(i);
    }
  }
  std::vector<std::size_t> result(suppositions.size(), does_not_fit);
  // Whoever scores has threads for several sets or policies.
  const std::vector<std::size_t> counted = tester.wrong(hypotheses, 1);
  for (std::size_t i = 0; i < place.size(); ++i) {
    result[place[i]] = counted[i];
  }
  return result;
}

namespace {

// Most of what is wrong shows in the first accesses, and most of the rest in a few times as many.
constexpr std::size_t first_accesses = 4096;
constexpr std::size_t times_as_many = 8;

}  // namespace

std::vector<std::size_t> SetSimulation::wrong(std::span<const std::uint64_t> lines,
                                              std::span<const Supposed> suppositions, std::size_t most) const {
  const std::uint32_t all = first_of_recording_.back();
  std::vector<std::size_t> result(suppositions.size(), does_not_fit);
  std::vector<std::size_t> left(suppositions.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  std::vector<Supposed> supposed(suppositions.begin(), suppositions.end());
  // No more can be wrong than is judged, so that such a bound spares nothing.
  std::size_t accesses = most < judged_ ? first_accesses : std::numeric_limits<std::size_t>::max();
  for (bool is_last = false; !is_last && !left.empty(); accesses *= times_as_many) {
    const std::uint32_t end = end_of_first(accesses, lines);
    is_last = end == all;
    const std::vector<std::size_t> counted = wrong_before(end, lines, supposed);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      result[left[i]] = counted[i];
      if (counted[i] <= most) {
        left[kept] = left[i];
        supposed[kept++] = supposed[i];
      }
    }
    left.resize(kept);
    supposed.resize(kept);
  }
  return result;
}

std::optional<SetSimulation::Best> SetSimulation::best(std::span<const std::uint64_t> lines,
                                                       std::span<const Supposed> suppositions, std::size_t most) const {
  if (suppositions.empty()) {
    return std::nullopt;
  }
  std::vector<std::size_t> counted;
  const std::uint32_t end = end_of_first(first_accesses, lines);
  if (suppositions.size() == 1) {
    counted = wrong(lines, suppositions, most);
  } else if (counted = wrong_before(end, lines, suppositions); end < first_of_recording_.back()) {
    // What the one that leads gets wrong in all shows what is too much.
    const auto leader = static_cast<std::size_t>(std::min_element(counted.begin(), counted.end()) - counted.begin());
    const std::size_t of_leader = wrong(lines, suppositions.subspan(leader, 1), most).front();
    std::vector<Supposed> others(suppositions.begin(), suppositions.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(leader));
    counted = wrong(lines, others, std::min(most, of_leader));
    counted.insert(counted.begin() + static_cast<std::ptrdiff_t>(leader), of_leader);
  }
  const auto least = std::min_element(counted.begin(), counted.end());
  if (*least > most || *least == does_not_fit) {
    return std::nullopt;
  }
  return Best{.supposition = static_cast<std::size_t>(least - counted.begin()), .wrong = *least};
}

SetSimulation::Counts SetSimulation::counts_of_first(std::size_t accesses, std::span<const std::uint64_t> lines) const {
  Counts counts;
  for_each_access(lines, end_of_first(accesses, lines), [&](std::size_t r, std::size_t i) {
    const Measured measured = recordings_[r].measured[i];
    counts.judged += is_judged(measured) ? 1U : 0U;
    counts.misses += measured == Measured::miss ? 1U : 0U;
  });
  return counts;
}

// Calls visit(recording, access in it, whether a miss is predicted).
template <class Visit>
void SetSimulation::simulate(std::span<const std::uint64_t> lines, const Supposed& supposed, const Visit& visit) const {
  model::CacheDescription set;
  set.line_bytes = line_bytes_;
  set.sector_bytes = sector_bytes_;
  set.ways = std::vector<std::uint32_t>{supposed.ways};
  set.index = model::BitsIndex{};
  set.replacement = supposed.policy;
  const auto simulator = model::CacheSimulator::make(set, 1);
  std::optional<std::size_t> current;
  for_each_access(lines, first_of_recording_.back(), [&](std::size_t r, std::size_t i) {
    if (current != r) {
      simulator->put_into(model::StartState::clean);
      current = r;
    }
    const model::AccessEvent event =
        simulator->step(model::Address{recordings_[r].addresses[i]}, model::AccessKind::load);
    visit(r, i, is_miss(event.outcome));
  });
}

void SetSimulation::predict(std::span<const std::uint64_t> lines, const Supposed& supposed,
                            std::vector<std::vector<bool>>& misses) const {
  simulate(lines, supposed, [&](std::size_t r, std::size_t i, bool is_miss) { misses[r][i] = is_miss; });
}

std::vector<SetSimulation::Prediction> SetSimulation::predictions(std::span<const std::uint64_t> lines,
                                                                  const Supposed& supposed) const {
  struct Load {
    std::size_t recording = 0;
    std::uint32_t place = 0;  // among the accesses to these lines
  };
  std::vector<Prediction> predictions;
  std::unordered_map<std::uint64_t, Load> last_load;  // by line
  std::uint32_t place = 0;
  simulate(lines, supposed, [&](std::size_t r, std::size_t i, bool is_miss) {
    const std::uint64_t line = recordings_[r].addresses[i] / line_bytes_ * line_bytes_;
    const auto [last, is_first] = last_load.try_emplace(line, Load{.recording = r, .place = place});
    const bool is_new = is_first || last->second.recording != r;
    const Measured measured = recordings_[r].measured[i];
    if (is_judged(measured)) {
      predictions.push_back({.line = line,
                             .age = is_new ? std::nullopt : std::optional(place - last->second.place),
                             .miss = is_miss,
                             .is_wrong = is_miss != (measured == Measured::miss)});
    }
    last->second = {.recording = r, .place = place++};
  });
  return predictions;
}

}  // namespace gpuinfer::infer
