// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/recordings/trace_partition.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "infer/cache/index_fit.hpp"

namespace gpuinfer::infer {

namespace {

using model::Measured;

// Loads of fills by their number, with links to the fill loaded before and after: what was loaded since the last load
// of a fill stands in front of it.
class RecencyList {
 public:
  explicit RecencyList(std::size_t fills) : before_(fills + 1), after_(fills + 1), is_in_(fills), head_(fills) {
    before_[head_] = after_[head_] = head_;
  }

  [[nodiscard]] bool contains(std::size_t fill) const { return is_in_[fill]; }
  [[nodiscard]] std::size_t first() const { return after_[head_]; }
  [[nodiscard]] std::size_t next(std::size_t fill) const { return after_[fill]; }

  void move_to_front(std::size_t fill) {
    if (is_in_[fill]) {
      after_[before_[fill]] = after_[fill];
      before_[after_[fill]] = before_[fill];
    }
    is_in_[fill] = true;
    after_[fill] = after_[head_];
    before_[fill] = head_;
    before_[after_[fill]] = fill;
    after_[head_] = fill;
  }

 private:
  std::vector<std::size_t> before_;
  std::vector<std::size_t> after_;
  std::vector<bool> is_in_;
  std::size_t head_;
};

// Calls visit(fill, others that came between its last load and this one, whether it missed) for every load that was
// judged. Of the others, those alone that were not seen to hit since: what hits drives nothing out. Ends early when
// `stop` says so, which is asked every few milliseconds.
template <class Visit>
void for_each_return(const Played& played, const std::vector<std::uint32_t>& fill_of, std::size_t fills,
                     const std::function<bool()>& stop, const Visit& visit) {
  constexpr std::size_t loads_between_stops = 4096;
  RecencyList order(fills);
  std::vector<std::size_t> last_load(fills);
  std::vector<std::size_t> last_miss(fills);  // place + 1
  std::vector<std::uint32_t> between;
  for (std::size_t i = 0; i < fill_of.size(); ++i) {
    if (i % loads_between_stops == 0 && stop()) {
      return;
    }
    const std::uint32_t fill = fill_of[i];
    if (order.contains(fill) && played.measured[i] != Measured::unclear) {
      between.clear();
      for (std::size_t other = order.first(); other != fill; other = order.next(other)) {
        if (last_miss[other] > last_load[fill] + 1) {
          between.push_back(static_cast<std::uint32_t>(other));
        }
      }
      visit(fill, between, played.measured[i] == Measured::miss);
    }
    if (played.measured[i] != Measured::hit) {
      last_miss[fill] = i + 1;
    }
    last_load[fill] = i;
    order.move_to_front(fill);
  }
}

// A load of a fill that had been loaded before.
struct Return {
  std::uint32_t fill = 0;
  std::size_t between = 0;  // others that came between
  bool missed = false;
};

// How far into each recording pairs of fills are looked at: those that come between two loads of a fill are as many as
// fills in the end, so the work grows with loads times fills. Beyond so much work recordings are only looked at where
// they load fills that no other one did.
std::vector<std::size_t> lengths_looked_at(const std::vector<std::vector<std::uint32_t>>& fill_of, std::size_t fills) {
  constexpr std::size_t most_visits = 1'000'000'000;
  std::vector<bool> is_seen(fills);
  std::vector<std::size_t> lengths;
  std::size_t visits = 0;
  for (const std::vector<std::uint32_t>& recording : fill_of) {
    std::vector<bool> is_here(fills);
    std::size_t here = 0;
    bool has_others = false;
    for (const std::uint32_t fill : recording) {
      here += is_here[fill] ? 0U : 1U;
      has_others = has_others || !is_seen[fill];
      is_here[fill] = true;
      is_seen[fill] = true;
    }
    const std::size_t visits_per_load = here / 2 + 1;
    const std::size_t room = std::max(most_visits - std::min(visits, most_visits), has_others ? most_visits / 16 : 0);
    lengths.push_back(std::min(recording.size(), room / visits_per_load));
    visits += lengths.back() * visits_per_load;
  }
  return lengths;
}

double odds_to_share(double log_odds) { return 1 / (1 + std::exp(-log_odds)); }

// The chance of a miss for each return, by how many others came between and by the fill itself, whose set may have few
// ways or many lines, but not by which others came.
std::vector<double> expected_misses(const std::vector<Return>& returns, std::size_t fills) {
  std::vector<double> seen(fills + 1);
  std::vector<double> missed(fills + 1);
  for (const Return& back : returns) {
    seen[back.between] += 1;
    missed[back.between] += back.missed ? 1 : 0;
  }
  // Of neighbours as well where few were seen.
  constexpr double enough = 100;
  std::vector<double> log_odds(fills + 1);
  for (std::size_t i = 0; i <= fills; ++i) {
    double all = seen[i];
    double misses = missed[i];
    for (std::size_t reach = 1; reach <= fills && all < enough; ++reach) {
      for (const std::size_t j : {i - std::min(i, reach), i + reach}) {
        if (j <= fills && (j > 0 || i >= reach)) {
          all += seen[j];
          misses += missed[j];
        }
      }
    }
    log_odds[i] = std::log((misses + 0.5) / (all - misses + 0.5));
  }
  std::vector<double> of_fill(fills);
  constexpr int newton_steps = 5;
  for (int step = 0; step < newton_steps; ++step) {
    std::vector<double> excess(fills);
    std::vector<double> variance(fills, 1);
    for (const Return& back : returns) {
      const double share = odds_to_share(log_odds[back.between] + of_fill[back.fill]);
      excess[back.fill] += (back.missed ? 1 : 0) - share;
      variance[back.fill] += share * (1 - share);
    }
    for (std::size_t fill = 0; fill < fills; ++fill) {
      of_fill[fill] += std::clamp(excess[fill] / variance[fill], -1.0, 1.0);
    }
  }
  std::vector<double> expected;
  for (const Return& back : returns) {
    expected.push_back(odds_to_share(log_odds[back.between] + of_fill[back.fill]));
  }
  return expected;
}

// Sums of excess and variance over pairs.
struct Tally {
  double excess = 0;
  double variance = 0;

