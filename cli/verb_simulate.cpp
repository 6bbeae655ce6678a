// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "cli/common_options.hpp"
#include "cli/lapped.hpp"
#include "cli/naming_cache.hpp"
#include "cli/outcome_word.hpp"
#include "cli/output.hpp"
#include "cli/paper_figures.hpp"
#include "cli/parallel.hpp"
#include "cli/profiles.hpp"
#include "cli/progress_line.hpp"
#include "cli/sequence_option.hpp"
#include "cli/simulate_detail.hpp"
#include "cli/simulate_figure.hpp"
#include "cli/simulate_path.hpp"
#include "cli/simulate_texture.hpp"
#include "cli/targets.hpp"
#include "cli/verbs.hpp"
#include "model/cache_simulator.hpp"
#include "model/errors.hpp"

namespace gpuinfer::cli {

Syntax simulate_syntax() {
  Syntax syntax(
      "simulate DESCRIPTION [--target T | --path P | --texture T] (--sequence SEQ | --curve C | --map | --figure F)",
      "Plays sequences on a described cache, path of memory or texture and writes what comes out as CSV. "
      "DESCRIPTION\nis a file or the name of a published device. Curves are of cyclic chases after 10 laps of warm-up.",
      {"gpuinfer simulate gtx780 --target L1tex --warm cyclic:12320,32 --sequence cyclic:12320,32",
       "gpuinfer simulate gtx560ti --target L1D --curve misses:16K,24K,128 -o miss-rate.csv",
       "gpuinfer simulate gtx560ti --figure mei2014:9               as a figure of a paper has it, with what it prints",
       "gpuinfer simulate profile.yaml --map                        which line goes to which set",
       "gpuinfer simulate gtx780 --path global --sequence cyclic:34M,2M,3",
       "gpuinfer simulate gtx780-sectored --texture Texture2D --sequence texels:columns"});
  syntax.operands(ValueKind::descriptions);
  std::string forms =
      "rows access,offset,set,outcome of this sequence (default: none); BYTES and STRIDE are bytes and may end in K, "
      "M, "
      "G:";
  for (const SequenceForm& form : sequence_forms()) {
    forms += "\n  " + std::string(form.form);
  }
  std::string of_texels =
      "a texture that the description lays out (default: none); rows access,x,y,offset,set,outcome of SEQ, then:";
  for (const SequenceForm& form : texel_forms()) {
    of_texels += "\n  " + std::string(form.form);
  }
  std::string of_papers =
      "of a paper (default: none; without PAPER: of mei2014); rows series,x,y,published,source, where a value is "
      "published that the text of the paper prints; maps and patterns as --map and --curve write them, N alone also "
      "miss rates:";
  for (const PaperFigure& figure : paper_figures) {
    of_papers += fmt::format("\n  {:<25} {}", figure.name, figure.shows);
  }
  syntax.value("target", target_value, "the cache (default: the only one; needed where the description has several)")
      .value("path", "P",
             "a path of memory instead, such as global, with --sequence (default: none); rows "
             "access,offset,data,translation,"
             "window_switch,pattern,latency_cycles,source,partition")
      .value("texture", target_value, of_texels.c_str())
      .value("sequence", sequence_value, forms.c_str())
      .value("warm", sequence_value, "what is played before and not written (no archive; default: nothing)")
      .flag("explain", "with --sequence of a cache: rows also have kind,reason,way,victim_address")
      .flag("strip",
            "with --sequence of a cache: instead of rows one character for each access, . hit, s sector miss, "
            "M line miss")
      .value("curve", "KIND:FROM,TO,STEP",
             "for array sizes FROM, FROM + STEP, ... TO bytes (default: no curve); KIND misses: rows "
             "array_bytes,accesses,misses,miss_rate,"
             "sets_that_miss; KIND pattern: rows array_bytes,access,offset,set,outcome of one lap")
      .value("stride", "BYTES", "between the accesses of a curve (default: the fill granularity)")
      .value("laps", "N", "rounds over the array in which `misses` counts (default 100)")
      .flag("map", "rows line,address,set,way: where a contiguous array that fills the cache is placed")
      .value("figure", "[PAPER:]N", of_papers.c_str())
      .value("address", "BYTES", "address of offset 0 (default 0)")
      .value("seed", "N", "of the chance in the replacement policy, and of random sequences (default 1)")
      .value("jobs", "N", "maximum number of threads (default: all cores); the result does not depend on it")
      .value("output,o", written_file, "write there (default: to stdout)");
  return syntax;
}

namespace {

// What to write, taken from the options.
struct Request {
  std::optional<std::string> target;
  std::optional<std::string> path;
  std::optional<std::string> texture;
  std::optional<std::string> sequence;
  std::optional<std::string> curve;
  bool map = false;
  bool explain = false;
  bool strip = false;
  std::optional<PaperFigure> figure;  // that none of the others makes
};

// "mei2014:9", or "9" for short.
const PaperFigure& figure_named(const std::string& name) {
  const bool is_short = name.find(':') == std::string::npos;
  const std::string whole = is_short ? "mei2014:" + name : name;
  const auto* figure = std::ranges::find(paper_figures, whole, &PaperFigure::name);
  if (figure == paper_figures.end()) {
    std::string names;
    for (const PaperFigure& each : paper_figures) {
      names += (names.empty() ? "" : ", ") + std::string(each.name);
    }
    throw InputError("--figure: " + name + " is not known; write one of " + names);
  }
  return *figure;
}

// What a figure is that the other options can write, too.
void ask_for(Request& request, const PaperFigure& figure, bool is_short) {
  const auto asks = [&](const char* target, const std::optional<std::string>& curve) {
    request.target = request.target.value_or(target);
    request.curve = curve;
    request.map = !curve;
  };
  if (const auto* map = std::get_if<CacheMapFigure>(&figure.made)) {
    asks(map->target, std::nullopt);
  } else if (const auto* pattern = std::get_if<CachePatternFigure>(&figure.made)) {
    asks(pattern->target, pattern->curve);
  } else if (const auto* rates = std::get_if<MissRateFigure>(&figure.made); rates != nullptr && is_short) {
    asks(rates->target, fmt::format("misses:{},{},{}", rates->from_bytes, rates->to_bytes, rates->step_bytes));
  } else {
    if (request.target || request.path || request.texture) {
      throw InputError("--figure " + std::string(figure.name) + " is of the whole device; leave --target out");
    }
    request.figure = figure;
  }
}

Request request_from(const Parsed& parsed) {
  Request request{.target = parsed.text("target"),
                  .path = parsed.text("path"),
                  .texture = parsed.text("texture"),
                  .sequence = parsed.text("sequence"),
                  .curve = parsed.text("curve"),
                  .map = parsed.flag("map"),
                  .explain = parsed.flag("explain"),
                  .strip = parsed.flag("strip"),
                  .figure = {}};
  const auto figure = parsed.text("figure");
  const std::array asked{request.sequence.has_value(), request.curve.has_value(), request.map, figure.has_value()};
  if (std::count(asked.begin(), asked.end(), true) != 1) {
    throw InputError(
        "one of --sequence, --curve, --map, --figure is needed, and only one; see `gpuinfer simulate --help`");
  }
  const std::array played_on{request.target.has_value(), request.path.has_value(), request.texture.has_value()};
  if (std::count(played_on.begin(), played_on.end(), true) > 1) {
    throw InputError("--target, --path and --texture exclude one another; leave all but one out");
  }
  if ((request.path || request.texture) && !request.sequence) {
    throw InputError("--path and --texture play a --sequence and nothing else; give one");
  }
  if ((request.explain || request.strip) && (!request.sequence || request.path || request.texture)) {
    throw InputError("--explain and --strip describe a --sequence that is played on a cache; give one");
  }
  if (figure) {
    ask_for(request, figure_named(*figure), figure->find(':') == std::string::npos);
  }
  return request;
}

// The one that was asked for, or the only one.
std::string chosen_target(const model::DeviceDescription& device, const std::string& file,
                          const std::optional<std::string>& asked) {
  std::string names;
  for (const auto& [name, cache] : device.caches) {
    names += (names.empty() ? "" : ", ") + name;
  }
  if (!asked && device.caches.size() == 1) {
    return device.caches.begin()->first;
  }
  const std::string described = file + " describes " + (names.empty() ? "no cache" : names);
  if (!asked) {
    throw InputError("--target: is missing, and " + described);
  }
  std::string target = spelled_targets({{*asked}}).front();
  if (!device.caches.contains(target)) {
    throw InputError("--target: " + *asked + " is not there; " + described);
  }
  return target;
}

// Simulations of one cache at one place.
class Simulation {
 public:
  // `cache` outlives it.
  Simulation(const model::CacheDescription& cache, model::Address address, std::uint64_t seed)
      : cache_(&cache), address_(address), seed_(seed), simulator_(model::CacheSimulator::make(cache, seed)) {}

