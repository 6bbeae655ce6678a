// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/partition.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "infer/granularity.hpp"

namespace gpuinfer::infer {

namespace {

// Enough lines to tell an index function from its likes, and to see a table of up to half as many lines repeat.
constexpr std::size_t smallest_window_lines = 256;
constexpr std::size_t lines_from_everywhere = 128;
constexpr std::size_t lines_before_start = 32;

// What is no array of sets can be asked for ever.
constexpr std::size_t most_accesses = std::size_t{1} << 24U;

}  // namespace

Partitioner::Partitioner(Interrogator& device, Conflicts& conflicts, std::uint64_t line_bytes, std::size_t onset_lines)
    : device_(&device), conflicts_(&conflicts), line_bytes_(line_bytes), onset_lines_(onset_lines),
      start_(aligned_start(device)),
      buffer_lines_(static_cast<std::size_t>((device.buffer().bytes - start_) / line_bytes)),
      chunk_lines_(std::max<std::size_t>(1, onset_lines / 2)), random_(device.settings().seed ^ 0x9a27ULL) {}

Offsets Partitioner::lines_between(std::size_t first, std::size_t last) const {
  Offsets lines;
  for (std::size_t line = first; line < std::min(last, buffer_lines_); ++line) {
    lines.push_back(start_ + line * line_bytes_);
  }
  return lines;
}

Offsets Partitioner::lines_far_away(std::size_t window_lines) {
  std::set<std::uint64_t> lines{buffer_lines_ - 1};
  for (std::size_t line = 1; line < buffer_lines_; line *= 2) {
    lines.insert(line);
  }
  for (std::size_t i = 0; i < lines_from_everywhere; ++i) {
    lines.insert(random_.below(buffer_lines_));
  }
  Offsets offsets;
  for (const std::uint64_t line : lines) {
    if (line >= window_lines) {
      offsets.push_back(start_ + line * line_bytes_);
    }
  }
  // Lines before the start cross other powers of two than those behind it.
  const std::uint64_t lines_before = start_ / line_bytes_;
  for (std::uint64_t before = 1; before <= lines_before; before *= 2) {
    offsets.push_back(start_ - before * line_bytes_);
  }
  for (std::size_t i = 0; lines_before > 0 && i < lines_before_start; ++i) {
    const std::uint64_t offset = start_ - (1 + random_.below(lines_before)) * line_bytes_;
    if (std::find(offsets.begin(), offsets.end(), offset) == offsets.end()) {
      offsets.push_back(offset);
    }
  }
  return offsets;
}

// Lines that fit together can be tested together against one full set: whatever then misses belongs to that set.
std::vector<Offsets> Partitioner::in_fitting_chunks(const Offsets& lines) {
  std::vector<Offsets> chunks;
  for (std::size_t next = 0; next < lines.size();) {
    const std::size_t count = std::min(chunk_lines_, lines.size() - next);
    const auto first = lines.begin() + static_cast<std::ptrdiff_t>(next);
    Offsets chunk(first, first + static_cast<std::ptrdiff_t>(count));
    if (count > 1 && conflicts_->overflow(chunk)) {
      chunk_lines_ = std::max<std::size_t>(1, count / 2);
      continue;
    }
    chunks.push_back(std::move(chunk));
    next += count;
    chunk_lines_ = std::min(chunk_lines_ + chunk_lines_ / 4 + 1, std::max<std::size_t>(1, onset_lines_ / 2));
  }
  return chunks;
}

// The one set that overflows when the last of the lines is added to the others, which fit. Its lines are exactly those
// without any one of which the rest of them fits.
std::optional<ConflictClass> Partitioner::extract(const Offsets& overflowing, std::string& reason) {
  for (const double expected_left_out : {0.5, 5e-3, 5e-5, 5e-7}) {
    const std::vector<bool> member = conflicts_->conflicting(overflowing, expected_left_out);
    Offsets lines;
    for (std::size_t i = 0; i < overflowing.size(); ++i) {
      if (member[i]) {
        lines.push_back(overflowing[i]);
      }
    }
    if (lines.size() < 2 || !conflicts_->overflow(lines)) {
      conflicts_->distrust_thrashing();
      continue;
    }
    bool exact = true;
    const std::size_t checks = std::min<std::size_t>(lines.size(), 3);
    for (std::size_t check = 0; check < checks && exact; ++check) {
      const std::size_t position = checks == lines.size() ? check : random_.below(lines.size());
      exact = !conflicts_->overflow(without(lines, position));
    }
    if (exact) {
      const auto ways = static_cast<std::uint32_t>(lines.size() - 1);
      return ConflictClass{.lines = std::move(lines), .ways = ways};
    }
    conflicts_->distrust_thrashing();
  }
  if (Offsets lines = members_by_removal(overflowing); lines.size() > 1) {
    const auto ways = static_cast<std::uint32_t>(lines.size() - 1);
    return ConflictClass{.lines = std::move(lines), .ways = ways};
  }
  reason = "lines that conflict together with others do not conflict among themselves as the lines of one set do";
  return std::nullopt;
}

// Group testing, for policies under which some members never miss: a group of lines without which the rest still
// overflows holds no member of the set, and a single line without which it fits is one. Empty when it would cost too
// much.
Offsets Partitioner::members_by_removal(const Offsets& overflowing) {
  constexpr std::size_t most_accesses_for_a_set = std::size_t{1} << 22U;
  const std::size_t asked_before = device_->accesses_asked();
  Offsets members;
  Offsets rest = overflowing;  // members and lines not yet tested
  std::vector<Offsets> groups{overflowing};
  while (!groups.empty()) {
    if (device_->accesses_asked() - asked_before > most_accesses_for_a_set) {
      return {};
    }
    const Offsets group = std::move(groups.back());
    groups.pop_back();
    const std::set<std::uint64_t> removed(group.begin(), group.end());
    Offsets others;
    std::copy_if(rest.begin(), rest.end(), std::back_inserter(others),
                 [&](std::uint64_t line) { return !removed.contains(line); });
    if (conflicts_->overflow(others)) {
      rest = std::move(others);
    } else if (group.size() == 1) {
      members.push_back(group.front());
    } else {
      const auto middle = group.begin() + static_cast<std::ptrdiff_t>(group.size() / 2);
      groups.emplace_back(middle, group.end());
      groups.emplace_back(group.begin(), middle);
    }
  }
  return members;
}

// Moves the members of `set` out of the chunk.
void Partitioner::claim_members(ConflictClass& set, Offsets& chunk) {
  if (chunk.empty()) {
    return;
  }
  // One line too many shows LRU everything; chance needs a crowd to show its victims soon.
  const std::size_t crowd = conflicts_->always_thrashes() ? set.ways : std::size_t{2} * set.ways + 1;
  Offsets tested(set.lines.begin(), set.lines.begin() + static_cast<std::ptrdiff_t>(std::min(crowd, set.lines.size())));
  const std::size_t known = tested.size();
  tested.insert(tested.end(), chunk.begin(), chunk.end());
  if (known <= set.ways && !conflicts_->overflow(tested)) {
    return;
  }
  const std::vector<bool> member = conflicts_->conflicting(tested, 1e-4);
  Offsets others;
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    (member[known + i] ? set.lines : others).push_back(chunk[i]);
  }
  chunk = std::move(others);
}

