// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// unkind_device SPEC.json: a device for --device "exec:..." that departs from every plain description. It shares
// nothing with model/. Caches are after papers:
//
//   sets         LRU, FIFO, tree PLRU, random and LIP/BIP (Qureshi et al., ISCA 2007); some fills depart: bypass
//                (Johnson et al., ISCA 1997), insertion at the LRU end, by a signature of the line (Wu et al., MICRO
//                2011), a random victim
//   skewed       each way has a hash of its own (Seznec, ISCA 1993)
//   rekeyed      the key of the hash changes (Qureshi, MICRO 2018)
//   partial      tags of a few bits (Liu, MICRO 1994, "partial tag comparison")
//   prefetching  the next line comes along with some misses (Smith, Computing Surveys 1982)
//   changing     ways are switched off and on (Albonesi, MICRO 1999)
//   inclusive    a larger level invalidates what it evicts (Baer & Wang, ISCA 1988)
//   decoupled    more tags than lines of data (Qureshi et al., ISCA 2005, V-Way)
//
// Beside them: a miss that takes longer where it evicts a line, or where it misses in a larger cache behind as well; a
// sector that is missed and leaves the order of the lines as it is.
//
// With --play, sequences of offsets come as JSON lists, one a line; each is played from power-on without noise, and
// what comes out is one character for each access: '.' for a hit, 'M' for a miss, 'n' for what a nearer level answers.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;
using Random = std::mt19937_64;

std::uint64_t hash_of(std::uint64_t value, std::uint64_t key) {
  value += key + 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31U);
}

std::uint64_t below(Random& random, std::uint64_t bound) { return random() % bound; }

// Line number -> set: rows of parities or a modulus; then the two gates, then the names (buckets may be merged), then
// the few lines that go elsewhere.
class Index {
 public:
  explicit Index(const Json& spec)
      : sets_(spec.at("sets")), shift_(spec.value("shift", 0U)),
        rows_(spec.value("rows", std::vector<std::uint64_t>{})),
        and_bits_(spec.value("and_bits", std::vector<unsigned>{})),
        names_(spec.value("names", std::vector<std::uint64_t>{})), odd_one_in_(spec.value("odd_one_in", 0ULL)),
        salt_(spec.value("salt", 0ULL)) {}

  [[nodiscard]] std::uint64_t operator()(std::uint64_t line, std::uint64_t key = 0) const {
    std::uint64_t set = (line >> shift_) % sets_;
    if (key != 0) {
      set = hash_of(line, key) % sets_;
    } else if (!rows_.empty()) {
      set = 0;
      for (std::size_t row = 0; row < rows_.size(); ++row) {
        set |= (std::popcount(line & rows_[row]) % 2 != 0 ? std::uint64_t{1} << row : 0);
      }
    }
    if (!and_bits_.empty() && std::ranges::all_of(and_bits_, [&](unsigned bit) { return (line >> bit & 1U) != 0; })) {
      set = (set + 1) % sets_;
    }
    if (odd_one_in_ != 0 && hash_of(line, salt_) % odd_one_in_ == 0) {
      set = (set + 1) % sets_;
    }
    return names_.empty() ? set : names_[set];
  }

 private:
  std::uint64_t sets_;
  unsigned shift_;
  std::vector<std::uint64_t> rows_;  // masks over the bits of a line number
  std::vector<unsigned> and_bits_;
  std::vector<std::uint64_t> names_;
  std::uint64_t odd_one_in_;
  std::uint64_t salt_;
};

struct Departure {
  explicit Departure(const Json& spec)
      : how(spec.at("how")), by(spec.at("by")), one_in(spec.at("one_in")), salt(spec.value("salt", 0ULL)) {}

  std::string how;  // bypass, lru_end, random_victim
  std::string by;   // chance, counter, signature
  std::uint64_t one_in;
  std::uint64_t salt;
};

struct Policy {
  explicit Policy(const Json& spec)
      : name(spec.at("policy")), one_in(spec.value("one_in", 0ULL)), middle_one_in(spec.value("middle_one_in", 0ULL)),
        spared(spec.value("spared", 0.0)) {
    if (spec.contains("depart")) {
      departure.emplace(spec.at("depart"));
    }
  }

