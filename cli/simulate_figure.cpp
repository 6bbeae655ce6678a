// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "cli/lapped.hpp"
#include "cli/naming_cache.hpp"
#include "cli/published_points.hpp"
#include "model/cache_simulator.hpp"
#include "model/errors.hpp"
#include "model/outstanding.hpp"
#include "model/shared_memory.hpp"
#include "model/stream_simulator.hpp"

namespace gpuinfer::cli {

namespace {

constexpr std::array<std::uint32_t, 3> element_sizes_bits{32, 64, 128};
constexpr double giga = 1e9;

// Konstantinidis & Cotronis 2016, section III.A: blocks of so many threads, which load elements of 8 bytes side by side
// and go on by a block. Sizes of the dataset are those at which each block has a power of two of these steps for itself
// and, below, those of which some blocks have the same part.
class Grid {
 public:
  static constexpr std::uint32_t block_threads = 256;
  static constexpr std::uint32_t element_bytes = 8;
  static constexpr std::uint64_t step_bytes = std::uint64_t{block_threads} * element_bytes;
  static constexpr std::uint32_t most_steps = 128;

  Grid(std::uint32_t sms, std::uint32_t threads_of_sm)
      : sms_(sms), blocks_of_sm_(std::max(1U, threads_of_sm / block_threads)) {}

  [[nodiscard]] std::uint32_t sms() const { return sms_; }
  [[nodiscard]] std::uint32_t blocks_of_sm() const { return blocks_of_sm_; }
  [[nodiscard]] std::uint32_t blocks() const { return sms_ * blocks_of_sm_; }

  [[nodiscard]] std::vector<std::uint64_t> datasets() const {
    std::vector<std::uint64_t> bytes;
    for (std::uint64_t each = step_bytes; each < blocks() * step_bytes; each *= 2) {
      bytes.push_back(each);
    }
    for (std::uint32_t steps = 1; steps <= most_steps; steps *= 2) {
      bytes.push_back(blocks() * step_bytes * steps);
    }
    return bytes;
  }

  [[nodiscard]] std::uint64_t bytes_of_block(std::uint64_t dataset_bytes) const {
    return std::max(step_bytes, dataset_bytes / blocks());
  }

 private:
  std::uint32_t sms_;
  std::uint32_t blocks_of_sm_;
};

Grid grid_of(const model::DeviceDescription& device, const std::string& file, std::uint32_t threads_of_sm) {
  if (!device.device.sm_count) {
    throw InputError(file + ": device.sm_count is null and the figure needs it; give it a value");
  }
  return {*device.device.sm_count, threads_of_sm};
}

// Runs `simulate`, and names the file where a description lacks something.
template <class Simulate>
auto naming(const std::string& file, const Simulate& simulate) {
  try {
    return simulate();
  } catch (const InputError& error) {
    throw InputError(file + ": " + error.what());
  }
}

// Makes the rows of each kind of figure.
struct Drawing {
  const PaperFigure& figure;
  const model::DeviceDescription& device;
  const std::string& file;
  std::uint64_t seed;

  [[nodiscard]] FigureRows rows(std::string_view x, std::string_view y) const {
    return {figure.name, device.device.name, x, y};
  }

  // As --map and --curve write it, and a table.
  std::optional<FigureRows> operator()(const CacheMapFigure& /*map*/) const { return std::nullopt; }
  std::optional<FigureRows> operator()(const CachePatternFigure& /*pattern*/) const { return std::nullopt; }
  std::optional<FigureRows> operator()(const KernelTable& /*table*/) const { return std::nullopt; }

  // The miss rate of cyclic chases.
  std::optional<FigureRows> operator()(const MissRateFigure& curve) const {
    const model::CacheDescription& cache = cache_of(curve.target);
    FigureRows rows = this->rows("array_bytes", "miss_rate");
    naming_cache(file, curve.target, [&] {
      static_cast<void>(model::CacheSimulator::make(cache, seed));  // throws where a leaf is null
      constexpr std::size_t laps = 100;
      for (std::uint64_t bytes = curve.from_bytes; bytes <= curve.to_bytes; bytes += curve.step_bytes) {
        const auto simulator = model::CacheSimulator::make(cache, seed);
        const auto outcomes = model::outcomes_of(*simulator, lapped(bytes, *cache.sector_bytes, laps), {});
        const auto misses = std::ranges::count_if(outcomes, [](model::Outcome each) { return is_miss(each); });
        rows.add("miss_rate", bytes, static_cast<double>(misses) / static_cast<double>(outcomes.size()));
      }
    });
    return rows;
  }