// Where all lines of an overflowing set miss, a chase in which half of the sets overflow tells of each line of the
// chunk in which half its set is: as many chases as the numbers of the sets have digits. False, and nothing claimed,
// when the answers are not those of such a policy.
bool Partitioner::claim_by_number(std::vector<ConflictClass>& sets, Offsets& chunk) {
  std::vector<std::size_t> number(chunk.size());  // of the set, from 1; 0: none of them
  for (std::size_t digit = 1; digit <= sets.size(); digit *= 2) {
    Offsets tested;
    for (std::size_t s = 0; s < sets.size(); ++s) {
      if (((s + 1) & digit) != 0) {
        const auto first = sets[s].lines.begin();
        tested.insert(tested.end(), first, first + sets[s].ways + 1);
      }
    }
    const std::size_t known = tested.size();
    tested.insert(tested.end(), chunk.begin(), chunk.end());
    const std::vector<bool> misses = conflicts_->conflicting(tested, 1e-4);
    if (!conflicts_->always_thrashes() ||
        !std::all_of(misses.begin(), misses.begin() + static_cast<std::ptrdiff_t>(known),
                     [](bool miss) { return miss; })) {
      return false;
    }
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      number[i] += misses[known + i] ? digit : 0;
    }
  }
  if (std::any_of(number.begin(), number.end(), [&](std::size_t of_line) { return of_line > sets.size(); })) {
    return false;
  }
  Offsets others;
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    (number[i] == 0 ? others : sets[number[i] - 1].lines).push_back(chunk[i]);
  }
  chunk = std::move(others);
  return true;
}

void Partitioner::claim(std::vector<ConflictClass>& sets, Offsets& chunk) {
  constexpr std::size_t worth_numbering = 3;
  if (conflicts_->always_thrashes() && sets.size() >= worth_numbering && claim_by_number(sets, chunk)) {
    return;
  }
  for (ConflictClass& set : sets) {
    claim_members(set, chunk);
  }
}

std::optional<ConflictClass> Partitioner::first_set(std::string& reason) {
  return extract(lines_between(0, onset_lines_ + 1), reason);
}

bool Partitioner::is_too_dear(Partition& partition) const {
  if (device_->accesses_asked() - accesses_before_ <= most_accesses) {
    return false;
  }
  partition.complete = false;
  partition.reason = "more than " + std::to_string(most_accesses) + " accesses did not tell which lines share a set";
  return true;
}

