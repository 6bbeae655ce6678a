// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/naive_policies.hpp"

#include <algorithm>
#include <functional>
#include <list>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>

namespace gpuinfer::oracle {
namespace {

using model::Replacement;
using Numbers = std::vector<double>;
using Lists = std::vector<std::vector<double>>;

template <class T>
const T& parameter(const Replacement& replacement, const std::string& name) {
  return std::get<T>(replacement.parameters.at(name));
}

template <class T>
T parameter_or(const Replacement& replacement, const std::string& name, T otherwise) {
  return replacement.parameters.contains(name) ? parameter<T>(replacement, name) : otherwise;
}

bool flag_or(const Replacement& replacement, const std::string& name, bool otherwise) {
  return parameter_or<std::string>(replacement, name, otherwise ? "true" : "false") == "true";
}

std::uint64_t number_or(const Replacement& replacement, const std::string& name, std::int64_t otherwise) {
  return static_cast<std::uint64_t>(parameter_or<std::int64_t>(replacement, name, otherwise));
}

std::vector<Way> as_ways(const Numbers& numbers) { return {numbers.begin(), numbers.end()}; }

// The lowest way for which the condition holds.
std::optional<Way> lowest(Way ways, const std::function<bool(Way)>& holds) {
  for (Way way = 0; way < ways; ++way) {
    if (holds(way)) {
      return way;
    }
  }
  return std::nullopt;
}

// Mattson, Gecsei, Slutz, Traiger, IBM Systems Journal 1970: the way whose last access is longest ago.
class Lru final : public NaivePolicy {
 public:
  Lru(const Replacement& /*replacement*/, Way ways, Dice& /*dice*/) : last_access_(ways) {}

  void hit(Way way) override { last_access_[way] = ++now_; }
  void fill(Way way) override { last_access_[way] = ++now_; }
  Way victim() override {
    return static_cast<Way>(std::min_element(last_access_.begin(), last_access_.end()) - last_access_.begin());
  }

 private:
  std::vector<std::uint64_t> last_access_;
  std::uint64_t now_ = 0;
};

// The way that was filled longest ago.
class Fifo final : public NaivePolicy {
 public:
  Fifo(const Replacement& /*replacement*/, Way ways, Dice& /*dice*/) : filled_at_(ways) {}

  void hit(Way /*way*/) override {}
  void fill(Way way) override { filled_at_[way] = ++now_; }
  Way victim() override {
    return static_cast<Way>(std::min_element(filled_at_.begin(), filled_at_.end()) - filled_at_.begin());
  }

 private:
  std::vector<std::uint64_t> filled_at_;
  std::uint64_t now_ = 0;
};

// Qureshi et al., ISCA 2007, section 3: LRU insertion, and bimodal insertion, which puts one fill in so many at the
// most recent position. The recency stack as a list, the most recent way in front.
class Lip final : public NaivePolicy {
 public:
  Lip(const Replacement& /*replacement*/, Way ways, Dice& /*dice*/) : stack_(ways) {
    std::iota(stack_.begin(), stack_.end(), 0U);
  }

  void hit(Way way) override {
    stack_.remove(way);
    stack_.push_front(way);
  }
  void fill(Way way) override {
    stack_.remove(way);
    stack_.push_back(way);
  }
  Way victim() override { return stack_.back(); }

 private:
  std::list<Way> stack_;
};

// Karedla, Love and Wherry 1994: two lists, the most recent way in front.
class Slru final : public SweptPolicy {
 public:
  Slru(const Replacement& replacement, Way /*ways*/, Dice& /*dice*/)
      : protected_ways_(number_or(replacement, "protected_ways", 0)) {}

  void hit(Way way) override {
    take(way);
    protected_.push_front(way);
    if (protected_.size() > protected_ways_) {
      probationary_.splice(probationary_.begin(), protected_, std::prev(protected_.end()));
    }
  }
  void fill(Way way) override {
    take(way);
    probationary_.push_front(way);
  }
  Way victim() override { return next(); }
  [[nodiscard]] Way next() const override { return probationary_.empty() ? protected_.back() : probationary_.back(); }
  void take(Way way) override {
    probationary_.remove(way);
    protected_.remove(way);
  }

 private:
  std::size_t protected_ways_;
  std::list<Way> probationary_;
  std::list<Way> protected_;
};

// docs/h200-l1.md: lines that were hit are guarded and go last, in the order of their hits, the others in that of their
// fills. The victim of a full set is named when its last line comes.
class ResettingSlru final : public SweptPolicy {
 public:
  ResettingSlru(const Replacement& /*replacement*/, Way ways, Dice& /*dice*/) : ways_(ways) {}

