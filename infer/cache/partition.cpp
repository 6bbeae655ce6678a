// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache/partition.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "infer/asking/stream.hpp"
#include "infer/cache/full_set_witness.hpp"
#include "infer/cache/granularity.hpp"

namespace gpuinfer::infer {

namespace {

// Enough lines to tell an index function from its likes, and to see a table of up to half as many lines repeat.
constexpr std::size_t smallest_window_lines = 256;
constexpr std::size_t lines_from_everywhere = 128;
constexpr std::size_t lines_before_start = 32;

// What is no array of sets can be asked for ever; what is one shows another set now and then. Sets that cannot be
// emptied, and policies that let most lines stay, make each of them dear.
constexpr std::size_t most_accesses_for_all_sets = std::size_t{1} << 27U;
constexpr std::size_t most_accesses_without_a_set = std::size_t{1} << 24U;

}  // namespace

Partitioner::Partitioner(Interrogator& device, Conflicts& conflicts, std::uint64_t line_bytes, std::size_t onset_lines)
    : device_(&device), conflicts_(&conflicts), line_bytes_(line_bytes), onset_lines_(onset_lines),
      start_(aligned_start(device)),
      buffer_lines_(static_cast<std::size_t>((device.buffer().bytes - start_) / line_bytes)),
      most_chunk_lines_(std::max<std::size_t>(1, onset_lines / 2)), chunk_lines_(most_chunk_lines_),
      random_(stream(device.settings(), "partition")) {}

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
std::vector<Offsets> Partitioner::in_fitting_chunks(Offsets lines) {
  if (neighbours_crowd_) {
    random_.shuffle(lines);
  }
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
    chunk_lines_ = std::min(chunk_lines_ + chunk_lines_ / 4 + 1, most_chunk_lines_);
  }
  return chunks;
}

// Those of the lines, in chunks that fit, that are not seen at once to go to one of the sets.
std::vector<Offsets> Partitioner::unclaimed_chunks(std::vector<ConflictClass>& sets, Offsets lines) {
  static_cast<void>(claim_by_number(sets, lines));
  return in_fitting_chunks(std::move(lines));
}

// A set of these lines, if they are all that it has: they overflow, and without any one of them the rest fits.
std::optional<ConflictClass> Partitioner::set_of(Offsets lines) {
  if (lines.size() < 2 || !conflicts_->overflow(lines)) {
    return std::nullopt;
  }
  const std::size_t checks = std::min<std::size_t>(lines.size(), 3);
  for (std::size_t check = 0; check < checks; ++check) {
    const std::size_t position = checks == lines.size() ? check : random_.below(lines.size());
    if (conflicts_->overflow(without(lines, position))) {
      return std::nullopt;
    }
  }
  const auto ways = static_cast<std::uint32_t>(lines.size() - 1);
  return ConflictClass{.lines = std::move(lines), .ways = ways};
}

// The one set that overflows when the last of the lines is added to the others, which fit. Its lines are exactly those
// without any one of which the rest of them fits.
std::optional<ConflictClass> Partitioner::extract(const Offsets& overflowing, std::string& reason) {
  bool has_asked_witness = false;
  if (witness_helps_) {
    if (auto set = extract_by_witness(overflowing, std::vector<bool>(overflowing.size()))) {
      return set;
    }
    has_asked_witness = true;
  }
  for (const double expected_left_out : {0.5, 5e-3, 5e-5, 5e-7}) {
    const std::size_t asked_before = device_->accesses_asked();
    const std::vector<bool> member = conflicts_->conflicting(overflowing, expected_left_out);
    const std::size_t asked_by_laps = device_->accesses_asked() - asked_before;
    Offsets lines;
    for (std::size_t i = 0; i < overflowing.size(); ++i) {
      if (member[i]) {
        lines.push_back(overflowing[i]);
      }
    }
    if (auto set = set_of(std::move(lines))) {
      return set;
    }
    const bool was_taken_for_thrashing = conflicts_->always_thrashes();
    conflicts_->distrust_thrashing();
    if (was_taken_for_thrashing || std::exchange(has_asked_witness, true)) {
      continue;
    }
    if (auto set = extract_by_witness(overflowing, member)) {
      witness_helps_ = device_->accesses_asked() - asked_before <= 2 * asked_by_laps;
      return set;
    }
  }
  if (Offsets lines = members_by_removal(overflowing); lines.size() > 1) {
    const auto ways = static_cast<std::uint32_t>(lines.size() - 1);
    return ConflictClass{.lines = std::move(lines), .ways = ways};
  }
  reason = "lines that conflict together with others do not conflict among themselves as the lines of one set do";
  return std::nullopt;
}