  // Rows of one question after the other on the same cache; `prefix` begins each row.
  void rows(const std::vector<model::Question>& questions, const std::string& prefix, std::string& csv) {
    std::size_t access = 0;
    for (const model::Question& question : questions) {
      const std::vector<model::Outcome> outcomes = this->outcomes(question);
      for (std::size_t i = 0; i < outcomes.size(); ++i, ++access) {
        const std::uint64_t offset = question.record[i];
        fmt::format_to(std::back_inserter(csv), "{}{},{},{},{}\n", prefix, access, offset, set_at(offset),
                       word_for(outcomes[i]));
      }
    }
  }

  [[nodiscard]] std::uint32_t set_at(std::uint64_t offset) const {
    return model::set_of(*cache_->index, address_ + offset);
  }

  [[nodiscard]] std::vector<model::Outcome> outcomes(const model::Question& question) {
    return model::outcomes_of(*simulator_, question, address_);
  }

  // A simulation of the same cache that has seen nothing.
  [[nodiscard]] Simulation another() const { return {*cache_, address_, seed_}; }

 private:
  const model::CacheDescription* cache_;
  model::Address address_;
  std::uint64_t seed_;
  std::unique_ptr<model::CacheSimulator> simulator_;
};

struct Curve {
  bool pattern = false;  // else misses
  std::vector<std::uint64_t> array_bytes;
  std::uint64_t stride_bytes = 0;
  std::size_t laps = 0;
};

Curve parse_curve(const std::string& text, const Parsed& parsed, const model::CacheDescription& cache) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string kind = text.substr(0, colon);
  const std::vector<std::uint64_t> numbers =
      colon < text.size() ? parse_byte_list(text.substr(colon + 1), "--curve " + text) : std::vector<std::uint64_t>{};
  if ((kind != "misses" && kind != "pattern") || numbers.size() != 3) {
    throw InputError("--curve: `" + text + "` is not understood; write misses:FROM,TO,STEP or pattern:FROM,TO,STEP");
  }
  Curve curve{.pattern = kind == "pattern",
              .array_bytes = {},
              .stride_bytes = parsed.bytes("stride").value_or(*cache.sector_bytes),
              .laps = parsed.count("laps").value_or(100)};
  constexpr std::uint64_t most_points = 1'000'000;
  if (numbers[0] == 0 || numbers[2] == 0 || numbers[1] < numbers[0] ||
      (numbers[1] - numbers[0]) / numbers[2] > most_points) {
    throw InputError("--curve " + text + ": FROM and STEP must be above 0, TO not below FROM, with at most 10^6 steps");
  }
  if (curve.stride_bytes == 0 || curve.laps == 0) {
    throw InputError("--stride and --laps: must be above 0");
  }
  for (std::uint64_t array_bytes = numbers[0]; array_bytes <= numbers[1]; array_bytes += numbers[2]) {
    curve.array_bytes.push_back(array_bytes);
  }
  return curve;
}

std::string miss_row(Simulation& simulation, const model::Question& question, std::uint64_t array_bytes) {
  const std::vector<model::Outcome> outcomes = simulation.outcomes(question);
  std::set<std::uint32_t> sets;
  std::size_t misses = 0;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (is_miss(outcomes[i])) {
      ++misses;
      sets.insert(simulation.set_at(question.record[i]));
    }
  }
  return fmt::format("{},{},{},{:.6f},{}\n", array_bytes, outcomes.size(), misses,
                     static_cast<double>(misses) / static_cast<double>(outcomes.size()), sets.size());
}

