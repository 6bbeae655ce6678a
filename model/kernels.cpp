// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "model/cache_simulator.hpp"
#include "model/errors.hpp"
#include "model/kernel_results.hpp"
#include "model/line_table.hpp"
#include "model/number_text.hpp"
#include "model/printable.hpp"

namespace gpuinfer::model {

namespace {

constexpr std::uint64_t usual_line_bytes = 128;
constexpr std::uint32_t resident_blocks = 8;  // on an SM: 2048 threads
constexpr std::uint32_t fewest_rounds = 2;    // that are played

// Lines in any place, the one that was used least recently goes; sectors come one by one.
class LruCache {
 public:
  LruCache(std::uint64_t capacity_bytes, std::uint64_t line_bytes, std::uint64_t sector_bytes)
      : line_bytes_(line_bytes), sector_bytes_(sector_bytes),
        most_lines_(std::max<std::uint64_t>(1, capacity_bytes / line_bytes)) {}

  // True when it was there.
  bool load(std::uint64_t address) {
    const std::uint64_t sector = std::uint64_t{1} << (address % line_bytes_ / sector_bytes_);
    Line& line = lines_[use(address / line_bytes_)];
    const bool was_there = (line.sectors & sector) != 0;
    line.sectors |= sector;
    return was_there;
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct Line {
    std::uint64_t sectors = 0;  // a bit for each that is there; none: the line is not there
    std::uint32_t newer = none;
    std::uint32_t older = none;
  };

  // Makes it the newest one.
  std::uint32_t use(std::uint64_t number) {
    const std::uint32_t id = table_.id_of(number);
    if (id == newest_) {
      return id;
    }
    if (table_.ids() > lines_.size()) {
      lines_.resize(2 * table_.ids());
    }
    if (lines_[id].sectors != 0) {
      unlink(id);
    } else if (held_ == most_lines_) {
      const std::uint32_t victim = oldest_;
      unlink(victim);
      lines_[victim].sectors = 0;
    } else {
      ++held_;
    }
    lines_[id].older = newest_;
    lines_[id].newer = none;
    (newest_ == none ? oldest_ : lines_[newest_].newer) = id;
    newest_ = id;
    return id;
  }

  void unlink(std::uint32_t id) {
    const Line line = lines_[id];
    (line.newer == none ? newest_ : lines_[line.newer].older) = line.older;
    (line.older == none ? oldest_ : lines_[line.older].newer) = line.newer;
  }

  std::uint64_t line_bytes_;
  std::uint64_t sector_bytes_;
  std::uint64_t most_lines_;
  std::uint64_t held_ = 0;
  std::uint32_t newest_ = none;
  std::uint32_t oldest_ = none;
  LineTable table_;
  std::vector<Line> lines_;
};

std::optional<std::uint64_t> most_bytes_of(const CacheDescription& cache) {
  std::optional<std::uint64_t> most = cache.capacity_bytes;
  const auto take = [&most](const std::optional<std::uint64_t>& bytes) { most = std::max(most, bytes); };
  take(cache.onset_bytes);
  for (const Carveout& carveout : cache.carveouts) {
    take(carveout.onset_bytes);
  }
  if (!most && cache.resident_bytes) {
    most = static_cast<std::uint64_t>(cache.resident_bytes->front());
  }
  if (!most && cache.partitions && cache.partitions->resident_bytes) {
    most = static_cast<std::uint64_t>(cache.partitions->resident_bytes->front());
  }
  return most;
}

std::uint64_t needed_bytes(const DeviceDescription& device, const std::string& name) {
  const auto cache = device.caches.find(name);
  const auto bytes = cache == device.caches.end() ? std::nullopt : most_bytes_of(cache->second);
  if (!bytes || *bytes == 0) {
    throw InputError("caches." + printable(name) +
                     ".capacity_bytes is null and a simulation needs it; give it a value");
  }
  return *bytes;
}

bool is_described_to_the_end(const CacheDescription& cache) {
  return cache.line_bytes && cache.sector_bytes && cache.ways && cache.index && cache.replacement;
}

// The cache of an SM that loads go through.
class FirstLevel {
 public:
  FirstLevel(const DeviceDescription& device, const std::string& name, std::vector<std::string>& assuming) {
    const auto found = device.caches.find(name);
    if (found != device.caches.end() && is_described_to_the_end(found->second)) {
      simulator_ = CacheSimulator::make(found->second, 1);
      sector_bytes_ = std::max(*found->second.sector_bytes, found->second.fill.fetch_bytes.value_or(0));
      return;
    }
    const std::uint64_t bytes = needed_bytes(device, name);
    const CacheDescription& cache = found->second;
    sector_bytes_ = cache.sector_bytes.value_or(Coalescer::sector_bytes);
    lru_.emplace(bytes, std::max(sector_bytes_, cache.line_bytes.value_or(usual_line_bytes)), sector_bytes_);
    assuming.push_back(name + " keeps the lines that were used last, " + to_text(bytes) + " bytes in any places");
  }