// The same for policies that let most lines stay; `known`: members that were seen to miss.
std::optional<ConflictClass> Partitioner::extract_by_witness(const Offsets& overflowing,
                                                             const std::vector<bool>& known) {
  const std::optional<FullSetWitness> witness = FullSetWitness::find(*device_, *conflicts_, overflowing);
  std::optional<Offsets> lines = witness ? witness->members(known) : std::nullopt;
  return lines ? set_of(*std::move(lines)) : std::nullopt;
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
  const Offsets known(set.lines.begin(),
                      set.lines.begin() + static_cast<std::ptrdiff_t>(std::min(crowd, set.lines.size())));
  // Some policies let most lines stay. What is to miss must not be among them: an empty set keeps what comes first, a
  // full one, what was loaded several times in a row last.
  const bool chunk_first = device_->floods_by_loads();
  const Offsets tested = chunk_first ? joined(chunk, known) : joined(known, chunk);
  if (known.size() <= set.ways && !conflicts_->overflow(tested)) {
    return;
  }
  const std::vector<bool> member = conflicts_->conflicting(tested, 1e-4);
  const std::size_t first = chunk_first ? 0 : known.size();
  Offsets others;
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    (member[first + i] ? set.lines : others).push_back(chunk[i]);
  }
  chunk = std::move(others);
}

// Moves the members of the sets out of the lines, under policies of which always_thrashes() holds. False when it does
// not, or when lines are left of which nothing was found out.
bool Partitioner::claim_by_number(std::vector<ConflictClass>& sets, Offsets& lines) {
  if (!conflicts_->always_thrashes()) {
    return false;
  }
  std::vector<Offsets> pushing;
  for (const ConflictClass& set : sets) {
    const auto first = set.lines.begin();
    pushing.emplace_back(first, first + std::min<std::ptrdiff_t>(set.ways + 1, std::ssize(set.lines)));
  }
  Offsets others;
  Offsets unclear;
  Offsets open = std::move(lines);
  for (std::size_t at_once = std::max<std::size_t>(1, onset_lines_ / 2); !open.empty(); at_once /= 4) {
    if (at_once == 0) {
      unclear = joined(unclear, open);
      break;
    }
    Offsets crowded;
    for (std::size_t next = 0; next < open.size(); next += at_once) {
      const std::span<const std::uint64_t> rest = std::span(open).subspan(next);
      const Offsets chunk(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(std::min(at_once, rest.size())));
      const std::vector<SetOfLine> found = sets_of_lines(*device_, pushing, chunk);
      for (std::size_t i = 0; i < chunk.size(); ++i) {
        switch (found[i].kind) {
          case SetOfLine::Kind::of_set:
            sets[found[i].set].lines.push_back(chunk[i]);
            has_claimed_by_number_ = true;
            break;
          case SetOfLine::Kind::of_none:
            others.push_back(chunk[i]);
            break;
          case SetOfLine::Kind::crowded:
            crowded.push_back(chunk[i]);
            break;
          case SetOfLine::Kind::unclear:
            unclear.push_back(chunk[i]);
        }
      }
    }
    open = std::move(crowded);
  }
  lines = joined(others, unclear);
  return unclear.empty();
}

// Lines were claimed by number for sets of which it later turned out that not all their lines thrash. Then chance may
// have taken some of them to other sets than their own: in the place of members that are known, those do not make a set
// overflow. They leave.
Offsets Partitioner::wrongly_claimed(std::vector<ConflictClass>& sets) {
  if (conflicts_->always_thrashes() || !std::exchange(has_claimed_by_number_, false)) {
    return {};
  }
  Offsets wrong;
  for (ConflictClass& set : sets) {
    const std::size_t known = std::size_t{set.ways} + 1;
    const auto belong = [&](std::span<const std::uint64_t> claimed) {
      return conflicts_->overflow(joined(std::span(set.lines).first(known - claimed.size()), claimed));
    };
    const Offsets claimed(set.lines.begin() + static_cast<std::ptrdiff_t>(known), set.lines.end());
    set.lines.resize(known);
    for (std::size_t next = 0; next < claimed.size();) {
      const auto some = std::span(claimed).subspan(next, std::min<std::size_t>(set.ways, claimed.size() - next));
      next += some.size();
      if (belong(some)) {
        set.lines.insert(set.lines.end(), some.begin(), some.end());
        continue;
      }
      for (const std::uint64_t& line : some) {
        (belong({&line, 1}) ? set.lines : wrong).push_back(line);
      }
    }
  }
  return wrong;
}

void Partitioner::claim(std::vector<ConflictClass>& sets, Offsets& chunk) {
  if (claim_by_number(sets, chunk)) {
    return;
  }
  for (ConflictClass& set : sets) {
    claim_members(set, chunk);
  }
}