  void add(const Tally& other) {
    excess += other.excess;
    variance += other.variance;
  }
  void take(const Tally& other) {
    excess -= other.excess;
    variance -= other.variance;
  }
  [[nodiscard]] double effect() const { return variance > 0 ? excess / variance : 0; }
  // What the best constant effect of these pairs explains, in nats.
  [[nodiscard]] double explained() const { return variance > 0 ? excess * excess / (2 * variance) : 0; }
};

// Likelihood of pairs within sets having one effect and all others another one; nothing when those within do not
// conflict more.
double support_of(const Tally& within, const Tally& all) {
  Tally across = all;
  across.take(within);
  return within.effect() > std::max(0.0, across.effect()) ? within.explained() + across.explained() : 0;
}

// All pairs of lines.
class PairTable {
 public:
  PairTable(std::vector<std::uint64_t> lines, std::uint64_t line_bytes)
      : lines_(std::move(lines)), line_bytes_(line_bytes), pairs_(lines_.size() * lines_.size()) {}

  void add(std::size_t x, std::size_t z, const Tally& tally) {
    if (x != z) {
      at(x, z).add(tally);
      at(z, x).add(tally);
      all_.add(tally);
    }
  }

  [[nodiscard]] std::size_t size() const { return lines_.size(); }
  [[nodiscard]] std::uint64_t line_bytes() const { return line_bytes_; }
  [[nodiscard]] const std::vector<std::uint64_t>& lines() const { return lines_; }
  [[nodiscard]] const Tally& pair(std::size_t x, std::size_t z) const { return pairs_[x * lines_.size() + z]; }
  [[nodiscard]] const Tally& all() const { return all_; }

  [[nodiscard]] Tally within(const std::vector<std::uint32_t>& set_of) const {
    Tally sum;
    for (std::size_t x = 0; x < size(); ++x) {
      for (std::size_t z = 0; z < x; ++z) {
        if (set_of[x] == set_of[z]) {
          sum.add(pair(x, z));
        }
      }
    }
    return sum;
  }

  [[nodiscard]] LineSplit split(const std::vector<std::uint64_t>& name_of_set) const {
    LineSplit split{.lines = lines_, .set_of = {}, .support = 0};
    std::unordered_map<std::uint64_t, std::uint32_t> number_of;
    for (const std::uint64_t name : name_of_set) {
      split.set_of.push_back(number_of.emplace(name, static_cast<std::uint32_t>(number_of.size())).first->second);
    }
    split.support = support_of(within(split.set_of), all_);
    return split;
  }