  std::string name;             // lru, fifo, plru, random, bip
  std::uint64_t one_in;         // bip: a new line is the last to go
  std::uint64_t middle_one_in;  // bip: a new line goes to the middle
  double spared;                // random: a victim that was hit is drawn anew with this probability
  std::optional<Departure> departure;
};

class Set {
 public:
  Set(const Policy& policy, std::size_t ways, Random& random)
      : policy_(&policy), random_(&random), line_(ways), was_hit_(ways), tree_(std::bit_ceil(ways)) {}

  void invalidate() { std::ranges::fill(line_, std::nullopt); }
  void power_on() {
    invalidate();
    order_.clear();
    tree_.assign(tree_.size(), false);
    fills_ = 0;
  }

  [[nodiscard]] bool holds(std::uint64_t line) const { return find(line) < line_.size(); }
  void forget(std::uint64_t line) {
    if (const std::size_t way = find(line); way < line_.size()) {
      line_[way].reset();
      order_.remove(way);
    }
  }
  void use_ways(std::size_t ways) {
    for (std::size_t way = ways; way < line_.size(); ++way) {
      if (line_[way]) {
        forget(*line_[way]);
      }
    }
    used_ = ways;
  }

  // True: a miss. `evicted` takes what had to go.
  bool load(std::uint64_t line, std::optional<std::uint64_t>* evicted = nullptr) {
    if (const std::size_t way = find(line); way < line_.size()) {
      was_hit_[way] = true;
      if (policy_->name == "lru" || policy_->name == "bip") {
        put_in_front(way);
      } else if (policy_->name == "plru") {
        point_away_from(way);
      }
      return false;
    }
    const bool departs = departs_with(line);
    if (departs && policy_->departure->how == "bypass") {
      return true;
    }
    std::size_t way = find(std::nullopt);
    if (way >= used()) {
      way = departs && policy_->departure->how == "random_victim" ? below(*random_, used()) : victim();
      if (evicted != nullptr) {
        *evicted = line_[way];
      }
    }
    line_[way] = line;
    was_hit_[way] = false;
    insert(way, departs && policy_->departure->how == "lru_end");
    return true;
  }

 private:
  [[nodiscard]] std::size_t used() const { return used_ == 0 ? line_.size() : used_; }
  [[nodiscard]] std::size_t find(std::optional<std::uint64_t> line) const {
    return static_cast<std::size_t>(std::ranges::find(line_, line) - line_.begin());
  }

  bool departs_with(std::uint64_t line) {
    if (!policy_->departure) {
      return false;
    }
    const Departure& departure = *policy_->departure;
    ++fills_;
    if (departure.by == "counter") {
      return fills_ % departure.one_in == 0;
    }
    return (departure.by == "signature" ? hash_of(line, departure.salt) : (*random_)()) % departure.one_in == 0;
  }

  void put_in_front(std::size_t way) {
    order_.remove(way);
    order_.push_front(way);
  }
  void put_last(std::size_t way) {
    order_.remove(way);
    order_.push_back(way);
  }

  void insert(std::size_t way, bool at_lru_end) {
    if (policy_->name == "plru") {
      if (!at_lru_end) {
        point_away_from(way);
      }
      return;
    }
    const bool is_bip = policy_->name == "bip";
    if (is_bip && policy_->middle_one_in != 0 && below(*random_, policy_->middle_one_in) == 0) {
      order_.remove(way);
      order_.insert(std::next(order_.begin(), static_cast<std::ptrdiff_t>(order_.size() / 2)), way);
    } else if (at_lru_end || (is_bip && (policy_->one_in == 0 || below(*random_, policy_->one_in) != 0))) {
      put_last(way);
    } else {
      put_in_front(way);
    }
  }

  std::size_t victim() {
    if (policy_->name == "random") {
      for (;;) {
        const std::size_t way = below(*random_, used());
        if (!was_hit_[way] || std::uniform_real_distribution<>()(*random_) >= policy_->spared) {
          return way;
        }
      }
    }
    if (policy_->name == "plru") {
      std::size_t node = 1;
      while (node < line_.size()) {
        node = 2 * node + (tree_[node] ? 1U : 0U);
      }
      return node - line_.size();
    }
    return order_.back();
  }