// A few lines that seem to go to none of the sets may be such as survive, under a policy that is not LRU and was taken
// for it, what evicts most.
void Partitioner::claim_by_laps(std::vector<ConflictClass>& sets, Offsets& lines) {
  if (lines.empty() || 4 * lines.size() > onset_lines_ || !conflicts_->always_thrashes()) {
    return;
  }
  conflicts_->distrust_thrashing();
  const std::size_t before = lines.size();
  claim(sets, lines);
  if (lines.size() == before) {
    conflicts_->trust_thrashing();
  }
}

// Moves the sets that have resident lines out of both, as far as always_thrashes() makes that easy: more and more of
// the further lines are loaded beside the residents, to see where each set overflows.
void Partitioner::find_thrashing_sets(std::vector<ConflictClass>& sets, Offsets& resident, Offsets& further) {
  Offsets loaded;  // of the further lines, beside the residents; they go to none of the sets
  while (!further.empty() && !resident.empty()) {
    const auto end = further.begin() + static_cast<std::ptrdiff_t>(std::min(onset_lines_ / 8 + 1, further.size()));
    Offsets tried(further.begin(), end);
    further.erase(further.begin(), end);
    const bool all_known = claim_by_number(sets, tried);
    const std::size_t known_to_fit = loaded.size();
    loaded = joined(loaded, tried);
    if (!all_known) {
      break;
    }
    const auto overflows = overflows_in_turn(*device_, resident, loaded, known_to_fit);
    if (!overflows) {
      break;
    }
    if (overflows->empty()) {
      continue;
    }
    // Fewer sets need fewer of the further lines, among which no set is then crowded.
    std::optional<std::vector<ConflictClass>> found;
    for (std::size_t count = overflows->size(); count > 0 && !found; count /= 2) {
      const std::span<const SetOverflow> first = std::span(*overflows).first(count);
      const auto needed = loaded.begin() + static_cast<std::ptrdiff_t>(first.back().place + 1);
      Offsets lines(loaded.begin(), needed);
      found = complete(first, lines);
      if (found) {
        further.insert(further.begin(), needed, loaded.end());
        loaded = std::move(lines);
      }
    }
    if (!found) {
      break;
    }
    for (ConflictClass& set : *found) {
      const std::set<std::uint64_t> members(set.lines.begin(), set.lines.end());
      std::erase_if(resident, [&](std::uint64_t line) { return members.contains(line); });
      sets.push_back(std::move(set));
    }
  }
  further.insert(further.begin(), loaded.begin(), loaded.end());
}

// The sets with all their lines, which leave the further ones. None, and nothing leaves, when what is found does not
// hold together.
std::optional<std::vector<ConflictClass>> Partitioner::complete(std::span<const SetOverflow> overflows,
                                                                Offsets& further) {
  std::vector<Offsets> members;
  for (const SetOverflow& overflow : overflows) {
    members.push_back(overflow.lines);
  }
  const std::vector<SetOfLine> set_of_line = sets_of_lines(*device_, members, further);
  std::vector<Offsets> full = members;
  std::vector<Offsets> too_many(members.size());
  Offsets others;
  for (std::size_t i = 0; i < further.size(); ++i) {
    const auto& [kind, set] = set_of_line[i];
    if (kind == SetOfLine::Kind::of_none) {
      others.push_back(further[i]);
      continue;
    }
    if (kind != SetOfLine::Kind::of_set) {
      return std::nullopt;
    }
    members[set].push_back(further[i]);
    if (i < overflows[set].place) {
      full[set].push_back(further[i]);
    }
    if (i == overflows[set].place) {
      too_many[set] = members[set];
    }
  }
  const std::vector<bool> full_miss = conflicts_->overflows(full);
  const std::vector<bool> too_many_miss = conflicts_->overflows(too_many);
  if (std::find(full_miss.begin(), full_miss.end(), true) != full_miss.end() ||
      std::find(too_many_miss.begin(), too_many_miss.end(), false) != too_many_miss.end()) {
    return std::nullopt;
  }
  std::vector<ConflictClass> sets;
  for (std::size_t set = 0; set < members.size(); ++set) {
    sets.push_back({.lines = std::move(members[set]), .ways = static_cast<std::uint32_t>(full[set].size())});
  }
  further = std::move(others);
  return sets;
}

std::optional<ConflictClass> Partitioner::first_set(std::string& reason) {
  return extract(lines_between(0, onset_lines_ + 1), reason);
}

