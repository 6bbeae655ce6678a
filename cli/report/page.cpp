// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "cli/leaf_table.hpp"
#include "cli/picture.hpp"
#include "cli/program.hpp"
#include "cli/report/assets.hpp"
#include "cli/report/cache_drawing.hpp"
#include "cli/report/evidence_html.hpp"
#include "cli/report/figure.hpp"
#include "cli/report/hierarchy_drawing.hpp"
#include "cli/report/status.hpp"
#include "cli/report/thread_figures.hpp"
#include "cli/report/trace_figures.hpp"
#include "cli/supposed_cache.hpp"
#include "cli/targets.hpp"

namespace gpuinfer::cli::report {

namespace {

using model::DeviceDescription;

void keep(std::vector<Figure>& figures, std::optional<Figure> figure) {
  if (figure) {
    figures.push_back(std::move(*figure));
  }
}

// Hits in the far part of a cache are no misses.
model::LatencyCycles guide_of(const model::CacheDescription& cache) {
  model::LatencyCycles guide = cache.latency_cycles;
  if (guide.hit && cache.partitions) {
    *guide.hit += cache.partitions->far_cycles;
  }
  return guide;
}

std::string part_text(std::size_t shown, std::size_t all, const std::string& what) {
  return shown == all ? fmt::format("{} {}{}", grouped(all), what, all == 1 ? "" : "s")
                      : fmt::format("the first {} of {} {}s", grouped(shown), grouped(all), what);
}

std::vector<Figure> cache_figures(const std::string& target, const DeviceDescription& profile,
                                  const std::vector<Recording>& recordings) {
  const model::CacheDescription& cache = profile.caches.at(target);
  const auto evidence = profile.evidence.find(target);
  const SupposedCache likely = supposed(cache, evidence == profile.evidence.end() ? nullptr : &evidence->second);
  const model::CacheDescription& drawn = likely.cache;
  const std::string warning =
      !likely.leaves.empty() ? " Drawn with the only alternative where the evidence says ambiguous: not proven." : "";
  std::vector<Figure> figures;
  figures.push_back({.title = "How it is built",
                     .note = "Line, index, sets and policy." + warning,
                     .drawing = cache_drawing(target, drawn).svg(target + ": line, index, sets, ways and policy"),
                     .lines = picture_of(target, drawn)});
  constexpr std::size_t most_sets = 64;
  constexpr std::size_t most_lines_of_map = 512;
  constexpr std::size_t most_lines_of_matrix = 96;
  const std::size_t sets = drawn.ways ? std::min(drawn.ways->size(), most_sets) : 0;
  if (const auto array = placed_array(drawn, most_lines_of_map)) {
    figures.push_back(
        {.title = "Which line goes where",
         .note = fmt::format("Lines of a contiguous array that fits, in address order, against sets: {}, {}. "
                             "The bars are the ways.{}",
                             part_text(array->set_of.size(), array->lines_in_all, "line"),
                             part_text(sets, drawn.ways->size(), "set"), warning),
         .drawing = set_map(*array, *drawn.ways, sets).svg(target + ": lines in address order against sets"),
         .table = set_table(*array, *drawn.ways, sets)});
  }
  if (const auto array = placed_array(drawn, most_lines_of_matrix); array && drawn.ways->size() > 1) {
    figures.push_back(
        {.title = "Conflict matrix",
         .note = fmt::format("A mark means that both lines map to the same set. By the index, {} of a contiguous array "
                             "that fits.{}",
                             part_text(array->set_of.size(), array->lines_in_all, "line"), warning),
         .drawing = conflict_matrix(*array).svg(target + ": pairs of lines that share a set"),
         .table = set_table(*array, *drawn.ways, sets),
         .is_narrow = true});
  }
  const Traces traces = plain_traces(recordings, target);
  const model::LatencyCycles guide = guide_of(cache);
  keep(figures, latency_figure(traces, guide, Offsets::bytes));
  keep(figures, miss_curve_figure(cache, traces, guide));
  keep(figures, miss_pattern_figure(cache));
  keep(figures, carveout_figure(cache));
  return figures;
}

Table texel_table(const model::TextureDescription& texture) {
  const auto text = [](const std::optional<model::TexelBlock>& block) {
    return block ? to_string(*block) : "not known";
  };
  return {.head = {"block", "texels"},
          .rows = {{"sector", text(texture.sector_texels)}, {"line", text(texture.line_texels)}}};
}

std::vector<Figure> texture_figures(const std::string& target, const model::TextureDescription& texture,
                                    const std::vector<Recording>& recordings) {
  std::vector<Figure> figures;
  if (const auto drawing = texel_drawing(texture)) {
    figures.push_back({.title = "Texels that lie together",
                       .note = "Four lines, framed, each with its sectors in two shades; numbers are texels.",
                       .drawing = drawing->svg(target + ": blocks of texels in sectors and lines"),
                       .table = texel_table(texture),
                       .is_narrow = true});
  }
  keep(figures, latency_figure(plain_traces(recordings, target), texture.latency_cycles, Offsets::texels));
  return figures;
}

// Of targets that have a section for themselves, which the profile has.
struct FiguresOfThreads {
  std::string_view target;
  std::vector<Figure> (*figures)(const DeviceDescription& profile, const std::vector<probe::TimedWorkload>& timed);
};

constexpr std::array figures_of_threads{
    FiguresOfThreads{"Shared", [](const DeviceDescription& profile,
                                  const auto& timed) { return shared_memory_figures(*profile.shared_memory, timed); }},
    FiguresOfThreads{"Outstanding", [](const DeviceDescription& profile,
                                       const auto& timed) { return outstanding_figures(*profile.outstanding, timed); }},
    FiguresOfThreads{"Bandwidth",
                     [](const DeviceDescription& profile, const auto& timed) {
                       const auto evidence = profile.evidence.find("bandwidth");
                       return bandwidth_figures(
                           profile.bandwidth,
                           evidence == profile.evidence.end() ? model::CacheEvidence{} : evidence->second, timed);
                     }},
    FiguresOfThreads{"Kernels", [](const DeviceDescription& profile,
                                   const auto& /*timed*/) { return kernel_figures(profile.kernels); }},
    FiguresOfThreads{"Latency", [](const DeviceDescription& profile, const auto& /*timed*/) {
                       return pattern_figures(*profile.memory_latency_cycles);
                     }}};

std::vector<Figure> figures_of(const std::string& target, const DeviceDescription& profile,
                               const std::vector<Recording>& recordings) {
  if (profile.caches.contains(target)) {
    return cache_figures(target, profile, recordings);
  }
  if (const auto texture = profile.textures.find(target); texture != profile.textures.end()) {
    return texture_figures(target, texture->second, recordings);
  }
  if (const auto code = profile.code.find(target); code != profile.code.end()) {
    std::vector<Figure> figures;
    keep(figures, code_figure(code->second, plain_traces(recordings, target)));
    return figures;
  }
  std::vector<probe::TimedWorkload> timed;
  for (const Recording& recording : recordings) {
    std::copy_if(recording.timed.begin(), recording.timed.end(), std::back_inserter(timed),
                 [&](const probe::TimedWorkload& each) { return target_of(each.workload) == target; });
  }
  const auto of_threads = std::ranges::find(figures_of_threads, target, &FiguresOfThreads::target);
  return of_threads == figures_of_threads.end() ? std::vector<Figure>{} : of_threads->figures(profile, timed);
}

// Writes figures and keeps their charts for the script.
class FigureWriter {
 public:
  std::string html_of(const std::string& section, const Figure& figure) {
    std::string text =
        fmt::format("<figure{}>\n<figcaption><h3>{}</h3><p>{}</p></figcaption>\n",
                    figure.is_narrow ? " class=\"narrow\"" : "", escaped(figure.title), escaped(figure.note));
    if (figure.chart) {
      text += fmt::format(
          "<div class=\"canvas\"><canvas data-chart=\"{}\" role=\"img\" aria-label=\"{}\"></canvas></div>\n",
          charts_.size(), escaped(section + ": " + figure.title + "; the numbers are in the table below"));
      charts_.push_back(to_document(*figure.chart));
    }
    if (!figure.drawing.empty()) {
      text += fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">{}</div>\n",
                          escaped(section + ": " + figure.title), figure.drawing);
    }
    if (!figure.lines.empty()) {
      text += fmt::format(
          "<details><summary>As text</summary>\n<div class=\"scroll\" tabindex=\"0\" "
          "role=\"region\" aria-label=\"{}\"><pre>{}</pre></div></details>\n",
          escaped(section + ": " + figure.title), escaped(figure.lines));
    }
    if (!figure.table.rows.empty()) {
      text += "<details><summary>Data table</summary>\n" + html(figure.table, section + ": " + figure.title) +
              "</details>\n";
    }
    return text + "</figure>\n";
  }