  // What comes from the next level for it.
  std::uint64_t load(std::uint64_t sector) {
    if (lru_) {
      return lru_->load(sector) ? 0 : sector_bytes_;
    }
    Outcome outcome = Outcome::hit;
    simulator_->play({&sector, 1}, {&outcome, 1});
    return is_miss(outcome) ? sector_bytes_ : 0;
  }

 private:
  std::unique_ptr<CacheSimulator> simulator_;
  std::optional<LruCache> lru_;
  std::uint64_t sector_bytes_ = 0;
};

// Numbers, of which it is to be known whether they are new.
class Seen {
 public:
  explicit Seen(std::size_t most_numbers) {
    std::size_t places = 1;
    while (places < 2 * most_numbers) {
      places *= 2;
      --shift_;
    }
    places_.resize(places);
  }

  void forget() { ++epoch_; }

  bool add(std::uint64_t number) {
    std::size_t at = shift_ == 64 ? 0 : (number * 0x9e3779b97f4a7c15ULL) >> shift_;
    while (places_[at].epoch == epoch_) {
      if (places_[at].number == number) {
        return false;
      }
      at = (at + 1) & (places_.size() - 1);
    }
    places_[at] = {.number = number, .epoch = epoch_};
    return true;
  }

 private:
  struct Entry {
    std::uint64_t number = 0;
    std::uint64_t epoch = 0;
  };
  std::vector<Entry> places_;
  unsigned shift_ = 64;
  std::uint64_t epoch_ = 1;
};

std::uint64_t scaled(std::uint64_t count, double by) {
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(count) * by));
}

// Adds what goes through the caches of the SMs.
void play_first_levels(const DeviceDescription& device, std::uint32_t sms, const KernelProgram& program,
                       const std::function<void()>& at_times, KernelTraffic& traffic) {
  constexpr std::uint64_t enough_sectors = 2'000'000;
  std::map<std::string, FirstLevel> caches;
  const auto cache_of = [&](bool is_used, const std::string& name) -> FirstLevel* {
    return is_used ? &caches.try_emplace(name, device, name, traffic.assuming).first->second : nullptr;
  };
  FirstLevel* const of_plain =
      cache_of(traffic.asked.plain > 0 && traffic.passes_l1, device.caches.contains("L1D") ? "L1D" : "L1tex");
  FirstLevel* const of_texture = cache_of(traffic.asked.texture > 0, "L1tex");
  Coalescer coalescer;
  struct Count {
    std::uint64_t blocks = 0;
    std::uint64_t sectors = 0;
    std::uint64_t missed_bytes = 0;
  };
  Count all;
  Count last;
  std::uint64_t first = 0;
  const std::uint64_t blocks_of_round = std::uint64_t{sms} * resident_blocks;
  for (std::uint32_t round = 0; first < program.blocks() && (round < fewest_rounds || all.sectors < enough_sectors);
       ++round, first += blocks_of_round) {
    const std::uint64_t left = (program.blocks() - first + sms - 1) / sms;
    const auto blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, resident_blocks));
    last = {.blocks = blocks};
    for (std::uint32_t step = 0; step < program.steps(); ++step) {
      at_times();
      for (std::uint32_t block = 0; block < blocks; ++block) {
        for (std::uint32_t warp = 0; warp < KernelRun::block_warps; ++warp) {
          const auto access = program.access(static_cast<std::uint32_t>(first) + block * sms, warp, step);
          if (!access || access->is_store) {
            continue;
          }
          FirstLevel* const cache = access->is_texture ? of_texture : of_plain;
          const auto asked = coalescer.sectors_of(*access);
          last.sectors += asked.size();
          for (const std::uint64_t sector : asked) {
            last.missed_bytes += cache == nullptr ? Coalescer::sector_bytes : cache->load(sector);
          }
        }
      }
    }
    all.blocks += last.blocks;
    all.sectors += last.sectors;
    all.missed_bytes += last.missed_bytes;
  }
  // The blocks that this SM has on average, of which those that were not played are like the last ones.
  const double blocks_of_sm = std::max(static_cast<double>(program.blocks()) / sms, 1.0);
  const double sms_at_work = static_cast<double>(program.blocks()) / blocks_of_sm;
  const auto of_all_sms = [&](std::uint64_t Count::*count) {
    const double of_last_block = static_cast<double>(last.*count) / static_cast<double>(last.blocks);
    const double left = blocks_of_sm - static_cast<double>(all.blocks);
    return static_cast<std::uint64_t>(
        std::llround(sms_at_work * (static_cast<double>(all.*count) + left * of_last_block)));
  };
  traffic.l1_sectors = of_all_sms(&Count::sectors);
  traffic.l2_load_bytes = std::max(program.loaded_bytes(), of_all_sms(&Count::missed_bytes));
}