  void point_away_from(std::size_t way) {
    for (std::size_t node = line_.size() + way; node > 1; node /= 2) {
      tree_[node / 2] = node % 2 == 0;
    }
  }

  const Policy* policy_;
  Random* random_;
  std::vector<std::optional<std::uint64_t>> line_;  // by way
  std::vector<bool> was_hit_;                       // since it came
  std::vector<bool> tree_;                          // true: the victim is to the right
  std::list<std::size_t> order_;                    // of the ways, the next victim last
  std::size_t used_ = 0;                            // ways; 0: all
  std::uint64_t fills_ = 0;
};

class Cache {
 public:
  Cache() = default;
  virtual ~Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  Cache(Cache&&) = delete;
  Cache& operator=(Cache&&) = delete;
  virtual void power_on() = 0;
  virtual void invalidate() = 0;
  virtual bool load(std::uint64_t line) = 0;                    // true: a miss
  [[nodiscard]] virtual bool evicted() const { return false; }  // by the last load
  [[nodiscard]] virtual bool holds(std::uint64_t /*line*/) { return false; }
};

class SetsCache : public Cache {
 public:
  SetsCache(const Json& spec, Random& random) : index_(spec.at("index")), policy_(spec) {
    for (const std::size_t ways : spec.at("ways")) {
      sets_.emplace_back(policy_, ways, random);
    }
  }
  void power_on() override {
    std::ranges::for_each(sets_, [](Set& set) { set.power_on(); });
  }
  void invalidate() override {
    std::ranges::for_each(sets_, [](Set& set) { set.invalidate(); });
  }
  bool load(std::uint64_t line) override {
    evicted_.reset();
    return sets_[index_(line)].load(line, &evicted_);
  }
  [[nodiscard]] bool evicted() const override { return evicted_.has_value(); }
  [[nodiscard]] bool holds(std::uint64_t line) override { return sets_[index_(line)].holds(line); }

 protected:
  [[nodiscard]] Set& set_of(std::uint64_t line) { return sets_[index_(line)]; }
  [[nodiscard]] Set& set_of(std::uint64_t line, std::uint64_t key) { return sets_[index_(line, key)]; }
  std::vector<Set>& sets() { return sets_; }

 private:
  Index index_;
  Policy policy_;
  std::vector<Set> sets_;
  std::optional<std::uint64_t> evicted_;  // by the last load
};

class RekeyedCache final : public SetsCache {
 public:
  RekeyedCache(const Json& spec, Random& random) : SetsCache(spec, random), every_(spec.at("every")) {}
  bool load(std::uint64_t line) override {
    const bool misses = set_of(line, key_).load(line);
    misses_ += misses ? 1U : 0U;
    if (misses_ >= every_) {
      misses_ = 0;
      ++key_;
    }
    return misses;
  }

 private:
  std::uint64_t every_;  // misses
  std::uint64_t misses_ = 0;
  std::uint64_t key_ = 1;
};

class PartialTagCache final : public SetsCache {
 public:
  PartialTagCache(const Json& spec, Random& random) : SetsCache(spec, random), tag_bits_(spec.at("line_number_bits")) {}
  bool load(std::uint64_t line) override { return SetsCache::load(line & ((1ULL << tag_bits_) - 1)); }

 private:
  unsigned tag_bits_;
};

class PrefetchingCache final : public SetsCache {
 public:
  PrefetchingCache(const Json& spec, Random& random)
      : SetsCache(spec, random), one_in_(spec.at("one_in_misses")),
        after_ascending_(spec.value("after_ascending", 0U)) {}
  void power_on() override {
    SetsCache::power_on();
    misses_ = ascending_ = 0;
  }
  bool load(std::uint64_t line) override {
    const bool misses = SetsCache::load(line);
    if (misses) {
      ascending_ = line == last_miss_ + 1 ? ascending_ + 1 : 0;
      last_miss_ = line;
      ++misses_;
      const bool comes_along = after_ascending_ != 0 ? ascending_ >= after_ascending_ : misses_ % one_in_ == 0;
      if (comes_along && !set_of(line + 1).holds(line + 1)) {
        SetsCache::load(line + 1);
        last_miss_ = after_ascending_ != 0 ? line + 1 : last_miss_;
      }
    }
    return misses;
  }