  void hit(Way way) override {
    if (!guarded_.empty() && guarded_.back() == way) {
      plain_.splice(plain_.end(), guarded_, guarded_.begin(), std::prev(guarded_.end()));
    } else {
      plain_.remove(way);
      guarded_.remove(way);
      guarded_.push_back(way);
    }
    if (way == named_) {
      named_ = first();
    }
  }
  void fill(Way way) override {
    take(way);
    plain_.push_back(way);
    if (plain_.size() + guarded_.size() == ways_) {
      const bool is_first = plain_.front() == way;
      named_ = !is_first || ways_ == 1 ? plain_.front() : guarded_.front();
    }
  }
  Way victim() override { return named_; }
  [[nodiscard]] Way next() const override { return plain_.size() + guarded_.size() == ways_ ? named_ : first(); }
  void take(Way way) override {
    plain_.remove(way);
    guarded_.remove(way);
  }

 private:
  [[nodiscard]] Way first() const { return plain_.empty() ? guarded_.front() : plain_.front(); }

  std::size_t ways_;
  std::list<Way> plain_;
  std::list<Way> guarded_;
  Way named_ = 0;
};

class Bip final : public NaivePolicy {
 public:
  Bip(const Replacement& replacement, Way ways, Dice& dice)
      : lip_(replacement, ways, dice), one_in_(number_or(replacement, "one_in", 32)), dice_(dice) {}

  void hit(Way way) override { lip_.hit(way); }
  void fill(Way way) override { dice_.one_in(one_in_) ? lip_.hit(way) : lip_.fill(way); }
  Way victim() override { return lip_.victim(); }

 private:
  Lip lip_;
  std::uint64_t one_in_;
  Dice& dice_;
};

// Every way alike.
class RandomPolicy final : public NaivePolicy {
 public:
  RandomPolicy(const Replacement& /*replacement*/, Way ways, Dice& dice) : ways_(ways), dice_(dice) {}

  void hit(Way /*way*/) override {}
  void fill(Way /*way*/) override {}
  Way victim() override { return static_cast<Way>(dice_.below(ways_)); }

 private:
  Way ways_;
  Dice& dice_;
};

// Each way with a probability in proportion to its weight (Mei & Chu, IEEE TPDS 2017, on the L1 of Fermi).
class WeightedRandom final : public NaivePolicy {
 public:
  WeightedRandom(const Replacement& replacement, Way /*ways*/, Dice& dice)
      : weights_(parameter<Numbers>(replacement, "victim_weights")), dice_(dice) {}

  void hit(Way /*way*/) override {}
  void fill(Way /*way*/) override {}
  Way victim() override {
    double point = dice_.unit() * std::accumulate(weights_.begin(), weights_.end(), 0.0);
    Way last = 0;
    for (Way way = 0; way < weights_.size(); ++way) {
      if (weights_[way] > 0) {
        last = way;
        if (point < weights_[way]) {
          return way;
        }
        point -= weights_[way];
      }
    }
    return last;
  }

 private:
  Numbers weights_;
  Dice& dice_;
};

// Mei & Chu, IEEE TPDS 2017, section 4.2: of two evictions the second one takes the favoured way, the first one any of
// the others alike.
class Fermi final : public NaivePolicy {
 public:
  Fermi(const Replacement& replacement, Way ways, Dice& dice)
      : favoured_(static_cast<Way>(parameter<std::int64_t>(replacement, "favoured_way"))), dice_(dice) {
    for (Way way = 0; way < ways; ++way) {
      if (way != favoured_) {
        others_.push_back(way);
      }
    }
  }

  void hit(Way /*way*/) override {}
  void fill(Way /*way*/) override {}
  Way victim() override { return ++evictions_ % 2 == 0 ? favoured_ : dice_.one_of(others_); }

 private:
  Way favoured_;
  std::vector<Way> others_;
  std::uint64_t evictions_ = 0;
  Dice& dice_;
};

// docs/papers.md: of two evictions the first one takes the favoured way, the second one the other way whose turn is
// longest ago. Turns are times: a hit on the way that is due makes it and the one whose turn was last swap theirs.
class FavouredFifo final : public NaivePolicy {
 public:
  FavouredFifo(const Replacement& replacement, Way /*ways*/, Dice& /*dice*/)
      : favoured_(static_cast<Way>(parameter<std::int64_t>(replacement, "favoured_way"))) {
    for (const Way way : as_ways(parameter<Numbers>(replacement, "others"))) {
      last_turn_[++turns_] = way;
    }
  }