  [[nodiscard]] const Document& charts() const { return charts_; }

 private:
  Document charts_ = Document::array();
};

std::string device_line(const DeviceDescription::Device& device) {
  std::string line = device.source;
  if (device.compute_capability) {
    line += ", compute capability " + *device.compute_capability;
  }
  if (device.sm_count) {
    line += fmt::format(", {} SMs", *device.sm_count);
  }
  return line;
}

std::string provenance_html(const DeviceDescription::Device& device) {
  if (device.provenance.empty()) {
    return "";
  }
  Table table{.head = {"what", "value"}, .rows = {}};
  for (const auto& [name, value] : device.provenance) {
    table.rows.push_back({name, value});
  }
  return "<details><summary>Provenance</summary>\n" + html(table, "Provenance") + "</details>\n";
}

std::string_view what_is(const std::string& target) {
  const auto known = known_targets();
  const auto found = std::find_if(known.begin(), known.end(), [&](const Target& each) { return each.name == target; });
  return found == known.end() ? "" : found->what;
}

std::string badges(const StatusSummary& status) {
  std::string text;
  for (const auto& [word, count] : status.counts) {
    text += fmt::format("<span class=\"badge {}\">{}</span> ", word, count_text(word, count));
  }
  return text;
}

std::string section_html(const std::string& target, const DeviceDescription& profile,
                         const std::vector<Recording>& recordings, FigureWriter& writer) {
  const std::string key(section_of(target));
  std::string text = fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-heading\">\n<h2 id=\"{0}-heading\">{0}</h2>\n"
      "<p>{1} {2}</p>\n<div class=\"figures\">\n",
      escaped(target), escaped(what_is(target)), badges(status_of(profile, key)));
  for (const Figure& figure : figures_of(target, profile, recordings)) {
    text += writer.html_of(target, figure);
  }
  return text + "</div>\n" + evidence_html(profile, key) + "</section>\n";
}