  std::optional<FigureRows> operator()(const BankConflictFigure& /*conflicts*/) const {
    if (!device.shared_memory) {
      throw InputError(file + ": shared_memory is missing, and " + std::string(figure.name) + " is of it");
    }
    constexpr std::uint32_t most_words = 64;
    constexpr std::uint32_t word_bytes = 4;
    FigureRows rows = this->rows("stride_words", "cycles");
    for (std::uint32_t words = 0; words <= most_words; words += 2) {
      rows.add("cycles", words, naming(file, [&] {
                 return model::cycles_of(*device.shared_memory, model::strided(words * word_bytes, word_bytes, 1));
               }));
    }
    return rows;
  }

  std::optional<FigureRows> operator()(const ThreadLatencyFigure& loads) const {
    if (!device.outstanding) {
      throw InputError(file + ": outstanding is missing, and " + std::string(figure.name) + " is of it");
    }
    std::vector<double> cycles;  // of 2 threads, 4 and so on
    for (std::uint32_t threads = 2; threads <= model::most_block_threads; threads += 2) {
      cycles.push_back(naming(file, [&] {
        return model::cycles_of(*device.outstanding,
                                model::ConcurrentLoads{.threads = threads,
                                                       .loads_per_thread = loads.loads_per_thread,
                                                       .threads_per_line = loads.threads_per_line});
      }));
    }
    FigureRows rows = this->rows("threads", "cycles");
    const auto threads_at = [](std::size_t i) { return 2 * (i + 1); };
    for (std::size_t i = 0; i < cycles.size(); ++i) {
      rows.add("cycles", threads_at(i), cycles[i]);
    }
    // Section 3.2: of a point and its neighbours.
    std::vector<double> variances;
    for (std::size_t i = 1; i + 1 < cycles.size(); ++i) {
      const double mean = (cycles[i - 1] + cycles[i] + cycles[i + 1]) / 3;
      double squares = 0;
      for (std::size_t of = i - 1; of <= i + 1; ++of) {
        squares += (cycles[of] - mean) * (cycles[of] - mean);
      }
      variances.push_back(squares / 2);
      rows.add("variance", threads_at(i), variances.back());
    }
    rows.add("threads_before_jump", std::nullopt, jump_of(cycles));
    return rows;
  }

  // The paper prints where what L2 saves stops growing, and no times. So this is how much of a copy L2 holds.
  std::optional<FigureRows> operator()(const CopyFigure& /*copies*/) const {
    const auto capacity_bytes = cache_of("L2").capacity_bytes;
    if (!capacity_bytes) {
      throw InputError(file + ": caches.L2.capacity_bytes is null and the figure needs it; give it a value");
    }
    FigureRows rows = this->rows("data_bytes", "kilobytes_in_l2");
    constexpr std::uint64_t step_bytes = 64U << 10U;
    constexpr std::uint64_t most_bytes = 4U << 20U;
    constexpr double kilobyte = 1024;
    for (std::uint64_t bytes = step_bytes; bytes <= most_bytes; bytes += step_bytes) {
      rows.add("kilobytes_in_l2", bytes, static_cast<double>(std::min(bytes, *capacity_bytes)) / kilobyte);
    }
    rows.add("saving_stops_kilobytes", std::nullopt, static_cast<double>(*capacity_bytes) / kilobyte);
    return rows;
  }

  // As the authors' sheets have it: elements of 32 bits, 64 Mi of them, and up to ten blocks for each SM.
  std::optional<FigureRows> operator()(const CopyRateFigure& /*copies*/) const {
    constexpr std::uint64_t dataset_bytes = 256U << 20U;
    constexpr std::uint32_t element_bytes = 4;
    constexpr std::uint32_t most_elements = 16;
    constexpr std::uint32_t steps_of_sm = 4;
    constexpr std::uint32_t most_steps = 40;
    const std::uint32_t sms = grid_of(device, file, later_threads_of_sm).sms();
    FigureRows rows = this->rows("blocks", "gb_per_second");
    for (std::uint32_t elements = 1; elements <= most_elements; ++elements) {
      for (std::uint32_t threads = model::warp_lanes; threads <= model::most_block_threads; threads *= 2) {
        for (std::uint32_t step = 1; step <= most_steps; ++step) {
          const std::uint32_t blocks = std::max(1U, step * sms / steps_of_sm);
          const std::uint64_t bytes_of_round = std::uint64_t{element_bytes} * elements * threads * blocks;
          const auto rounds = static_cast<std::uint32_t>((dataset_bytes + bytes_of_round - 1) / bytes_of_round);
          rows.add(fmt::format("{} x {}", elements, threads), blocks,
                   gigabytes_per_second({.path = model::StreamPath::global_cg,
                                         .work = model::StreamWork::copy,
                                         .elements_in_flight = elements,
                                         .dataset_bytes = dataset_bytes,
                                         .block_threads = threads,
                                         .blocks = blocks,
                                         .elements_per_thread = rounds * elements,
                                         .drops_l2 = true}));
        }
      }
    }
    return rows;
  }