// What all programs one after another load of memory, through an L2.
class SecondLevel {
 public:
  SecondLevel(std::uint64_t capacity_bytes, std::uint64_t line_bytes, std::uint64_t sector_bytes, std::uint32_t sms,
              const std::function<void()>& at_times)
      : cache_(capacity_bytes, line_bytes, sector_bytes), sector_bytes_(sector_bytes), sms_(sms), at_times_(&at_times) {
  }

  // Bytes; of the rounds that are not played as much as of the last one that is.
  std::uint64_t play(const KernelProgram& program) {
    const std::uint32_t blocks_of_round = round_of(program);
    std::uint64_t bytes = 0;
    std::uint64_t bytes_of_round = 0;
    std::uint64_t accesses = 0;
    std::uint32_t begin = 0;
    for (std::uint32_t round = 0; begin < program.blocks() && (round < fewest_rounds || accesses < enough_accesses);
         ++round) {
      const std::uint32_t end = std::min(begin + blocks_of_round, program.blocks());
      bytes_of_round = play_round(program, begin, end, accesses);
      bytes += bytes_of_round;
      begin = end;
    }
    return bytes + scaled(bytes_of_round, static_cast<double>(program.blocks() - begin) / blocks_of_round);
  }

  // Its last rounds, for what they leave.
  void play_end(const KernelProgram& program) {
    const std::uint32_t blocks_of_round = round_of(program);
    const std::uint64_t accesses_of_round = std::uint64_t{blocks_of_round} * KernelRun::block_warps * program.steps();
    const std::uint64_t rounds = std::max<std::uint64_t>(fewest_rounds, enough_accesses / accesses_of_round);
    const std::uint64_t played = std::min<std::uint64_t>(program.blocks(), rounds * blocks_of_round);
    std::uint64_t accesses = 0;
    for (std::uint32_t begin = program.blocks() - static_cast<std::uint32_t>(played); begin < program.blocks();
         begin += blocks_of_round) {
      play_round(program, begin, std::min(begin + blocks_of_round, program.blocks()), accesses);
    }
  }

 private:
  static constexpr std::uint64_t enough_accesses = 8'000'000;

  [[nodiscard]] std::uint32_t round_of(const KernelProgram& program) const {
    return std::min(sms_ * resident_blocks, program.blocks());
  }

  // Bytes; counts accesses.
  std::uint64_t play_round(const KernelProgram& program, std::uint32_t begin, std::uint32_t end,
                           std::uint64_t& accesses) {
    Seen seen(std::size_t{end - begin} * KernelRun::block_warps);
    std::uint64_t bytes = 0;
    for (std::uint32_t step = 0; step < program.steps(); ++step) {
      (*at_times_)();
      seen.forget();
      for (std::uint32_t block = begin; block < end; ++block) {
        for (std::uint32_t warp = 0; warp < KernelRun::block_warps; ++warp) {
          ++accesses;
          const auto access = program.access(block, warp, step);
          // In one step, what begins at one address is one access.
          if (!access || !seen.add(access->address)) {
            continue;
          }
          for (const std::uint64_t sector : coalescer_.sectors_of(*access)) {
            ++accesses;
            if (!cache_.load(sector) && !access->is_store) {
              bytes += sector_bytes_;
            }
          }
        }
      }
    }
    return bytes;
  }