 private:
  std::uint64_t one_in_;
  std::uint64_t after_ascending_;
  std::uint64_t misses_ = 0;
  std::uint64_t ascending_ = 0;
  std::uint64_t last_miss_ = 0;
};

class ChangingCache final : public SetsCache {
 public:
  ChangingCache(const Json& spec, Random& random)
      : SetsCache(spec, random), every_(spec.at("every")), ways_(spec.at("ways").at(0)), fewer_(spec.at("fewer_ways")) {
  }
  bool load(std::uint64_t line) override {
    if (++loads_ % every_ == 0) {
      const bool is_small = loads_ / every_ % 2 == 1;
      for (Set& set : sets()) {
        set.use_ways(is_small ? fewer_ : ways_);
      }
    }
    return SetsCache::load(line);
  }

 private:
  std::uint64_t every_;
  std::size_t ways_;
  std::size_t fewer_;
  std::uint64_t loads_ = 0;
};

class InclusiveCache final : public SetsCache {
 public:
  InclusiveCache(const Json& spec, Random& random)
      : SetsCache(spec, random), outer_index_(spec.at("outer").at("index")), outer_policy_(spec.at("outer")) {
    for (const std::size_t ways : spec.at("outer").at("ways")) {
      outer_.emplace_back(outer_policy_, ways, random);
    }
  }
  void power_on() override {
    SetsCache::power_on();
    std::ranges::for_each(outer_, [](Set& set) { set.power_on(); });
  }
  bool load(std::uint64_t line) override {
    if (!SetsCache::load(line)) {
      return false;
    }
    std::optional<std::uint64_t> evicted;
    outer_[outer_index_(line)].load(line, &evicted);
    if (evicted) {
      set_of(*evicted).forget(*evicted);
    }
    return true;
  }

 private:
  Index outer_index_;
  Policy outer_policy_;
  std::vector<Set> outer_;
};

class SkewedCache final : public Cache {
 public:
  SkewedCache(const Json& spec, Random& random)
      : random_(&random), lines_of_way_(spec.at("lines_of_way")), is_lru_(spec.at("policy") == "lru"),
        ways_(spec.at("skewed_ways"), std::vector<Entry>(lines_of_way_)) {}
  void power_on() override {
    for (std::vector<Entry>& way : ways_) {
      std::ranges::fill(way, Entry{});
    }
  }
  void invalidate() override { power_on(); }
  bool load(std::uint64_t line) override {
    ++now_;
    std::vector<Entry*> places;
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      // Each way takes the same low bits, and twists them by the tag in its own manner (Seznec).
      const std::uint64_t tag = line / lines_of_way_;
      places.push_back(&ways_[way][(line ^ (way == 0 ? tag : hash_of(tag, way))) % lines_of_way_]);
      if (places.back()->line == line) {
        places.back()->used = now_;
        return false;
      }
    }
    const auto empty = std::ranges::find_if(places, [](const Entry* place) { return !place->line; });
    Entry* const taken = empty != places.end() ? *empty
                         : is_lru_             ? *std::ranges::min_element(places, {}, &Entry::used)
                                               : places[below(*random_, places.size())];
    *taken = {.line = line, .used = now_};
    return true;
  }

 private:
  struct Entry {
    std::optional<std::uint64_t> line = {};
    std::uint64_t used = 0;
  };
  Random* random_;
  std::uint64_t lines_of_way_;
  bool is_lru_;
  std::vector<std::vector<Entry>> ways_;
  std::uint64_t now_ = 0;
};

// Tags in sets with LRU; the lines of data are one store, whose victim is the one that came first, or a random one.
class DecoupledCache final : public SetsCache {
 public:
  DecoupledCache(const Json& spec, Random& random)
      : SetsCache(spec, random), random_(&random), store_(spec.at("store_lines")),
        is_random_(spec.at("store_victim") == "random") {}
  void power_on() override {
    SetsCache::power_on();
    stored_.clear();
  }
  void invalidate() override {
    SetsCache::invalidate();
    stored_.clear();
  }
  bool load(std::uint64_t line) override {
    std::optional<std::uint64_t> evicted;
    if (!set_of(line).load(line, &evicted)) {
      return false;
    }
    if (evicted) {
      std::erase(stored_, *evicted);
    }
    if (stored_.size() == store_) {
      const auto goes = stored_.begin() + static_cast<std::ptrdiff_t>(is_random_ ? below(*random_, store_) : 0);
      set_of(*goes).forget(*goes);
      stored_.erase(goes);
    }
    stored_.push_back(line);
    return true;
  }