  std::optional<FigureRows> operator()(const DatasetFigure& figure_of) const {
    const Grid grid = grid_of(device, file, figure_of.threads_of_sm);
    struct Series {
      const char* name;
      model::StreamPath path;
    };
    FigureRows rows = this->rows("dataset_bytes", "gb_per_second");
    for (const Series& series : {Series{"L1", model::StreamPath::global_ca}, Series{"L2", model::StreamPath::global_cg},
                                 Series{"texture", model::StreamPath::texture}}) {
      for (const std::uint64_t bytes : grid.datasets()) {
        rows.add(series.name, bytes, best_of_elements([&](std::uint32_t bits) {
                   return gigabytes_per_second(stream_of(grid, series.path, bytes, bits));
                 }));
      }
    }
    return rows;
  }

  std::optional<FigureRows> operator()(const TrafficFigure& figure_of) const {
    const Grid grid = grid_of(device, file, figure_of.threads_of_sm);
    FigureRows rows = this->rows("dataset_bytes", "percent_of_bytes");
    struct Series {
      const char* name;
      double Served::*share;
    };
    std::vector<Served> served;
    for (const std::uint64_t bytes : grid.datasets()) {
      served.push_back(served_of(grid, bytes));
    }
    for (const Series& series :
         {Series{"L1", &Served::l1}, Series{"L2", &Served::l2}, Series{"memory", &Served::memory}}) {
      for (std::size_t i = 0; i < served.size(); ++i) {
        constexpr double percent = 100;
        rows.add(series.name, grid.datasets()[i], percent * served[i].*series.share);
      }
    }
    return rows;
  }

  std::optional<FigureRows> operator()(const ElementFigure& /*elements*/) const {
    FigureRows rows = this->rows("element_bits", "gb_per_second");
    for (const std::string memory : {"shared", "constant"}) {
      for (const std::uint32_t bits : element_sizes_bits) {
        const auto found = device.bandwidth.find(memory);
        const auto known = found == device.bandwidth.end() ? std::nullopt : of_elements(found->second, bits);
        rows.add(memory, bits, known ? std::optional(known->bytes_per_second / giga) : std::nullopt);
      }
    }
    return rows;
  }

  [[nodiscard]] std::string kernel_table() const {
    constexpr std::size_t fields = 9;
    std::string csv =
        "kernel,variant,milliseconds,level,gb_per_second,percent_of_load_peak,percent_of_copy_peak,published_load,"
        "published_copy\n";
    bool has_rows = false;
    for (const auto& row : paper_rows("konstantinidis2016-table4.csv", fields)) {
      if (row[0] != device.device.name) {
        continue;
      }
      has_rows = true;
      const std::string level = level_of(row[4]);
      const bool is_l2 = level == "L2";
      const std::string& drawn = row[6];
      fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{},{},{},{}\n", row[1], row[2], row[3], level, drawn,
                     percent_of(drawn, is_l2             ? "L2_load"
                                       : level == "DRAM" ? "DRAM_load"
                                                         : level),
                     is_l2 ? percent_of(drawn, "L2_copy") : "", row[7], row[8]);
    }
    if (!has_rows) {
      throw InputError(file + ": " + std::string(figure.name) + " has no rows of this device; it has them of gtx480, " +
                       "gtx660 and gtx960");
    }
    return csv;
  }

 private:
  struct Served {
    double l1 = 0;
    double l2 = 0;
    double memory = 0;
  };