  LruCache cache_;
  Coalescer coalescer_;
  std::uint64_t sector_bytes_;
  std::uint32_t sms_;
  const std::function<void()>* at_times_;
};

}  // namespace

std::span<const std::uint64_t> Coalescer::sectors_of(const WarpAccess& access) {
  std::size_t count = 0;
  for (std::uint32_t lane = access.first_lane; lane < access.end_lane; ++lane) {
    const std::uint64_t sector = access.address_of(lane) / sector_bytes * sector_bytes;
    if (count == 0 || sectors_[count - 1] != sector) {
      sectors_[count++] = sector;
    }
  }
  return std::span(sectors_).first(count);
}

KernelProgram::KernelProgram(const KernelRun& run, const MatrixAddresses& matrices)
    : run_(run), matrices_(matrices), is_vector_(run.variant == KernelVariant::texture_vector),
      results_(results_of_thread(run.kernel, run.variant)), elements_(is_vector_ ? vector_elements : 1),
      blocks_x_((run.size / results_ + KernelRun::block_columns - 1) / KernelRun::block_columns),
      blocks_y_(run.size / KernelRun::block_warps) {
  describe();
  loop_steps_ = run.size / elements_ * static_cast<std::uint32_t>(loop_.size());
}

void KernelProgram::describe() {
  const Step load{.matrix = Matrix::updated};
  const Step store{.matrix = Matrix::updated, .is_store = true};
  switch (run_.kernel) {
    case KernelName::fdtd_step1:
      tail_ = {{.place = Place::own}, {.place = Place::above}, load, store};
      return;
    case KernelName::fdtd_step2:
      tail_ = {{.place = Place::own}, {.place = Place::left}, load, store};
      return;
    case KernelName::fdtd_step3:
      tail_ = {{.place = Place::right},
               {.place = Place::own},
               {.matrix = Matrix::second, .place = Place::below},
               {.matrix = Matrix::second, .place = Place::own},
               load,
               store};
      return;
    case KernelName::gemm:
    case KernelName::mm3_kernel1:
    case KernelName::mm3_kernel2:
    case KernelName::mm3_kernel3:
      loop_ = {{.place = Place::row_of_i}};
      for (std::uint32_t k = 0; k < elements_; ++k) {
        loop_.push_back({.matrix = Matrix::second, .place = Place::column_of_j, .k = k});
      }
      break;
    case KernelName::syrk:
      loop_ = {{.place = Place::row_of_i}, {.place = Place::row_of_j}};
      break;
    case KernelName::syr2k:
      loop_ = {{.place = Place::row_of_i},
               {.matrix = Matrix::second, .place = Place::row_of_j},
               {.matrix = Matrix::second, .place = Place::row_of_i},
               {.place = Place::row_of_j}};
      break;
  }
  tail_ = is_mm3(run_.kernel) ? std::vector{store} : std::vector{load, store};
}

std::uint64_t KernelProgram::address_of(Matrix matrix) const {
  return matrix == Matrix::updated ? matrices_.updated : matrices_.loaded.at(matrix == Matrix::first ? 0 : 1);
}