 private:
  Random* random_;
  std::size_t store_;
  bool is_random_;
  std::vector<std::uint64_t> stored_;
};

std::unique_ptr<Cache> cache_of(const Json& spec, Random& random) {
  const std::string kind = spec.at("structure");
  if (kind == "sets") {
    return std::make_unique<SetsCache>(spec, random);
  }
  if (kind == "skewed") {
    return std::make_unique<SkewedCache>(spec, random);
  }
  if (kind == "rekeyed") {
    return std::make_unique<RekeyedCache>(spec, random);
  }
  if (kind == "partial") {
    return std::make_unique<PartialTagCache>(spec, random);
  }
  if (kind == "prefetching") {
    return std::make_unique<PrefetchingCache>(spec, random);
  }
  if (kind == "changing") {
    return std::make_unique<ChangingCache>(spec, random);
  }
  if (kind == "inclusive") {
    return std::make_unique<InclusiveCache>(spec, random);
  }
  if (kind == "decoupled") {
    return std::make_unique<DecoupledCache>(spec, random);
  }
  throw std::runtime_error("unkind_device: there is no structure " + kind);
}

// The cache, the nearer level if there is one, and the timer.
class Device {
 public:
  explicit Device(const Json& spec)
      : random_(spec.at("seed").get<std::uint64_t>()), line_bytes_(spec.at("line_bytes")),
        sector_bytes_(spec.at("sector_bytes")), address_(spec.at("address_of_buffer")),
        refused_(spec.at("refused_states")), hit_cycles_(spec.at("latency_cycles").at("hit")),
        miss_cycles_(spec.at("latency_cycles").at("miss")), eviction_cycles_(spec.value("eviction_cycles", 0.0)),
        sectors_idle_(spec.value("sectors_idle", false)), noise_(spec.at("noise")), cache_(cache_of(spec, random_)) {
    if (spec.contains("nearer")) {
      near_cycles_ = spec.at("nearer").at("hit_cycles");
      near_line_bytes_ = spec.at("nearer").at("line_bytes");
      near_policy_.emplace(Json{{"policy", "lru"}});
      near_.emplace(*near_policy_, spec.at("nearer").at("lines").get<std::size_t>(), random_);
    }
    if (spec.contains("farther")) {
      far_cycles_ = spec.at("farther").at("miss_cycles");
      far_ = std::make_unique<SetsCache>(spec.at("farther"), random_);
    }
    power_on();
  }

  Json answer(const Json& question) {
    const std::string state = question.at("state");
    if (std::ranges::find(refused_, state) != refused_.end()) {
      return {{"error", "the state " + state + " cannot be given, ask another"}};
    }
    if (state == "clean") {
      power_on();
    } else if (state == "invalidated") {
      sectors_.clear();
      cache_->invalidate();
      if (near_) {
        near_->invalidate();
      }
      if (far_) {
        far_->invalidate();
      }
    }
    for (const std::uint64_t offset : question.at("warm")) {
      load(offset);
    }
    Json latency = Json::array();
    for (const std::uint64_t offset : question.at("record")) {
      latency.push_back(timed(load(offset)));
    }
    accesses_ += question.at("warm").size() + question.at("record").size();
    return {{"latency", std::move(latency)}};
  }

  std::string play(const Json& offsets) {
    power_on();
    std::string outcomes;
    for (const std::uint64_t offset : offsets) {
      const double cycles = load(offset);
      outcomes += cycles >= miss_cycles_ ? 'M' : near_ && cycles == near_cycles_ ? 'n' : '.';
    }
    return outcomes;
  }

  [[nodiscard]] std::uint64_t accesses() const { return accesses_; }

 private:
  void power_on() {
    sectors_.clear();
    cache_->power_on();
    if (near_) {
      near_->power_on();
    }
    if (far_) {
      far_->power_on();
    }
  }