 private:
  Tally& at(std::size_t x, std::size_t z) { return pairs_[x * lines_.size() + z]; }

  std::vector<std::uint64_t> lines_;
  std::uint64_t line_bytes_;
  std::vector<Tally> pairs_;
  Tally all_;
};

// Rows of pairs are soon done with, and to look may take as long as an answer of other machines.
void look_at(std::size_t row, const std::function<void()>& at_times) {
  constexpr std::size_t rows_between = 64;
  if (row % rows_between == 0) {
    at_times();
  }
}

// Under a GF(2)-linear index the difference of two lines decides whether they share a set, and the differences of those
// that do are a space. It is grown from the difference that conflicts most, a dimension at a time, as long as that
// explains more.
class LinearSplits {
 public:
  LinearSplits(const PairTable& pairs, const std::function<void()>& at_times)
      : pairs_(&pairs), at_times_(&at_times), bits_(exercised_bits(pairs.lines())) {}

  void add_to(std::vector<LineSplit>& splits) {
    constexpr std::size_t most_bits = 16;
    constexpr std::size_t most_starts = 6;
    if (bits_.empty() || bits_.size() > most_bits) {
      return;
    }
    of_difference_.resize(std::size_t{1} << bits_.size());
    for (std::size_t x = 0; x < pairs_->size(); ++x) {
      look_at(x, *at_times_);
      for (std::size_t z = 0; z < x; ++z) {
        of_difference_[coordinates(pairs_->lines()[x] ^ pairs_->lines()[z])].add(pairs_->pair(x, z));
      }
    }
    std::vector<std::size_t> starts(of_difference_.size() - 1);
    std::iota(starts.begin(), starts.end(), std::size_t{1});
    const std::size_t count = std::min(most_starts, starts.size());
    std::partial_sort(starts.begin(), starts.begin() + static_cast<std::ptrdiff_t>(count), starts.end(),
                      [this](std::size_t a, std::size_t b) {
                        return signed_explained(of_difference_[a]) > signed_explained(of_difference_[b]);
                      });
    starts.resize(count);
    for (const std::size_t start : starts) {
      (*at_times_)();
      grow_from(start, splits);
    }
  }

 private:
  [[nodiscard]] std::size_t coordinates(std::uint64_t difference) const {
    std::size_t packed = 0;
    for (std::size_t i = 0; i < bits_.size(); ++i) {
      packed |= static_cast<std::size_t>((difference >> bits_[i]) & 1U) << i;
    }
    return packed;
  }

  [[nodiscard]] static double signed_explained(const Tally& tally) {
    return tally.excess > 0 ? tally.explained() : -tally.explained();
  }

  // coset_of[d]: the least difference that differs from d by one of the space.
  static void join(std::vector<std::size_t>& coset_of, std::size_t difference) {
    const std::size_t one = coset_of[difference];
    const auto highest = std::bit_floor(one);
    for (std::size_t& coset : coset_of) {
      coset = (coset & highest) != 0 ? coset_of_sum(coset, one) : coset;
    }
  }
  static std::size_t coset_of_sum(std::size_t coset, std::size_t one) { return coset ^ one; }

  void grow_from(std::size_t start, std::vector<LineSplit>& splits) const {
    std::vector<std::size_t> coset_of(of_difference_.size());
    std::iota(coset_of.begin(), coset_of.end(), std::size_t{0});
    join(coset_of, start);
    double best_so_far = 0;
    for (std::size_t rank = 1; rank < bits_.size(); ++rank) {
      std::vector<Tally> of_coset(of_difference_.size());
      for (std::size_t d = 0; d < of_difference_.size(); ++d) {
        of_coset[coset_of[d]].add(of_difference_[d]);
      }
      best_so_far = support_of(of_coset[0], pairs_->all());
      double best = 0;
      std::size_t best_coset = 0;
      for (std::size_t coset = 1; coset < of_coset.size(); ++coset) {
        if (of_coset[coset].excess > 0) {
          Tally larger = of_coset[0];
          larger.add(of_coset[coset]);
          const double support = support_of(larger, pairs_->all());
          if (support > best) {
            best = support;
            best_coset = coset;
          }
        }
      }
      if (best <= best_so_far) {
        break;
      }
      join(coset_of, best_coset);
    }
    std::vector<std::uint64_t> names;
    for (const std::uint64_t line : pairs_->lines()) {
      names.push_back(coset_of[coordinates(line ^ pairs_->lines().front())]);
    }
    splits.push_back(pairs_->split(names));
  }