void write_curve(std::ostream& out, const Curve& curve, const Simulation& simulation,
                 const std::optional<std::size_t>& jobs) {
  std::vector<std::string> parts(curve.array_bytes.size());
  StepBar bar("simulate", parts.size());
  for_each_index(parts.size(), jobs, [&](std::size_t i) {
    const std::uint64_t array_bytes = curve.array_bytes[i];
    Simulation own = simulation.another();
    const model::Question question = lapped(array_bytes, curve.stride_bytes, curve.pattern ? 1 : curve.laps);
    if (curve.pattern) {
      own.rows({question}, std::to_string(array_bytes) + ",", parts[i]);
    } else {
      parts[i] = miss_row(own, question, array_bytes);
    }
    bar.step();
  });
  out << (curve.pattern ? "array_bytes,access,offset,set,outcome\n"
                        : "array_bytes,accesses,misses,miss_rate,sets_that_miss\n");
  for (const std::string& part : parts) {
    out << part;
  }
}

void write_map(std::ostream& out, const model::CacheDescription& cache, model::Address address) {
  std::uint64_t lines = 0;
  for (const std::uint32_t ways : *cache.ways) {
    lines += ways;
  }
  std::vector<std::uint32_t> filled(cache.ways->size());
  out << "line,address,set,way\n";
  for (std::uint64_t line = 0; line < lines; ++line) {
    const model::Address line_address = address + line * *cache.line_bytes;
    if (!covers(*cache.index, line_address)) {
      return;
    }
    const std::uint32_t set = set_of(*cache.index, line_address);
    // A line that finds its set full takes the place of another: it has no way of its own.
    const bool has_room = filled[set] < (*cache.ways)[set];
    out << fmt::format("{},{},{},{}\n", line, number_of(line_address), set,
                       has_room ? std::to_string(filled[set]++) : "");
  }
}