bool Partitioner::is_too_dear(Partition& partition) {
  const std::size_t asked = device_->accesses_asked();
  if (partition.classes.size() > sets_found_) {
    sets_found_ = partition.classes.size();
    accesses_at_last_set_ = asked;
  }
  const bool too_many = asked - accesses_before_ > most_accesses_for_all_sets;
  if (!too_many && asked - accesses_at_last_set_ <= most_accesses_without_a_set) {
    return false;
  }
  partition.complete = false;
  partition.reason = "more than " +
                     std::to_string(too_many ? most_accesses_for_all_sets : most_accesses_without_a_set) +
                     " accesses did not tell which lines share a set";
  return true;
}

Partition Partitioner::find(ConflictClass first) {
  accesses_before_ = accesses_at_last_set_ = device_->accesses_asked();
  sets_found_ = 0;
  // Where one set holds most of the contiguous lines that fit, others have room for more of those in any order.
  neighbours_crowd_ = 2 * std::size_t{first.ways} > onset_lines_;
  if (neighbours_crowd_) {
    most_chunk_lines_ = chunk_lines_ = 4 * std::size_t{first.ways};
  }
  Partition partition;
  const std::size_t window_lines =
      std::min(buffer_lines_, std::max(smallest_window_lines, 3 * onset_lines_ + onset_lines_ / 2));
  partition.window = lines_between(0, window_lines);
  Offsets resident = lines_between(0, onset_lines_);
  const std::set<std::uint64_t> members(first.lines.begin(), first.lines.end());
  std::erase_if(resident, [&](std::uint64_t line) { return members.contains(line); });
  Offsets further = lines_between(onset_lines_ + 1, window_lines);
  partition.classes.push_back(std::move(first));
  find_thrashing_sets(partition.classes, resident, further);
  std::vector<Offsets> chunks = unclaimed_chunks(partition.classes, further);
  for (Offsets& chunk : unclaimed_chunks(partition.classes, lines_far_away(window_lines))) {
    chunks.push_back(std::move(chunk));
  }
  settle(partition, resident, std::move(chunks));
  return partition;
}

// Takes all lines of the chunks to sets that are known or come out among them, beside those that are resident.
void Partitioner::settle(Partition& partition, Offsets& resident, std::vector<Offsets> chunks) {
  partition.complete = false;
  if (!assign(partition, resident, chunks)) {
    return;
  }
  // Some of the many decisions on lines may have overlooked one, which then stays among those that fit: of a line that
  // hardly ever misses, as under policies that let most lines stay, one in ten or so does.
  constexpr int claims = 3;
  for (int time = 0; time < claims && !resident.empty(); ++time) {
    claim(partition.classes, resident);
  }
  claim_by_laps(partition.classes, resident);
  if (Offsets wrong = wrongly_claimed(partition.classes); !wrong.empty()) {
    chunks = in_fitting_chunks(std::move(wrong));
    if (!assign(partition, resident, chunks)) {
      return;
    }
  }
  // Sets with more ways than the window has lines for them show up further out.
  while (!resident.empty() && partition.window.size() < buffer_lines_) {
    chunks = further_chunks(partition, partition.window.size() + partition.window.size() / 2, resident);
    if (is_too_dear(partition) || !assign(partition, resident, chunks)) {
      return;
    }
  }
  partition.complete = resident.empty();
  if (!partition.complete) {
    partition.reason = std::to_string(resident.size()) +
                       " lines never met a conflict: the sets they map to hold more lines than the buffer has for them";
  }
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
  for (std::size_t next = 0; next < chunks.size(); ++next) {
    if (is_too_dear(partition)) {
      return false;
    }
    if (Offsets wrong = wrongly_claimed(partition.classes); !wrong.empty()) {
      std::ranges::move(in_fitting_chunks(std::move(wrong)), std::back_inserter(chunks));
    }
    Offsets& chunk = chunks[next];
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
  std::vector<Offsets> chunks = unclaimed_chunks(partition.classes, {unassigned.begin(), unassigned.end()});
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
  accesses_at_last_set_ = device_->accesses_asked();
  std::vector<Offsets> chunks = further_chunks(partition, lines, {});
  // Of so many decisions on lines one may have been wrong.
  for (Offsets& chunk : chunks) {
    if (partition.complete && !chunk.empty()) {
      claim(partition.classes, chunk);
    }
  }
  std::ranges::move(in_fitting_chunks(wrongly_claimed(partition.classes)), std::back_inserter(chunks));
  // What is left is of sets of which the window had too few lines.
  std::erase_if(chunks, &Offsets::empty);
  if (partition.complete && !chunks.empty()) {
    Offsets resident;
    settle(partition, resident, std::move(chunks));
  }
}

}  // namespace gpuinfer::infer