  // So long takes the miss that has just been.
  double missed(std::uint64_t line) {
    return miss_cycles_ + (cache_->evicted() ? eviction_cycles_ : 0) + (far_ && far_->load(line) ? far_cycles_ : 0);
  }

  double load(std::uint64_t offset) {
    const std::uint64_t address = address_ + offset;
    if (near_ && !near_->load(address / near_line_bytes_)) {
      return near_cycles_;
    }
    const std::uint64_t line = address / line_bytes_;
    const std::uint64_t sector = 1ULL << (address % line_bytes_ / sector_bytes_);
    if (sectors_idle_ && cache_->holds(line) && (sectors_[line] & sector) == 0) {
      sectors_[line] |= sector;
      return miss_cycles_;
    }
    const bool misses = cache_->load(line);
    if (sector_bytes_ == line_bytes_) {
      return misses ? missed(line) : hit_cycles_;
    }
    std::uint64_t& present = sectors_[line];
    const bool sector_misses = misses || (present & sector) == 0;
    present = misses ? sector : present | sector;
    return sector_misses ? miss_cycles_ : hit_cycles_;
  }

  double timed(double cycles) {
    std::uniform_real_distribution<> uniform;
    if (uniform(random_) < noise_.value("misread_probability", 0.0)) {
      cycles = cycles >= miss_cycles_ ? hit_cycles_ : miss_cycles_;
    }
    cycles += std::normal_distribution<>()(random_) * noise_.value("jitter_cycles", 0.0);
    if (uniform(random_) < noise_.value("outlier_probability", 0.0)) {
      cycles += noise_.value("outlier_cycles", 0.0);
    }
    return std::max(1.0, std::round(cycles));
  }

  Random random_;
  std::uint64_t line_bytes_;
  std::uint64_t sector_bytes_;
  std::uint64_t address_;
  std::vector<std::string> refused_;
  double hit_cycles_;
  double miss_cycles_;
  double eviction_cycles_;  // that a miss takes longer where a line has to go
  bool sectors_idle_;       // a sector that is missed does not touch its line
  Json noise_;
  std::unique_ptr<Cache> cache_;
  double near_cycles_ = 0;
  std::uint64_t near_line_bytes_ = 0;
  std::optional<Policy> near_policy_;
  std::optional<Set> near_;
  double far_cycles_ = 0;  // that a miss takes longer where the cache behind misses, too
  std::unique_ptr<SetsCache> far_;
  std::unordered_map<std::uint64_t, std::uint64_t> sectors_;  // by line, those that came since it did
  std::uint64_t accesses_ = 0;
};

void serve(Device& device, const Json& spec) {
  Json greeting{{"gpuinfer", 1},
                {"device", {{"name", "unkind"}}},
                {"targets", {spec.at("target")}},
                {"buffer_bytes", spec.at("buffer_bytes")},
                {"address_of_buffer", spec.at("address_of_buffer")}};
  if (spec.contains("nearer")) {
    greeting["own_buffers"][spec.at("target").get<std::string>()] = {
        {"buffer_bytes", spec.at("buffer_bytes")},
        {"address_of_buffer", spec.at("address_of_buffer")},
        {"nearer_bytes",
         spec.at("nearer").at("lines").get<std::uint64_t>() * spec.at("nearer").at("line_bytes").get<std::uint64_t>()}};
  }
  std::cout << greeting << std::endl;
  std::string text;
  while (std::getline(std::cin, text)) {
    const Json question = Json::parse(text);
    Json answer = device.answer(question);
    answer["id"] = question.at("id");
    std::cout << answer << std::endl;
  }
  if (spec.contains("count_file")) {
    std::ofstream(spec.at("count_file").get<std::string>()) << device.accesses() << '\n';
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  try {
    // Questions are long; in step with C they would be read letter by letter.
    std::ios::sync_with_stdio(false);
    const std::vector<std::string> texts(arguments + 1, arguments + argument_count);
    std::ifstream file(texts.at(0));
    const Json spec = Json::parse(file);
    Device device(spec);
    if (texts.size() == 1) {
      serve(device, spec);
      return 0;
    }
    std::string line;
    while (std::getline(std::cin, line)) {
      std::cout << device.play(Json::parse(line)) << '\n';
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "unkind_device: " << error.what() << '\n';
    return 1;
  }
}