  void hit(Way way) override {
    if (last_turn_.begin()->second == way) {
      std::swap(last_turn_.begin()->second, last_turn_.rbegin()->second);
    }
  }
  void fill(Way /*way*/) override {}
  Way victim() override {
    if (++evictions_ % 2 == 1) {
      return favoured_;
    }
    const Way due = last_turn_.extract(last_turn_.begin()).mapped();
    last_turn_[++turns_] = due;
    return due;
  }

 private:
  Way favoured_;
  std::map<std::uint64_t, Way> last_turn_;
  std::uint64_t turns_ = 0;
  std::uint64_t evictions_ = 0;
};

// So & Rechtschaffen, IEEE ToC 1988; Al-Zoubi et al., ACM-SE 2004: tree pseudo-LRU. The tree as nodes with two
// children; a leaf is a node over one leaf.
class Plru final : public NaivePolicy {
 public:
  Plru(const Replacement& replacement, Way ways, Dice& /*dice*/)
      : ways_(ways), reversed_(parameter_or<std::string>(replacement, "order", "forward") == "reversed"),
        root_(0, ways, parameter_or<std::string>(replacement, "split", "balanced") == "power_of_two") {}

  void hit(Way way) override { root_.point_away_from(way_or_leaf(way)); }
  void fill(Way way) override { root_.point_away_from(way_or_leaf(way)); }
  Way victim() override { return way_or_leaf(root_.pointed_at()); }

 private:
  struct Node {
    Node(Way first_leaf, Way leaves, bool power_of_two) : first(first_leaf) {
      if (leaves > 1) {
        Way left_leaves = (leaves + 1) / 2;
        if (power_of_two) {
          for (left_leaves = 1; left_leaves * 2 < leaves;) {
            left_leaves *= 2;
          }
        }
        left = std::make_unique<Node>(first, left_leaves, power_of_two);
        right = std::make_unique<Node>(first + left_leaves, leaves - left_leaves, power_of_two);
      }
    }

    void point_away_from(Way leaf) {
      if (left != nullptr) {
        points_right = leaf < right->first;
        (points_right ? left : right)->point_away_from(leaf);
      }
    }

    [[nodiscard]] Way pointed_at() const {
      return left == nullptr ? first : (points_right ? right : left)->pointed_at();
    }

    Way first;
    bool points_right = false;
    std::unique_ptr<Node> left;
    std::unique_ptr<Node> right;
  };

  [[nodiscard]] Way way_or_leaf(Way number) const { return reversed_ ? ways_ - 1 - number : number; }

  Way ways_;
  bool reversed_;
  Node root_;
};

// Not recently used. Cleared on access: bit-PLRU (Malamy et al., US patent 5353425; MRU in nanoBench, Abel & Reineke,
// ISPASS 2020). Cleared on a miss: UltraSPARC T2 supplement, L2 cache.
class Nru final : public NaivePolicy {
 public:
  Nru(const Replacement& replacement, Way ways, Dice& /*dice*/)
      : marked_(ways), choice_(parameter_or<std::string>(replacement, "victim", "first")),
        order_(as_ways(parameter_or<Numbers>(replacement, "order", {}))),
        clear_on_access_(parameter_or<std::string>(replacement, "clear", "on_miss") == "on_access"),
        keep_last_(flag_or(replacement, "keep_last", false)) {}

  void hit(Way way) override {
    marked_[way] = true;
    last_ = way;
    if (clear_on_access_) {
      clear_if_all_marked();
    }
  }
  void fill(Way way) override { hit(way); }
  Way victim() override {
    if (!clear_on_access_) {
      clear_if_all_marked();
    }
    Way chosen = 0;
    for (const Way way : candidates()) {
      if (!marked_[way]) {
        chosen = way;
        break;
      }
    }
    pointer_ = (chosen + 1) % ways();
    return chosen;
  }

 private:
  [[nodiscard]] Way ways() const { return static_cast<Way>(marked_.size()); }

  void clear_if_all_marked() {
    if (std::all_of(marked_.begin(), marked_.end(), [](bool mark) { return mark; })) {
      marked_.assign(marked_.size(), false);
      marked_[last_] = keep_last_;
    }
  }