std::string hierarchy_html(const DeviceDescription& profile) {
  return "<section id=\"hierarchy\" aria-labelledby=\"hierarchy-heading\">\n<h2 "
         "id=\"hierarchy-heading\">Hierarchy</h2>\n"
         "<figure class=\"hierarchy\">" +
         hierarchy_drawing(profile).svg("What memory passes through, from the SM outwards") +
         "<details><summary>Data table</summary>\n" + html(hierarchy_table(profile), "Hierarchy") +
         "</details></figure>\n</section>\n";
}

std::string sources_text(const std::string& profile_name, const std::vector<Recording>& recordings) {
  std::string text = "Made from " + profile_name;
  for (const Recording& recording : recordings) {
    text += ", " + recording.file;
  }
  return text + " by " + program_version() + ".";
}

// The template with each {{NAME}} replaced; what is put in is not looked at again.
std::string filled(std::string_view text, const std::map<std::string, std::string, std::less<>>& values) {
  std::string page;
  while (true) {
    const std::size_t begin = text.find("{{");
    const std::size_t end = text.find("}}", begin);
    if (end == std::string_view::npos) {
      return page + std::string(text);
    }
    page += text.substr(0, begin);
    page += values.at(std::string(text.substr(begin + 2, end - begin - 2)));
    text.remove_prefix(end + 2);
  }
}

}  // namespace

std::string page_of(const DeviceDescription& profile, const std::string& profile_name,
                    const std::vector<std::string>& targets, const std::vector<Recording>& recordings,
                    const std::function<void()>& on_section) {
  std::string links = "<li><a href=\"#hierarchy\">Hierarchy</a></li>";
  std::string sections = hierarchy_html(profile);
  FigureWriter writer;
  for (const std::string& target : targets) {
    links += fmt::format("<li><a href=\"#{0}\">{0}</a></li>", escaped(target));
    sections += section_html(target, profile, recordings, writer);
    on_section();
  }
  return filled(page_html, {{"TITLE", escaped(profile.device.name)},
                            {"DEVICE", escaped(device_line(profile.device))},
                            {"PROVENANCE", provenance_html(profile.device)},
                            {"LINKS", links},
                            {"SECTIONS", sections},
                            {"SOURCES", escaped(sources_text(profile_name, recordings))},
                            {"CHARTS", json_for_script(writer.charts())},
                            {"PAGE_CSS", std::string(page_css)},
                            {"DRAWING_CSS", std::string(drawing_css)},
                            {"CHART_JS", std::string(chart_js)},
                            {"PAGE_JS", std::string(page_js)}});
}

}  // namespace gpuinfer::cli::report