  const PairTable* pairs_;
  const std::function<void()>* at_times_;
  std::vector<unsigned> bits_;
  std::vector<Tally> of_difference_;
};

// Other numbers of sets than powers of two, in granules of one line or a power of two of them.
void add_modulo_splits(const PairTable& pairs, const std::function<void()>& at_times, std::vector<LineSplit>& splits) {
  constexpr std::size_t most_visits = 60'000'000;
  constexpr std::uint64_t largest_granule_lines = 16;
  const std::size_t most_sets =
      std::min(pairs.size() / 2, most_visits / std::max<std::size_t>(1, 2 * pairs.size() * pairs.size()));
  std::optional<LineSplit> best;
  for (std::uint64_t granule = 1; granule <= largest_granule_lines; granule *= 2) {
    for (std::uint64_t sets = 3; sets <= most_sets; ++sets) {
      if (std::has_single_bit(sets)) {
        continue;
      }
      at_times();
      std::vector<std::uint64_t> names;
      for (const std::uint64_t line : pairs.lines()) {
        names.push_back(line / pairs.line_bytes() / granule % sets);
      }
      LineSplit split = pairs.split(names);
      if (!best || split.support > best->support) {
        best = std::move(split);
      }
    }
  }
  if (best) {
    splits.push_back(std::move(*best));
  }
}

// Lines joined to clusters, the pair of clusters first whose lines conflict most, then moved one by one to where they
// fit better.
class Clusters {
 public:
  Clusters(const PairTable& pairs, const std::function<void()>& at_times)
      : pairs_(&pairs), at_times_(&at_times), lines_(pairs.size()) {}

  void add_to(std::vector<LineSplit>& splits) {
    estimate_effects();
    if (within_ <= across_) {
      return;
    }
    join_clusters();
    for (int round = 0; round < 3; ++round) {
      move_lines();
      const Tally within = pairs_->within(cluster_of_);
      Tally across = pairs_->all();
      across.take(within);
      if (within.effect() <= across.effect()) {
        return;
      }
      within_ = within.effect();
      across_ = across.effect();
    }
    splits.push_back(pairs_->split({cluster_of_.begin(), cluster_of_.end()}));
  }

 private:
  // Nats in favour of the two sharing a set.
  [[nodiscard]] double in_favour(const Tally& pair) const {
    return (within_ - across_) * pair.excess - (within_ * within_ - across_ * across_) * pair.variance / 2;
  }

  // Expectation maximization over two kinds of pairs.
  void estimate_effects() {
    std::vector<double> strongest;
    for (std::size_t x = 0; x < lines_; ++x) {
      double most = 0;
      for (std::size_t z = 0; z < lines_; ++z) {
        most = std::max(most, x == z || pairs_->pair(x, z).variance < 1 ? 0.0 : pairs_->pair(x, z).effect());
      }
      strongest.push_back(most);
    }
    if (strongest.empty()) {
      return;
    }
    std::nth_element(strongest.begin(), strongest.begin() + static_cast<std::ptrdiff_t>(strongest.size() / 2),
                     strongest.end());
    within_ = strongest[strongest.size() / 2] / 2;
    double share = 0.1;
    for (int round = 0; round < 25; ++round) {
      Tally within;
      Tally all;
      double members = 0;
      double pairs = 0;
      for (std::size_t x = 0; x < lines_; ++x) {
        look_at(x, *at_times_);
        for (std::size_t z = 0; z < x; ++z) {
          const Tally& pair = pairs_->pair(x, z);
          const double odds = share / (1 - share) * std::exp(std::clamp(in_favour(pair), -50.0, 50.0));
          const double weight = odds / (1 + odds);
          within.add({.excess = weight * pair.excess, .variance = weight * pair.variance});
          all.add(pair);
          members += weight;
          pairs += 1;
        }
      }
      Tally across = all;
      across.take(within);
      within_ = within.effect();
      across_ = across.effect();
      share = std::clamp(members / std::max(1.0, pairs), 0.002, 0.5);
    }
  }

