// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/policy/set_explorer.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "model/errors.hpp"

namespace gpuinfer::infer {

namespace {

// More than rare errors of an answer that was voted on: so many, and this share of the accesses.
constexpr std::size_t few_contradictions = 1;
constexpr double rare_errors = 1e-5;

// For one word, before its set is held to be none: a wrong claim, a look at all ways and the proof take three.
constexpr unsigned most_attempts = 9;

constexpr const char* contradicts = "the same accesses do not always miss alike, so this is no machine";

}  // namespace

SetWord joined(SetWord first, const SetWord& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

bool is_beginning(const std::vector<std::uint32_t>& part, const std::vector<std::uint32_t>& of) {
  return part.size() <= of.size() && std::equal(part.begin(), part.end(), of.begin());
}

// The accesses of a claim, and what they must answer if it is right.
struct SetExplorer::Sequence {
  std::vector<std::uint32_t> lines;
  std::vector<bool> misses;                        // as claimed, by access
  std::vector<std::optional<std::uint32_t>> ways;  // that is hit, as claimed, by access
  std::vector<std::size_t> replacements;           // misses on the full set, as places in `lines`
};

struct SetExplorer::Inquiry {
  VictimClaim claim;
  LastVictim last = LastVictim::is_any;
  VictimClaim asking;  // the claim, or a part of it with another last victim
  LastVictim asking_last = LastVictim::is_any;
  bool saw_victim = false;  // the last victim of `asking` comes from an answer
  bool is_doubted = false;  // by an answer since the last one that was as asked
  bool is_noted = false;    // as a contradiction, since then
  bool is_settled = false;
  unsigned attempts = 0;
  std::string trouble = contradicts;
};

SetExplorer::SetExplorer(const SetOracle& oracle, std::uint32_t ways, std::size_t lines_available,
                         std::size_t most_accesses, Learning& cost)
    : oracle_(&oracle), ways_(ways), lines_available_(lines_available), most_accesses_(most_accesses), cost_(&cost) {
  if (ways == 0) {
    throw InputError("ways: is 0; give 1 or more");
  }
  if (lines_available <= ways) {
    throw NothingLearned("there are " + std::to_string(lines_available) + " lines for a set of " +
                         std::to_string(ways) + " ways, and one more than ways is needed");
  }
}

std::uint32_t SetExplorer::filled_after(const SetWord& word) const {
  const auto misses = std::count(word.begin(), word.end(), miss());
  return static_cast<std::uint32_t>(std::min<std::ptrdiff_t>(misses, ways_));
}

std::vector<std::vector<bool>> SetExplorer::ask(const std::vector<std::vector<std::uint32_t>>& sequences) {
  const std::size_t accesses = std::accumulate(sequences.begin(), sequences.end(), std::size_t{0},
                                               [](std::size_t sum, const auto& each) { return sum + each.size(); });
  if (accesses > accesses_left()) {
    throw NothingLearned("more than " + std::to_string(most_accesses_) + " accesses would be needed");
  }
  cost_->accesses += accesses;
  cost_->sequences += sequences.size();
  ++cost_->round_trips;
  return (*oracle_)(sequences);
}

void SetExplorer::note_contradiction() {
  ++contradictions_;
  if (contradictions_ > few_contradictions &&
      static_cast<double>(contradictions_) > rare_errors * static_cast<double>(cost_->accesses)) {
    throw SetDoesNotRepeat(contradicts);
  }
}

SetExplorer::Sequence SetExplorer::sequence_of(const VictimClaim& claim, LastVictim last) const {
  Sequence sequence;
  std::vector<std::uint32_t> line_in;
  std::uint32_t absent = ways_;
  const auto access = [&](std::uint32_t line, std::optional<std::uint32_t> way) {
    sequence.lines.push_back(line);
    sequence.misses.push_back(!way.has_value());
    sequence.ways.push_back(way);
  };
  for (const std::uint32_t input : claim.word) {
    if (input != miss()) {
      access(line_in[input], input);
    } else if (line_in.size() < ways_) {
      line_in.push_back(static_cast<std::uint32_t>(line_in.size()));
      access(line_in.back(), std::nullopt);
    } else {
      sequence.replacements.push_back(sequence.lines.size());
      access(absent, std::nullopt);
      std::swap(absent, line_in[claim.victims[sequence.replacements.size() - 1]]);
    }
  }
  if (!sequence.replacements.empty()) {
    // The claimed victim comes last: a single wrong answer then never makes another claim look right.
    for (std::uint32_t way = 0; last == LastVictim::is_any && way < ways_; ++way) {
      if (way != claim.victims.back()) {
        access(line_in[way], way);
      }
    }
    access(absent, std::nullopt);
  }
  return sequence;
}

std::optional<std::uint32_t> SetExplorer::next_known(std::uint32_t node, std::uint32_t input) const {
  for (const std::uint32_t next : known_[node].next) {
    if (known_[next].input == input) {
      return next;
    }
  }
  return std::nullopt;
}

void SetExplorer::remember(const VictimClaim& claim) {
  std::uint32_t node = 0;
  std::size_t replacements = 0;
  for (const std::uint32_t input : claim.word) {
    const std::uint32_t filled = known_[node].filled;
    const bool replaces = input == miss() && filled == ways_;
    const std::optional<std::uint32_t> next = next_known(node, input);
    if (next) {
      node = *next;
    } else {
      const auto added = static_cast<std::uint32_t>(known_.size());
      known_.push_back({.input = input, .victim = {}, .filled = filled, .next = {}});
      known_[added].filled += input == miss() && !replaces ? 1U : 0U;
      if (replaces) {
        known_[added].victim = claim.victims[replacements];
      }
      known_[node].next.push_back(added);
      node = added;
    }
    replacements += replaces ? 1U : 0U;
  }
}

Victims SetExplorer::known_victims(const SetWord& word) const {
  Victims victims;
  std::uint32_t node = 0;
  for (const std::uint32_t input : word) {
    const std::optional<std::uint32_t> next = next_known(node, input);
    if (!next) {
      break;
    }
    node = *next;
    if (known_[node].victim) {
      victims.push_back(*known_[node].victim);
    }
  }
  return victims;
}

// Whether enough is known, and what to ask next if not.
void SetExplorer::settle(Inquiry& inquiry) const {
  const Victims known = known_victims(inquiry.claim.word);
  const auto [known_end, claimed_end] =
      std::mismatch(known.begin(), known.end(), inquiry.claim.victims.begin(), inquiry.claim.victims.end());
  inquiry.is_settled = known_end != known.end() || claimed_end == inquiry.claim.victims.end();
  inquiry.asking = inquiry.claim;
  inquiry.asking_last = inquiry.last;
  inquiry.saw_victim = false;
}

void SetExplorer::judge(Inquiry& inquiry, const Sequence& sequence, const std::vector<bool>& missed) {
  const auto place = static_cast<std::size_t>(
      std::mismatch(sequence.misses.begin(), sequence.misses.end(), missed.begin(), missed.end()).first -
      sequence.misses.begin());
  if (place == sequence.lines.size()) {
    remember(inquiry.asking);
    settle(inquiry);
    const Victims& claimed = inquiry.claim.victims;
    const Victims known = known_victims(inquiry.claim.word);
    const bool is_right = std::equal(known.begin(), known.end(), claimed.begin(),
                                     claimed.begin() + static_cast<std::ptrdiff_t>(known.size()));
    if (inquiry.is_doubted && is_right && !inquiry.is_noted) {
      note_contradiction();
    }
    inquiry.is_doubted = inquiry.is_noted = false;
    return;
  }
  ++inquiry.attempts;
  inquiry.is_doubted = true;
  const auto after = std::lower_bound(sequence.replacements.begin(), sequence.replacements.end(), place);
  const auto doubted = static_cast<std::size_t>(after - sequence.replacements.begin());  // its last one is wrong
  const Victims known = known_victims(inquiry.asking.word);
  const bool is_known = known.size() >= doubted;  // by now, from other inquiries perhaps
  if (doubted == 0) {
    inquiry.trouble = "a set with free ways does not keep its lines, or hits one that it never had";
  } else if (is_known ? known[doubted - 1] == inquiry.asking.victims[doubted - 1] : inquiry.saw_victim) {
    inquiry.is_noted = true;
    note_contradiction();
  }
  if (inquiry.attempts == most_attempts) {
    throw SetDoesNotRepeat(inquiry.trouble);
  }
  if (is_known) {
    settle(inquiry);
    return;
  }
  const std::uint32_t wrong = inquiry.asking.victims[doubted - 1];
  std::optional<std::uint32_t> seen = sequence.ways[place];
  if (seen == wrong) {
    seen.reset();  // the line that came in is what is not there
  }
  inquiry.trouble = seen ? contradicts : "a miss on the full set replaces no line of it";
  inquiry.asking.word.resize(sequence.replacements[doubted - 1] + 1);
  inquiry.asking.victims.resize(doubted);
  inquiry.asking.victims.back() = seen ? *seen : (wrong + 1) % ways_;
  inquiry.asking_last = LastVictim::is_any;
  inquiry.saw_victim = seen.has_value();
}

bool SetExplorer::examine(const std::vector<VictimClaim>& claims, LastVictim last) {
  std::vector<Inquiry> open;
  for (const VictimClaim& claim : claims) {
    open.push_back({.claim = claim, .last = last, .asking = {}});
  }
  while (true) {
    for (Inquiry& inquiry : open) {
      if (inquiry.asking.word.empty()) {
        settle(inquiry);
      }
    }
    std::erase_if(open, [](const Inquiry& inquiry) { return inquiry.is_settled; });
    if (open.empty()) {
      break;
    }
    std::vector<Sequence> sequences;
    std::vector<std::vector<std::uint32_t>> lines;
    for (const Inquiry& inquiry : open) {
      sequences.push_back(sequence_of(inquiry.asking, inquiry.asking_last));
      lines.push_back(sequences.back().lines);
    }
    const std::vector<std::vector<bool>> missed = ask(lines);
    for (std::size_t i = 0; i < open.size(); ++i) {
      judge(open[i], sequences[i], missed.at(i));
    }
  }
  return std::all_of(claims.begin(), claims.end(),
                     [&](const VictimClaim& claim) { return known_victims(claim.word) == claim.victims; });
}

Victims SetExplorer::victims(const SetWord& word, const Victims& guesses) {
  const std::uint32_t filling = filled_after(word);
  const auto misses = static_cast<std::size_t>(std::count(word.begin(), word.end(), miss()));
  Victims victims = known_victims(word);
  while (victims.size() < misses - filling) {
    for (std::size_t miss = victims.size(); miss < misses - filling; ++miss) {
      victims.push_back(miss < guesses.size() ? guesses[miss] : 0);
    }
    examine({{.word = word, .victims = victims}}, LastVictim::is_any);
    victims = known_victims(word);
  }
  return victims;
}

}  // namespace gpuinfer::infer