  [[nodiscard]] std::vector<Way> candidates() const {
    if (choice_ == "order") {
      return order_;
    }
    std::vector<Way> all(ways());
    std::iota(all.begin(), all.end(), 0U);
    if (choice_ == "rotating") {
      std::rotate(all.begin(), all.begin() + pointer_, all.end());
    }
    return all;
  }

  std::vector<bool> marked_;
  std::string choice_;
  std::vector<Way> order_;
  bool clear_on_access_;
  bool keep_last_;
  Way last_ = 0;
  Way pointer_ = 0;
};

// Chou & DeWitt, VLDB 1985: the way that was accessed, or filled, last.
class Mru final : public NaivePolicy {
 public:
  Mru(const Replacement& replacement, Way /*ways*/, Dice& /*dice*/)
      : of_fill_(parameter_or<std::string>(replacement, "of", "access") == "fill") {}

  void hit(Way way) override { last_ = of_fill_ ? last_ : way; }
  void fill(Way way) override { last_ = way; }
  Way victim() override { return last_; }

 private:
  bool of_fill_;
  Way last_ = 0;
};

// Corbato, A paging experiment with the Multics system, 1968.
class Clock final : public NaivePolicy {
 public:
  Clock(const Replacement& replacement, Way ways, Dice& /*dice*/)
      : marked_(ways), mark_fill_(flag_or(replacement, "mark_fill", true)) {}

  void hit(Way way) override { marked_[way] = true; }
  void fill(Way way) override { marked_[way] = mark_fill_; }
  Way victim() override {
    for (;;) {
      const Way way = hand_;
      hand_ = static_cast<Way>((hand_ + 1) % marked_.size());
      if (!marked_[way]) {
        return way;
      }
      marked_[way] = false;
    }
  }

 private:
  std::vector<bool> marked_;
  bool mark_fill_;
  Way hand_ = 0;
};

// Jaleel et al., ISCA 2010, section 4, figure 3: re-reference prediction values. Bimodal (section 4.2): one fill in so
// many is predicted as by SRRIP, the others at the most distant.
class Rrip : public NaivePolicy {
 public:
  void hit(Way way) override {
    if (by_frequency_ && values_[way] > 0) {
      values_[way] -= 1;
    } else {
      values_[way] = 0;
    }
  }
  Way victim() override {
    for (;;) {
      if (const auto way = lowest(ways(), [this](Way i) { return values_[i] == distant_; })) {
        return *way;
      }
      for (int& value : values_) {
        value += 1;
      }
    }
  }

 protected:
  Rrip(const Replacement& replacement, Way ways)
      : distant_((1 << number_or(replacement, "bits", 2)) - 1), values_(ways, distant_),
        by_frequency_(parameter_or<std::string>(replacement, "promotion", "hit") == "frequency") {}

  void fill_long(Way way) { values_[way] = distant_ - 1; }
  void fill_distant(Way way) { values_[way] = distant_; }

 private:
  [[nodiscard]] Way ways() const { return static_cast<Way>(values_.size()); }

  int distant_;
  std::vector<int> values_;
  bool by_frequency_;
};

class Srrip final : public Rrip {
 public:
  Srrip(const Replacement& replacement, Way ways, Dice& /*dice*/) : Rrip(replacement, ways) {}

  void fill(Way way) override { fill_long(way); }
};

class Brrip final : public Rrip {
 public:
  Brrip(const Replacement& replacement, Way ways, Dice& dice)
      : Rrip(replacement, ways), one_in_(number_or(replacement, "one_in", 32)), dice_(dice) {}

  void fill(Way way) override { dice_.one_in(one_in_) ? fill_long(way) : fill_distant(way); }

 private:
  std::uint64_t one_in_;
  Dice& dice_;
};

// Abel & Reineke, ISPASS 2020, section VI-B.2: quad-age LRU, names Hxy_Mz_Rr_Uu with _UMO behind or not.
class Qlru final : public NaivePolicy {
 public:
  Qlru(const Replacement& replacement, Way ways, Dice& /*dice*/) : ages_(ways, 3) {
    const auto name = parameter<std::string>(replacement, "variant");
    hit_at_3_ = name.at(1) - '0';
    hit_at_2_ = name.at(2) - '0';
    filled_ = name.at(5) - '0';
    rule_ = name.at(8);
    update_ = name.at(11);
    on_miss_only_ = name.ends_with("_UMO");
  }