Partition Partitioner::find(ConflictClass first) {
  accesses_before_ = device_->accesses_asked();
  Partition partition;
  const std::size_t window_lines =
      std::min(buffer_lines_, std::max(smallest_window_lines, 3 * onset_lines_ + onset_lines_ / 2));
  partition.window = lines_between(0, window_lines);
  Offsets resident = lines_between(0, onset_lines_);
  const std::set<std::uint64_t> members(first.lines.begin(), first.lines.end());
  std::erase_if(resident, [&](std::uint64_t line) { return members.contains(line); });
  std::vector<Offsets> chunks = in_fitting_chunks(lines_between(onset_lines_ + 1, window_lines));
  for (Offsets& chunk : in_fitting_chunks(lines_far_away(window_lines))) {
    chunks.push_back(std::move(chunk));
  }
  partition.classes.push_back(std::move(first));
  if (!assign(partition, resident, chunks)) {
    return partition;
  }
  // One of the many decisions on lines may have overlooked one, which then stays among those that fit.
  claim(partition.classes, resident);
  // Sets with more ways than the window has lines for them show up further out.
  while (!resident.empty() && partition.window.size() < buffer_lines_) {
    chunks = further_chunks(partition, partition.window.size() + partition.window.size() / 2, resident);
    if (is_too_dear(partition) || !assign(partition, resident, chunks)) {
      return partition;
    }
  }
  partition.complete = resident.empty();
  if (!partition.complete) {
    partition.reason = std::to_string(resident.size()) +
                       " lines never met a conflict: the sets they map to hold more lines than the buffer has for them";
  }
  return partition;
}

// Takes line after line from the chunks: into the residents while they all fit, and as soon as one does not, the set
// that it overflows is known, and all its members leave.
bool Partitioner::assign(Partition& partition, Offsets& resident, std::vector<Offsets>& chunks) {
  const auto remaining = [&] {
    std::size_t count = 0;
    for (const Offsets& chunk : chunks) {
      count += chunk.size();
    }
    return count;
  };
  const std::size_t all = remaining() + resident.size();
  for (Offsets& chunk : chunks) {
    if (is_too_dear(partition)) {
      return false;
    }
    device_->report("partition into sets: " + std::to_string(partition.classes.size()) + " found",
                    0.2 + 0.4 * (1.0 - static_cast<double>(remaining() + resident.size()) / static_cast<double>(all)));
    claim(partition.classes, chunk);
    while (!chunk.empty()) {
      const std::size_t fits = longest_fitting_prefix(resident, chunk);
      const auto end_of_fitting = chunk.begin() + static_cast<std::ptrdiff_t>(fits);
      resident.insert(resident.end(), chunk.begin(), end_of_fitting);
      chunk.erase(chunk.begin(), end_of_fitting);
      if (chunk.empty()) {
        break;
      }
      std::optional<ConflictClass> set = extract(joined(resident, std::span(chunk).first(1)), partition.reason);
      if (!set) {
        return false;
      }
      const std::set<std::uint64_t> members(set->lines.begin(), set->lines.end());
      if (!members.contains(chunk.front())) {
        partition.reason = "a line that makes others miss does not itself conflict with them";
        return false;
      }
      chunk.erase(chunk.begin());
      std::erase_if(resident, [&](std::uint64_t line) { return members.contains(line); });
      claim_members(*set, chunk);
      partition.classes.push_back(std::move(*set));
    }
  }
  return true;
}

// How many lines of the chunk, from its first, fit beside the residents; the whole chunk is tried last.
std::size_t Partitioner::longest_fitting_prefix(const Offsets& resident, const Offsets& chunk) {
  std::size_t fits = 0;
  std::size_t too_many = chunk.size() + 1;
  for (std::size_t tried = 1; fits + 1 < too_many;) {
    (conflicts_->overflow(joined(resident, std::span(chunk).first(tried))) ? too_many : fits) = tried;
    tried = too_many > chunk.size() ? std::min(2 * tried, chunk.size()) : fits + (too_many - fits) / 2;
  }
  return fits;
}

// The lines that widen the window to `lines` and belong to none of the known sets, whose members they become if they
// do.
std::vector<Offsets> Partitioner::further_chunks(Partition& partition, std::size_t lines, const Offsets& resident) {
  const Offsets further = lines_between(partition.window.size(), lines);
  std::set<std::uint64_t> unassigned(further.begin(), further.end());
  const auto is_known = [&](const Offsets& known) {
    for (const std::uint64_t line : known) {
      unassigned.erase(line);
    }
  };
  is_known(resident);
  for (const ConflictClass& set : partition.classes) {
    is_known(set.lines);
  }
  std::vector<Offsets> chunks = in_fitting_chunks({unassigned.begin(), unassigned.end()});
  for (Offsets& chunk : chunks) {
    if (is_too_dear(partition)) {
      break;
    }
    claim(partition.classes, chunk);
  }
  partition.window.insert(partition.window.end(), further.begin(), further.end());
  return chunks;
}

void Partitioner::extend(Partition& partition, std::size_t lines) {
  const std::vector<Offsets> chunks = further_chunks(partition, lines, {});
  if (partition.complete &&
      std::any_of(chunks.begin(), chunks.end(), [](const Offsets& chunk) { return !chunk.empty(); })) {
    partition.complete = false;
    partition.reason = "lines beyond the first window belong to none of the sets found in it";
  }
}

}  // namespace gpuinfer::infer