std::optional<WarpAccess> KernelProgram::access(std::uint32_t block, std::uint32_t warp, std::uint32_t step) const {
  const bool is_looping = step < loop_steps_;
  const auto loop_size = static_cast<std::uint32_t>(loop_.size());
  const Step& what = is_looping ? loop_[step % loop_size] : tail_[step - loop_steps_];
  const std::uint64_t n = run_.size;
  const std::uint32_t threads = run_.size / results_;  // of a row
  const std::uint32_t first_thread = block % blocks_x_ * KernelRun::block_columns;
  std::uint64_t row = std::uint64_t{block / blocks_x_} * KernelRun::block_warps + warp;
  WarpAccess access{.element_bytes = KernelRun::element_bytes * results_,
                    .end_lane = std::min(warp_lanes, threads - first_thread),
                    .is_texture = run_.variant != KernelVariant::plain && what.matrix != Matrix::updated,
                    .is_store = what.is_store};
  const bool has_first = first_thread == 0;
  const bool has_last = first_thread + access.end_lane == threads;
  // Fetches of several elements go to results that only some of their elements are for.
  if (run_.kernel == KernelName::fdtd_step2 && has_first && (!is_vector_ || what.place == Place::left)) {
    access.first_lane = 1;
  }
  if (run_.kernel == KernelName::fdtd_step3) {
    if (row == n - 1) {
      return std::nullopt;
    }
    if (has_last && (!is_vector_ || what.place == Place::right)) {
      --access.end_lane;
    }
  }
  if (run_.kernel == KernelName::fdtd_step1 && row == 0 && !what.is_store) {
    return std::nullopt;
  }
  std::uint64_t column = std::uint64_t{first_thread} * results_;
  access.stride_bytes = access.element_bytes;
  const std::uint64_t k = is_looping ? std::uint64_t{step / loop_size} * elements_ + what.k : 0;
  switch (what.place) {
    case Place::own:
      break;
    case Place::above:
      --row;
      break;
    case Place::below:
      ++row;
      break;
    case Place::left:
      column -= results_;  // what comes before the first row is of a lane that does not take part
      break;
    case Place::right:
      column += results_;
      break;
    case Place::row_of_i:
      column = k;
      access.stride_bytes = 0;
      access.element_bytes = KernelRun::element_bytes * elements_;
      break;
    case Place::row_of_j:
      row = column;
      column = k;
      access.stride_bytes = n * KernelRun::element_bytes;
      access.element_bytes = KernelRun::element_bytes * elements_;
      break;
    case Place::column_of_j:
      row = k;
      break;
  }
  access.address = address_of(what.matrix) + (row * n + column) * KernelRun::element_bytes;
  return access;
}

KernelProgram::AskedBytes KernelProgram::asked_bytes() const {
  AskedBytes asked;
  // Where there is a loop, all warps ask for the same.
  const bool are_alike = loop_steps_ > 0;
  const std::uint64_t times = are_alike ? std::uint64_t{blocks()} * KernelRun::block_warps : 1;
  for (std::uint32_t block = 0; block < (are_alike ? 1 : blocks()); ++block) {
    for (std::uint32_t warp = 0; warp < (are_alike ? 1 : KernelRun::block_warps); ++warp) {
      for (std::uint32_t step = 0; step < steps(); ++step) {
        if (const auto each = access(block, warp, step)) {
          (each->is_store     ? asked.stored
           : each->is_texture ? asked.texture
                              : asked.plain) += times * each->asked_bytes();
        }
      }
    }
  }
  return asked;
}

std::uint64_t KernelProgram::loaded_bytes() const {
  const std::uint64_t all = matrix_bytes(run_);
  const std::uint64_t row = all / run_.size;
  switch (run_.kernel) {
    case KernelName::fdtd_step1:
      return 2 * all - row;
    case KernelName::fdtd_step3:
      return 3 * all - 2 * row;
    case KernelName::gemm:
    case KernelName::syr2k:
      return 3 * all;
    case KernelName::fdtd_step2:
    case KernelName::mm3_kernel1:
    case KernelName::mm3_kernel2:
    case KernelName::mm3_kernel3:
    case KernelName::syrk:
      break;
  }
  return 2 * all;
}

std::uint64_t KernelProgram::stored_bytes() const {
  const std::uint64_t all = matrix_bytes(run_);
  return run_.kernel == KernelName::fdtd_step3 ? all - all / run_.size : all;
}

std::uint64_t KernelProgram::touched_bytes() const {
  const std::uint64_t all = matrix_bytes(run_);
  if (run_.kernel == KernelName::fdtd_step1) {
    return 2 * all;
  }
  return is_mm3(run_.kernel) ? 3 * all : loaded_bytes();
}