  void join_clusters() {
    cluster_of_.resize(lines_);
    std::iota(cluster_of_.begin(), cluster_of_.end(), 0U);
    std::vector<float> favour(lines_ * lines_);
    for (std::size_t x = 0; x < lines_; ++x) {
      for (std::size_t z = 0; z < lines_; ++z) {
        favour[x * lines_ + z] = x == z ? 0.0F : static_cast<float>(in_favour(pairs_->pair(x, z)));
      }
    }
    std::vector<double> size(lines_, 1);
    std::vector<bool> is_alive(lines_, true);
    std::vector<std::size_t> best_of(lines_);
    const auto mean = [&](std::size_t a, std::size_t b) {
      return favour[a * lines_ + b] / std::sqrt(size[a] * size[b]);
    };
    const auto find_best = [&](std::size_t a) {
      best_of[a] = a;
      double best = 0;
      for (std::size_t b = 0; b < lines_; ++b) {
        if (is_alive[b] && b != a && mean(a, b) > best) {
          best = mean(a, b);
          best_of[a] = b;
        }
      }
    };
    for (std::size_t a = 0; a < lines_; ++a) {
      find_best(a);
    }
    while (true) {
      (*at_times_)();
      std::size_t first = lines_;
      for (std::size_t a = 0; a < lines_; ++a) {
        if (is_alive[a] && best_of[a] != a && (first == lines_ || mean(a, best_of[a]) > mean(first, best_of[first]))) {
          first = a;
        }
      }
      if (first == lines_) {
        return;
      }
      const std::size_t second = best_of[first];
      is_alive[second] = false;
      size[first] += size[second];
      for (std::size_t other = 0; other < lines_; ++other) {
        favour[first * lines_ + other] += favour[second * lines_ + other];
        favour[other * lines_ + first] = favour[first * lines_ + other];
        if (cluster_of_[other] == second) {
          cluster_of_[other] = static_cast<std::uint32_t>(first);
        }
      }
      for (std::size_t a = 0; a < lines_; ++a) {
        if (is_alive[a] && (a == first || best_of[a] == first || best_of[a] == second)) {
          find_best(a);
        } else if (is_alive[a] && mean(a, first) > (best_of[a] == a ? 0.0 : mean(a, best_of[a]))) {
          best_of[a] = first;
        }
      }
    }
  }