  // Threads before the first step by a good part of a latency: a load that waits for another one takes two.
  [[nodiscard]] static std::optional<double> jump_of(const std::vector<double>& cycles) {
    constexpr double part = 0.25;
    for (std::size_t i = 0; i + 1 < cycles.size(); ++i) {
      if (cycles[i + 1] - cycles[i] > part * cycles.front()) {
        return 2.0 * static_cast<double>(i + 1);
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] model::Stream stream_of(const Grid& grid, model::StreamPath path, std::uint64_t dataset_bytes,
                                        std::uint32_t bits) const {
    constexpr std::uint32_t accesses = 8192;
    const std::uint64_t parts_bytes = grid.bytes_of_block(dataset_bytes) * grid.blocks();
    const bool has_parts = parts_bytes == dataset_bytes;
    // Of a small dataset an SM loads what its blocks hold at most, wherever that is.
    const std::uint64_t shared_bytes = std::min(dataset_bytes, Grid::step_bytes * std::bit_floor(grid.blocks_of_sm()));
    return {.path = path,
            .work = model::StreamWork::load,
            .element_bits = bits,
            .elements_in_flight = 8,
            .dataset_bytes = has_parts ? dataset_bytes : shared_bytes,
            .part_bytes = has_parts ? grid.bytes_of_block(dataset_bytes) : 0,
            .block_threads = Grid::block_threads,
            .blocks = grid.blocks(),
            .elements_per_thread = accesses};
  }

  [[nodiscard]] std::optional<double> gigabytes_per_second(const model::Stream& stream) const {
    const auto time = naming(file, [&] { return model::time_of(device, stream); });
    return static_cast<double>(model::bytes_moved(stream)) / time.seconds / giga;
  }

  // Of the sizes of which the description says something.
  template <class Of>
  [[nodiscard]] std::optional<double> best_of_elements(const Of& of) const {
    std::optional<double> best;
    for (const std::uint32_t bits : element_sizes_bits) {
      const std::optional<double> each = of(bits);
      best = std::max(best, each);
    }
    return best;
  }

  // All SMs go through the dataset side by side, each through its own L1 and all through one L2; two laps to warm up,
  // two that count.
  [[nodiscard]] Served served_of(const Grid& grid, std::uint64_t dataset_bytes) const {
    const model::CacheDescription& l1 = cache_of("L1D");
    const model::CacheDescription& l2 = cache_of("L2");
    std::vector<std::unique_ptr<model::CacheSimulator>> first;
    for (std::uint32_t sm = 0; sm < grid.sms(); ++sm) {
      first.push_back(naming_cache(file, "L1D", [&] { return model::CacheSimulator::make(l1, seed + sm); }));
    }
    const auto second = naming_cache(file, "L2", [&] { return model::CacheSimulator::make(l2, seed); });
    const std::uint64_t line = *l1.line_bytes;
    const std::uint64_t fill = std::min(line, *l2.sector_bytes);
    const std::uint64_t part = grid.bytes_of_block(dataset_bytes);
    Served bytes;
    constexpr int laps = 4;
    constexpr int warm_up_laps = 2;
    for (int lap = 0; lap < laps; ++lap) {
      const double counted = lap < warm_up_laps ? 0 : 1;
      for (std::uint64_t step = 0; step < part; step += line) {
        for (std::uint32_t block = 0; block < grid.blocks(); ++block) {
          const model::Address address{(block * part + step) % dataset_bytes / line * line};
          if (!is_miss(first[block % grid.sms()]->step(address, model::AccessKind::load).outcome)) {
            bytes.l1 += counted * static_cast<double>(line);
            continue;
          }
          for (std::uint64_t offset = 0; offset < line; offset += fill) {
            const bool misses = is_miss(second->step(address + offset, model::AccessKind::load).outcome);
            (misses ? bytes.memory : bytes.l2) += counted * static_cast<double>(fill);
          }
        }
      }
    }
    const double all = bytes.l1 + bytes.l2 + bytes.memory;
    return {.l1 = bytes.l1 / all, .l2 = bytes.l2 / all, .memory = bytes.memory / all};
  }

  [[nodiscard]] const model::CacheDescription& cache_of(const std::string& name) const {
    const auto found = device.caches.find(name);
    if (found == device.caches.end()) {
      throw InputError(file + ": caches." + name + " is missing, and " + std::string(figure.name) + " needs it");
    }
    return found->second;
  }

  // Of metrics of nvprof.
  [[nodiscard]] static std::string level_of(const std::string& metric) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 4> levels{
        {{"dram", "DRAM"}, {"l2", "L2"}, {"tex", "texture"}, {"tex_fu", "texture"}}};
    const auto* found = std::ranges::find(levels, metric, &std::pair<std::string_view, std::string_view>::first);
    return std::string(found == levels.end() ? "" : found->second);
  }

  // Nothing where nothing was drawn, or the peak is not known.
  [[nodiscard]] std::string percent_of(const std::string& gigabytes, const std::string& memory) const {
    const auto found = device.bandwidth.find(memory);
    if (gigabytes.empty() || found == device.bandwidth.end() || !found->second.best) {
      return "";
    }
    constexpr double percent = 100;
    return fmt::format("{:.1f}", percent * std::stod(gigabytes) * giga / found->second.best->bytes_per_second);
  }
};

}  // namespace

std::optional<FigureRows> rows_of(const PaperFigure& figure, const model::DeviceDescription& device,
                                  const std::string& file, std::uint64_t seed) {
  return std::visit(Drawing{.figure = figure, .device = device, .file = file, .seed = seed}, figure.made);
}

void write_paper_figure(std::ostream& out, const PaperFigure& figure, const model::DeviceDescription& device,
                        const std::string& file, std::uint64_t seed) {
  if (std::holds_alternative<KernelTable>(figure.made)) {
    out << Drawing{.figure = figure, .device = device, .file = file, .seed = seed}.kernel_table();
  } else if (const auto rows = rows_of(figure, device, file, seed)) {
    out << rows->text();
  }
}

}  // namespace gpuinfer::cli