  void hit(Way way) override {
    int& age = ages_[way];
    age = age == 3 ? hit_at_3_ : age == 2 ? hit_at_2_ : 0;
    accessed(way);
  }
  void fill(Way way) override {
    ages_[way] = filled_;
    accessed(way);
  }
  Way victim() override {
    if (on_miss_only_) {
      update();
    }
    const auto is_old = [this](Way way) { return ages_[way] == 3; };
    if (rule_ != '2') {
      return lowest(ways(), is_old).value_or(0);
    }
    const auto highest = lowest(ways(), [&](Way i) { return is_old(ways() - 1 - i); });
    return ways() - 1 - highest.value_or(0);
  }

 private:
  [[nodiscard]] Way ways() const { return static_cast<Way>(ages_.size()); }

  void accessed(Way way) {
    last_ = way;
    if (!on_miss_only_) {
      update();
    }
  }

  void update() {
    const int oldest = *std::max_element(ages_.begin(), ages_.end());
    if (oldest == 3) {
      return;
    }
    const int years = update_ == '0' || update_ == '1' ? 3 - oldest : 1;
    // On a miss the line that is accessed lies in no way yet.
    const bool last_stays = !on_miss_only_ && (update_ == '1' || update_ == '3');
    for (Way way = 0; way < ways(); ++way) {
      if (!last_stays || way != last_) {
        ages_[way] += years;
      }
    }
  }

  std::vector<int> ages_;
  int hit_at_3_ = 0;
  int hit_at_2_ = 0;
  int filled_ = 0;
  char rule_ = '0';
  char update_ = '0';
  bool on_miss_only_ = false;
  Way last_ = 0;
};

// Abel & Reineke, RTAS 2013, section III: the ways stand in an order that hits and misses permute.
class Permutation final : public NaivePolicy {
 public:
  Permutation(const Replacement& replacement, Way ways, Dice& /*dice*/)
      : hits_(parameter<Lists>(replacement, "hits")), miss_(parameter<Numbers>(replacement, "miss")) {
    for (Way way = 0; way < ways; ++way) {
      way_at_.insert(way_at_.begin(), way);
    }
  }

  void hit(Way way) override { move(hits_[position_of(way)]); }
  void fill(Way way) override {
    std::swap(way_at_[position_of(way)], way_at_.back());
    move(miss_);
  }
  Way victim() override { return way_at_.back(); }

 private:
  [[nodiscard]] std::size_t position_of(Way way) const {
    return static_cast<std::size_t>(std::find(way_at_.begin(), way_at_.end(), way) - way_at_.begin());
  }

  void move(const Numbers& target) {
    std::vector<Way> moved(way_at_.size());
    for (std::size_t position = 0; position < way_at_.size(); ++position) {
      moved[static_cast<std::size_t>(target[position])] = way_at_[position];
    }
    way_at_ = moved;
  }

  Lists hits_;
  Numbers miss_;
  std::vector<Way> way_at_;
};

// Any Mealy machine.
class Automaton final : public NaivePolicy {
 public:
  Automaton(const Replacement& replacement, Way /*ways*/, Dice& /*dice*/)
      : hits_(parameter<Lists>(replacement, "hits")), victims_(parameter<Numbers>(replacement, "victims")),
        misses_(parameter<Numbers>(replacement, "misses")), fills_(parameter_or<Numbers>(replacement, "fills", {})),
        state_(static_cast<double>(number_or(replacement, "start", 0))) {}

  void hit(Way way) override { state_ = hits_[place()][way]; }
  void fill(Way way) override {
    if (fill_of_victim_) {
      fill_of_victim_ = false;
    } else if (fills_.empty()) {
      hit(way);
    } else {
      state_ = fills_[place()];
    }
  }
  Way victim() override {
    const auto way = static_cast<Way>(victims_[place()]);
    state_ = misses_[place()];
    fill_of_victim_ = true;
    return way;
  }

 private:
  [[nodiscard]] std::size_t place() const { return static_cast<std::size_t>(state_); }

  Lists hits_;
  Numbers victims_;
  Numbers misses_;
  Numbers fills_;
  double state_;
  bool fill_of_victim_ = false;
};

// Two policies, named as parameters; both are told everything, one of them is asked.
class TwoPolicies : public NaivePolicy {
 public:
  TwoPolicies(const Replacement& replacement, Way ways, Dice& dice, std::size_t set, Community& community)
      : names_{named(replacement, "first"), named(replacement, "second")}, community_(community) {
    for (const Replacement& name : names_) {
      policies_.push_back(make_policy(name, ways, dice, set, community));
    }
  }