  void move_lines() {
    for (int round = 0; round < 20; ++round) {
      bool moved = false;
      for (std::size_t x = 0; x < lines_; ++x) {
        look_at(x, *at_times_);
        std::map<std::uint32_t, double> favour_of;
        for (std::size_t z = 0; z < lines_; ++z) {
          if (z != x) {
            favour_of[cluster_of_[z]] += in_favour(pairs_->pair(x, z));
          }
        }
        const auto best = std::max_element(favour_of.begin(), favour_of.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
        if (best != favour_of.end() && best->first != cluster_of_[x] && best->second > 0 &&
            best->second > favour_of[cluster_of_[x]] + 1e-9) {
          cluster_of_[x] = best->first;
          moved = true;
        }
      }
      if (!moved) {
        return;
      }
    }
  }

  const PairTable* pairs_;
  const std::function<void()>* at_times_;
  std::size_t lines_;
  double within_ = 0;
  double across_ = 0;
  std::vector<std::uint32_t> cluster_of_;
};

}  // namespace

std::uint32_t LineSplit::sets() const {
  return set_of.empty() ? 0 : *std::max_element(set_of.begin(), set_of.end()) + 1;
}

std::vector<std::vector<std::uint64_t>> LineSplit::lines_of_sets() const {
  std::vector<std::vector<std::uint64_t>> of_sets(sets());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    of_sets[set_of[i]].push_back(lines[i]);
  }
  return of_sets;
}

ConflictScores::ConflictScores(std::span<const Played> recordings, std::uint64_t fill_bytes,
                               const std::function<bool()>& stop)
    : fill_bytes_(fill_bytes) {
  std::unordered_set<std::uint64_t> distinct;
  for (const Played& played : recordings) {
    for (const std::uint64_t address : played.addresses) {
      distinct.insert(address / fill_bytes);
    }
  }
  fills_.assign(distinct.begin(), distinct.end());
  std::sort(fills_.begin(), fills_.end());
  if (fills_.size() > most_fills) {
    return;
  }
  const std::size_t count = fills_.size();
  std::vector<std::vector<std::uint32_t>> fill_of;
  for (const Played& played : recordings) {
    std::vector<std::uint32_t>& numbers = fill_of.emplace_back();
    for (const std::uint64_t address : played.addresses) {
      const auto place = std::lower_bound(fills_.begin(), fills_.end(), address / fill_bytes);
      numbers.push_back(static_cast<std::uint32_t>(place - fills_.begin()));
    }
  }
  const std::vector<std::size_t> lengths = lengths_looked_at(fill_of, count);
  std::vector<Return> returns;
  for (std::size_t r = 0; r < recordings.size(); ++r) {
    fill_of[r].resize(lengths[r]);
    for_each_return(recordings[r], fill_of[r], count, stop,
                    [&](std::uint32_t fill, const std::vector<std::uint32_t>& between, bool missed) {
                      returns.push_back({.fill = fill, .between = between.size(), .missed = missed});
                    });
  }
  if (stop()) {
    return;
  }
  const std::vector<double> expected = expected_misses(returns, count);
  excess_.resize(count * count);
  variance_.resize(count * count);
  std::size_t next = 0;
  for (std::size_t r = 0; r < recordings.size(); ++r) {
    for_each_return(recordings[r], fill_of[r], count, stop,
                    [&](std::uint32_t fill, const std::vector<std::uint32_t>& between, bool missed) {
                      const double share = expected[next++];
                      const auto excess = static_cast<float>((missed ? 1.0 : 0.0) - share);
                      const auto variance = static_cast<float>(share * (1 - share));
                      for (const std::uint32_t other : between) {
                        excess_[fill * count + other] += excess;
                        variance_[fill * count + other] += variance;
                      }
                    });
  }
  if (stop()) {
    excess_.clear();
  }
}

std::vector<LineSplit> ConflictScores::guess_splits(std::uint64_t line_bytes, std::size_t most,
                                                    const std::function<void()>& at_times) const {
  if (excess_.empty()) {
    return {};
  }
  const std::uint64_t fills_per_line = line_bytes / fill_bytes_;
  std::vector<std::uint64_t> lines;
  std::vector<std::size_t> line_of;
  for (const std::uint64_t fill : fills_) {
    const std::uint64_t line = fill / fills_per_line * line_bytes;
    if (lines.empty() || lines.back() != line) {
      lines.push_back(line);
    }
    line_of.push_back(lines.size() - 1);
  }
  PairTable pairs(std::move(lines), line_bytes);
  for (std::size_t x = 0; x < fills_.size(); ++x) {
    for (std::size_t z = 0; z < fills_.size(); ++z) {
      pairs.add(line_of[x], line_of[z],
                {.excess = excess_[x * fills_.size() + z], .variance = variance_[x * fills_.size() + z]});
    }
  }
  std::vector<LineSplit> splits{pairs.split(std::vector<std::uint64_t>(pairs.size()))};  // one set
  LinearSplits(pairs, at_times).add_to(splits);
  add_modulo_splits(pairs, at_times, splits);
  Clusters(pairs, at_times).add_to(splits);
  // One set has what is common to all pairs; a split is worth what it explains beyond that. Clusters are adapted to
  // chance, so how much they explain says nothing about others.
  const double common = splits.front().support;
  constexpr double notable_nats = 20;
  const auto is_notable = [&](const LineSplit& split) { return split.support - common > notable_nats; };
  if (std::any_of(splits.begin(), splits.end(), is_notable)) {
    std::erase_if(splits, [&](const LineSplit& split) { return split.sets() > 1 && !is_notable(split); });
  }
  std::stable_sort(splits.begin(), splits.end(),
                   [](const LineSplit& a, const LineSplit& b) { return a.support > b.support; });
  std::vector<LineSplit> different;
  for (LineSplit& split : splits) {
    const bool is_new = std::none_of(different.begin(), different.end(),
                                     [&](const LineSplit& other) { return other.set_of == split.set_of; });
    if (is_new && (different.size() + 1 < most || (different.size() < most && split.sets() == 1))) {
      different.push_back(std::move(split));
    }
  }
  return different;
}

}  // namespace gpuinfer::infer