std::vector<model::Question> asked_questions(const std::string& sequence, const std::optional<std::string>& warm,
                                             std::uint64_t seed) {
  if (names_archive(sequence)) {
    if (warm) {
      throw InputError("--sequence archive:FILE brings its warm-up with it; leave --warm out");
    }
    return questions_of_archive(sequence);
  }
  return {{.target = {},
           .state = model::StartState::clean,
           .warm = warm ? parse_sequence(*warm, seed) : model::AccessSequence{},
           .record = parse_sequence(sequence, seed)}};
}

void write_rows(std::ostream& out, const std::vector<model::Question>& questions, Simulation& simulation) {
  std::string csv = "access,offset,set,outcome\n";
  simulation.rows(questions, "", csv);
  out << csv;
}

void write_strips(std::ostream& out, const std::vector<model::Question>& questions, Simulation& simulation) {
  for (const model::Question& question : questions) {
    write_strip(out, simulation.outcomes(question));
  }
}

}  // namespace

ExitStatus verb_simulate(Arguments arguments) {
  const auto parsed = simulate_syntax().parse(arguments, 1, 1);
  if (!parsed) {
    return ExitStatus::resolved;
  }
  const Request request = request_from(*parsed);
  const std::string file = profile_file(parsed->operands().front());
  Output output(parsed->text("output"));
  const model::DeviceDescription device = read_profile(file);
  const model::Address address{parsed->bytes("address").value_or(0)};
  const std::uint64_t seed = seed_or_default(parsed->count("seed"));
  if (request.path || request.texture) {
    if (request.path) {
      const auto questions = asked_questions(*request.sequence, parsed->text("warm"), seed);
      write_path_rows(output.stream(), device, file, *request.path, questions, address, seed);
    } else {
      write_texture_rows(output.stream(), device, file,
                         {.texture = *request.texture,
                          .sequence = *request.sequence,
                          .warm = parsed->text("warm"),
                          .address = address,
                          .seed = seed});
    }
    output.finish();
    return ExitStatus::resolved;
  }
  if (request.figure) {
    write_paper_figure(output.stream(), *request.figure, device, file, seed);
    output.finish();
    return ExitStatus::resolved;
  }
  const std::string target = chosen_target(device, file, request.target);
  const model::CacheDescription& cache = device.caches.at(target);

  Simulation simulation = naming_cache(file, target, [&] { return Simulation(cache, address, seed); });
  if (request.map) {
    write_map(output.stream(), cache, address);
  } else if (request.curve) {
    const Curve curve = parse_curve(*request.curve, *parsed, cache);
    naming_cache(file, target, [&] { write_curve(output.stream(), curve, simulation, parsed->count("jobs")); });
  } else if (request.explain) {
    const auto warm = parsed->text("warm");
    const Accesses record = parse_accesses(*request.sequence, seed);
    naming_cache(file, target, [&] {
      write_explained_rows(output.stream(), cache, warm ? parse_accesses(*warm, seed) : Accesses{}, record, address,
                           seed);
    });
  } else {
    const std::vector<model::Question> questions = asked_questions(*request.sequence, parsed->text("warm"), seed);
    const auto write = request.strip ? write_strips : write_rows;
    naming_cache(file, target, [&] { write(output.stream(), questions, simulation); });
  }
  output.finish();
  return ExitStatus::resolved;
}

}  // namespace gpuinfer::cli