std::map<std::string, std::uint64_t> KernelTraffic::by_level() const {
  std::map<std::string, std::uint64_t> bytes{{"L2", l2_load_bytes + l2_store_bytes},
                                             {"DRAM", dram_load_bytes + dram_store_bytes}};
  if (passes_l1 && asked.plain > 0) {
    bytes["L1"] = asked.plain;
  }
  if (asked.texture > 0) {
    bytes["texture"] = asked.texture;
  }
  return bytes;
}

KernelTraffic traffic_of(const DeviceDescription& device, const KernelRun& run, const std::function<void()>& at_times) {
  if (!device.device.sm_count || *device.device.sm_count == 0) {
    throw InputError("device.sm_count is null and a simulation needs it; give it a value");
  }
  const std::uint32_t sms = *device.device.sm_count;
  const std::uint64_t bytes = matrix_bytes(run);
  const KernelProgram program(run, {.loaded = {0, bytes}, .updated = 2 * bytes});
  KernelTraffic traffic;
  traffic.asked = program.asked_bytes();
  traffic.passes_l1 = device.bandwidth.contains("L1");
  traffic.l2_store_bytes = program.stored_bytes();
  play_first_levels(device, sms, program, at_times, traffic);
  const std::uint64_t l2_bytes = needed_bytes(device, "L2");
  const CacheDescription& l2 = device.caches.at("L2");
  // What the third kernel of 3MM loads was stored just before.
  const bool loads_what_is_left = run.kernel == KernelName::mm3_kernel3;
  traffic.dram_load_bytes = loads_what_is_left ? 0 : program.loaded_bytes();
  const bool fits = (loads_what_is_left ? 2 : 1) * program.touched_bytes() <= l2_bytes;
  if (!fits || loads_what_is_left) {
    traffic.assuming.push_back("L2 keeps the lines that were used last, " + to_text(l2_bytes) + " bytes in any places");
  }
  if (fits) {
    return traffic;
  }
  const std::uint64_t sector_bytes = l2.sector_bytes.value_or(Coalescer::sector_bytes);
  const std::uint64_t line_bytes = std::max(sector_bytes, l2.line_bytes.value_or(usual_line_bytes));
  SecondLevel level(l2_bytes, line_bytes, sector_bytes, sms, at_times);
  if (loads_what_is_left) {
    KernelRun before = run;
    for (const std::uint64_t i : {0U, 1U}) {
      before.kernel = i == 0 ? KernelName::mm3_kernel1 : KernelName::mm3_kernel2;
      const std::uint64_t loaded = (3 + 2 * i) * bytes;
      level.play_end(KernelProgram(before, {.loaded = {loaded, loaded + bytes}, .updated = i * bytes}));
    }
  }
  traffic.dram_load_bytes = std::max(traffic.dram_load_bytes, level.play(program));
  const double kept = static_cast<double>(l2_bytes) / static_cast<double>(program.touched_bytes());
  traffic.dram_store_bytes = scaled(program.stored_bytes(), std::max(0.0, 1 - kept));
  return traffic;
}

std::optional<double> peak_of(const BandwidthDescription& bandwidth, const std::string& level) {
  const bool is_shared = level == "L2" || level == "DRAM";
  const std::vector<std::string> names =
      is_shared ? std::vector<std::string>{level + "_load", level + "_copy"} : std::vector{level};
  std::optional<double> peak;
  for (const std::string& name : names) {
    if (const auto found = bandwidth.find(name); found != bandwidth.end() && found->second.best) {
      peak = std::max(peak, std::optional(found->second.best->bytes_per_second));
    }
  }
  return peak;
}

StreamTime time_of(const DeviceDescription& device, const KernelRun& run) {
  StreamTime time;
  for (const auto& [level, bytes] : traffic_of(device, run).by_level()) {
    const auto peak = peak_of(device.bandwidth, level);
    if (!peak || *peak <= 0) {
      const bool is_shared = level == "L2" || level == "DRAM";
      throw InputError("bandwidth." + level + (is_shared ? "_load" : "") +
                       " is null and a simulation needs it; give it a value");
    }
    time.seconds = std::max(time.seconds, static_cast<double>(bytes) / *peak);
  }
  constexpr double usual_clock_hz = 1e9;  // seconds are what counts
  time.cycles = time.seconds * usual_clock_hz;
  return time;
}

}  // namespace gpuinfer::model