  void hit(Way way) override {
    for (const auto& policy : policies_) {
      policy->hit(way);
    }
    ++community_.accesses;
  }
  void fill(Way way) override {
    for (const auto& policy : policies_) {
      policy->fill(way);
    }
    ++community_.accesses;
  }
  Way victim() override { return policies_[is_second() ? 1 : 0]->victim(); }

 protected:
  [[nodiscard]] virtual bool is_second() const = 0;
  [[nodiscard]] Community& community() const { return community_; }

 private:
  static Replacement named(const Replacement& replacement, const std::string& side) {
    return {.policy = parameter<std::string>(replacement, side), .parameters = {}, .equivalent = {}};
  }

  std::vector<Replacement> names_;
  std::vector<std::unique_ptr<NaivePolicy>> policies_;
  Community& community_;
};

// Qureshi, Jaleel, Patt, Steely, Emer, ISCA 2007, section 5.
class SetDuelling final : public TwoPolicies {
 public:
  SetDuelling(const Replacement& replacement, Way ways, Dice& dice, std::size_t set, Community& community)
      : TwoPolicies(replacement, ways, dice, set, community), place_(set % number_or(replacement, "one_leader_in", 32)),
        half_(std::int64_t{1} << (number_or(replacement, "psel_bits", 10) - 1)) {}

  void fill(Way way) override {
    TwoPolicies::fill(way);
    std::int64_t& lead = community().misses_of_first_above_second;
    lead += place_ == 0 ? 1 : place_ == 1 ? -1 : 0;
    lead = std::clamp(lead, -half_, half_ - 1);
  }

 private:
  [[nodiscard]] bool is_second() const override {
    return place_ == 1 || (place_ > 1 && community().misses_of_first_above_second >= 0);
  }

  std::uint64_t place_;
  std::int64_t half_;
};

class Alternating final : public TwoPolicies {
 public:
  Alternating(const Replacement& replacement, Way ways, Dice& dice, std::size_t set, Community& community)
      : TwoPolicies(replacement, ways, dice, set, community), turn_(number_or(replacement, "every_accesses", 0)) {}

 private:
  [[nodiscard]] bool is_second() const override { return community().accesses / turn_ % 2 == 1; }

  std::uint64_t turn_;
};

using Maker = std::unique_ptr<NaivePolicy> (*)(const Replacement&, Way, Dice&, std::size_t, Community&);

template <class Policy>
std::unique_ptr<NaivePolicy> make(const Replacement& replacement, Way ways, Dice& dice, std::size_t set,
                                  Community& community) {
  if constexpr (std::is_base_of_v<TwoPolicies, Policy>) {
    return std::make_unique<Policy>(replacement, ways, dice, set, community);
  } else {
    return std::make_unique<Policy>(replacement, ways, dice);
  }
}

const std::map<std::string_view, Maker>& makers() {
  static const std::map<std::string_view, Maker> all{
      {"lru", make<Lru>},
      {"fifo", make<Fifo>},
      {"lip", make<Lip>},
      {"slru", make<Slru>},
      {"resetting_slru", make<ResettingSlru>},
      {"bip", make<Bip>},
      {"random", make<RandomPolicy>},
      {"weighted_random", make<WeightedRandom>},
      {"fermi", make<Fermi>},
      {"favoured_fifo", make<FavouredFifo>},
      {"plru", make<Plru>},
      {"nru", make<Nru>},
      {"mru", make<Mru>},
      {"clock", make<Clock>},
      {"srrip", make<Srrip>},
      {"brrip", make<Brrip>},
      {"qlru", make<Qlru>},
      {"permutation", make<Permutation>},
      {"automaton", make<Automaton>},
      {"set_duelling", make<SetDuelling>},
      {"alternating", make<Alternating>},
  };
  return all;
}

}  // namespace

std::vector<std::string_view> known_policies() {
  std::vector<std::string_view> names;
  for (const auto& [name, maker] : makers()) {
    names.push_back(name);
  }
  return names;
}

std::unique_ptr<NaivePolicy> make_policy(const Replacement& replacement, Way ways, Dice& dice, std::size_t set,
                                         Community& community) {
  return makers().at(replacement.policy)(replacement, ways, dice, set, community);
}

}  // namespace gpuinfer::oracle
