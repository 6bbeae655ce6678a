// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "cli/leaf_table.hpp"
#include "cli/parallel.hpp"
#include "cli/picture.hpp"
#include "cli/program.hpp"
#include "cli/report/assets.hpp"
#include "cli/report/cache_drawing.hpp"
#include "cli/report/chart_drawing.hpp"
#include "cli/report/cluster_figures.hpp"
#include "cli/report/evidence_html.hpp"
#include "cli/report/figure.hpp"
#include "cli/report/key_figures.hpp"
#include "cli/report/machine_drawing.hpp"
#include "cli/report/overview_figures.hpp"
#include "cli/report/paper_charts.hpp"
#include "cli/report/policy_figures.hpp"
#include "cli/report/set_map.hpp"
#include "cli/report/slice_map.hpp"
#include "cli/report/state_graph.hpp"
#include "cli/report/thread_figures.hpp"
#include "cli/report/trace_figures.hpp"
#include "cli/supposed_cache.hpp"
#include "cli/targets.hpp"
#include "infer/comparing/description_difference.hpp"

namespace gpuinfer::cli::report {

namespace {

using model::DeviceDescription;

// Hits in the far part of a cache are no misses.
model::LatencyCycles guide_of(const model::CacheDescription& cache) {
  model::LatencyCycles guide = cache.latency_cycles;
  if (guide.hit && cache.partitions) {
    *guide.hit += cache.partitions->far_cycles;
  }
  return guide;
}

std::vector<Figure> cache_figures(const std::string& target, const DeviceDescription& profile,
                                  const Measurements& measurements) {
  const model::CacheDescription& cache = profile.caches.at(target);
  const auto evidence = profile.evidence.find(target);
  const SupposedCache likely = supposed(cache, evidence == profile.evidence.end() ? nullptr : &evidence->second);
  const model::CacheDescription& drawn = likely.cache;
  const std::string warning = likely.leaves.empty()
                                  ? ""
                                  : fmt::format(" Not verified, drawn with the only alternative of the evidence: {}.",
                                                fmt::join(likely.leaves, ", "));
  std::vector<Figure> figures;
  constexpr std::size_t text_columns = 100;
  figures.push_back({.title = "How it is built",
                     .note = "Line, index, sets and policy." + warning,
                     .drawing = cache_drawing(target, drawn),
                     .lines = picture_of(target, drawn, text_columns)});
  keep(figures, set_map_figure(drawn));
  keep(figures, lines_per_set_figure(drawn));
  keep(figures, stride_figure(drawn));
  keep(figures, store_figure(drawn));
  keep(figures, eviction_figure(drawn));
  keep(figures, state_figure(drawn));
  keep(figures, victim_figure(drawn));
  const Traces& traces = measurements.traces_of(target);
  const model::LatencyCycles guide = guide_of(cache);
  keep(figures, latency_histogram(traces, guide));
  keep(figures, miss_curve_figure(cache, traces, guide));
  keep(figures, miss_pattern_figure(cache));
  keep(figures, carveout_figure(cache));
  keep(figures, sm_map_figure("SMs that share one", cache.shared_by_sms));
  if (cache.partitions) {
    keep(figures, sm_map_figure("SMs near to each part", cache.partitions->sms));
  }
  keep(figures, slice_map_figure(cache));
  if (cache.slice_distances) {
    keep(figures, sm_map_figure("SMs at the same distances", cache.slice_distances->sms));
  }
  return figures;
}

std::vector<Figure> texture_figures(const std::string& target, const model::TextureDescription& texture,
                                    const Measurements& measurements) {
  std::vector<Figure> figures;
  keep(figures, texel_figure(texture));
  keep(figures, latency_histogram(measurements.traces_of(target), texture.latency_cycles));
  return figures;
}

// Of targets that have a section for themselves, which the profile has.
struct FiguresOfThreads {
  std::string_view target;
  std::vector<Figure> (*figures)(const DeviceDescription& profile, const std::vector<probe::TimedWorkload>& timed);
};

const model::CacheEvidence& evidence_of(const DeviceDescription& profile, const std::string& section) {
  static const model::CacheEvidence none;
  const auto evidence = profile.evidence.find(section);
  return evidence == profile.evidence.end() ? none : evidence->second;
}

constexpr std::array figures_of_threads{
    FiguresOfThreads{"Shared", [](const DeviceDescription& profile,
                                  const auto& timed) { return shared_memory_figures(*profile.shared_memory, timed); }},
    FiguresOfThreads{"Outstanding", [](const DeviceDescription& profile,
                                       const auto& timed) { return outstanding_figures(*profile.outstanding, timed); }},
    FiguresOfThreads{"Bandwidth",
                     [](const DeviceDescription& profile, const auto& timed) {
                       return bandwidth_figures(profile.bandwidth, evidence_of(profile, "bandwidth"), timed);
                     }},
    FiguresOfThreads{"Kernels", [](const DeviceDescription& profile,
                                   const auto& /*timed*/) { return kernel_figures(profile.kernels); }},
    FiguresOfThreads{"Cluster",
                     [](const DeviceDescription& profile, const auto& /*timed*/) {
                       return cluster_figures(*profile.cluster, evidence_of(profile, "cluster"));
                     }},
    FiguresOfThreads{"Fetch", [](const DeviceDescription& profile,
                                 const auto& /*timed*/) { return fetch_figures(profile.fetches); }},
    FiguresOfThreads{"Latency", [](const DeviceDescription& profile, const auto& /*timed*/) {
                       return pattern_figures(*profile.memory_latency_cycles,
                                              evidence_of(profile, "memory_latency_cycles"));
                     }}};

std::vector<Figure> figures_of(const std::string& target, const DeviceDescription& profile,
                               const Measurements& measurements) {
  if (profile.caches.contains(target)) {
    return cache_figures(target, profile, measurements);
  }
  if (const auto texture = profile.textures.find(target); texture != profile.textures.end()) {
    return texture_figures(target, texture->second, measurements);
  }
  if (const auto code = profile.code.find(target); code != profile.code.end()) {
    std::vector<Figure> figures;
    keep(figures, code_figure(target, code->second, measurements.traces_of(target)));
    return figures;
  }
  std::vector<probe::TimedWorkload> timed;
  std::ranges::copy_if(measurements.timed, std::back_inserter(timed),
                       [&](const probe::TimedWorkload& each) { return target_of(each.workload) == target; });
  const auto of_threads = std::ranges::find(figures_of_threads, target, &FiguresOfThreads::target);
  return of_threads == figures_of_threads.end() ? std::vector<Figure>{} : of_threads->figures(profile, timed);
}

std::string html_of(const std::string& section, const Figure& figure) {
  std::optional<Drawing> drawing = figure.drawing;
  std::string x_places;
  if (figure.chart) {
    DrawnChart drawn = draw(*figure.chart);
    drawing = std::move(drawn.drawing);
    x_places = fmt::format(" data-x=\"{}\"", drawn.x_places);
  }
  const std::string title = section + ": " + figure.title;
  std::string text = fmt::format("<figure{} data-name=\"{}\"{}>\n<figcaption><h3>{}</h3><p>{}</p></figcaption>\n",
                                 figure.is_narrow ? " class=\"narrow\"" : "", escaped(title), x_places,
                                 escaped(figure.title), escaped(figure.note));
  const std::string scroll =
      fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">", escaped(title));
  if (drawing) {
    text += scroll + drawing->svg(title) + "</div>\n" + (figure.chart ? "<output></output>\n" : "");
  }
  if (!figure.lines.empty()) {
    text +=
        "<details><summary>As text</summary>\n" + scroll + "<pre>" + escaped(figure.lines) + "</pre></div></details>\n";
  }
  if (!figure.table.rows.empty()) {
    text += "<details><summary>Data</summary>\n" + html(figure.table, title) + "</details>\n";
  }
  return text + "</figure>\n";
}

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
  const Target* const known = known_target(target);
  return known == nullptr ? "" : known->what;
}

// The targets in the order of the first screen; of those that are one cache the first.
struct Section {
  std::string target;
  std::string name;
};
std::vector<Section> sections_of(const DeviceDescription& profile, const std::vector<std::string>& targets) {
  std::vector<Section> sections;
  std::vector<std::string> rest = targets;
  for (const Level& level : levels_of(profile)) {
    const auto first = std::ranges::find_first_of(level.targets, rest);
    if (first != level.targets.end()) {
      sections.push_back({.target = *first, .name = profile.caches.contains(*first) ? level.name : *first});
    }
    std::erase_if(rest, [&](const std::string& target) {
      return std::ranges::find(level.targets, target) != level.targets.end();
    });
  }
  for (const std::string& target : rest) {
    sections.push_back({.target = target, .name = target});
  }
  return sections;
}

std::string section_html(const Section& section, const DeviceDescription& profile, const Measurements& measurements) {
  const std::string& target = section.target;
  const std::string key(section_of(target));
  std::string badges;
  for (const Unverified& each : unverified_leaves(profile, key)) {
    badges += fmt::format(" <span class=\"badge {}\">{}</span>", to_string(each.status), escaped(to_string(each)));
  }
  std::string text = fmt::format(
      "<details class=\"section\" id=\"{0}\">\n<summary><h2>{1}</h2><p>{2}</p>{3}</summary>\n"
      "<div class=\"figures\">\n",
      escaped(target), escaped(section.name), escaped(what_is(target)), badges);
  for (const Figure& figure : figures_of(target, profile, measurements)) {
    text += html_of(target, figure);
  }
  return text + "</div>\n<details><summary>Evidence</summary>\n" + evidence_html(profile, key) +
         "</details>\n</details>\n";
}

// Empty where no paper says anything of this GPU.
std::string papers_html(const DeviceDescription& profile) {
  std::string text;
  for (const Figure& figure : paper_charts(profile)) {
    text += html_of("Papers", figure);
  }
  return text.empty() ? ""
                      : "<details class=\"section\" id=\"papers\">\n<summary><h2>Papers</h2><p>what they print of this "
                        "GPU, beside what its description says</p></summary>\n<div class=\"figures\">\n" +
                            text + "</div>\n</details>\n";
}

std::string overview_html(const std::vector<NamedProfile>& profiles, const Measurements& measurements) {
  std::string text = "<section id=\"overview\" class=\"figures\">\n";
  for (const auto& figure : {footprint_figure(profiles, measurements), bandwidth_ladder(profiles)}) {
    text += figure ? html_of("Overview", *figure) : "";
  }
  return text + "</section>\n";
}

std::string glance_html(const DeviceDescription& profile) {
  const std::vector<Level> levels = levels_of(profile);
  const std::string title = profile.device.name + " at a glance";
  return "<section id=\"glance\">\n<figure class=\"machine\" data-name=\"" + escaped(title) +
         "\">\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" + escaped(title) + "\">" +
         machine_drawing(profile, levels).svg(title) +
         "</div>\n<figcaption><p>On arrows: latency, and the peak bytes per clock of "
         "one SM while all SMs load. The area of a box grows with the logarithm of its capacity, where that is known." +
         (profile.evidence.empty() ? " Described, not measured." : "") + "</p></figcaption>\n<div class=\"key\">" +
         html(key_figures(levels), "Key figures") + "</div>\n</figure>\n</section>\n";
}

std::string sources_text(const std::string& profile_name, const Measurements& measurements) {
  std::string text = "Made from " + profile_name;
  for (const std::string& file : measurements.files) {
    text += ", " + file;
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

std::string link_to(const std::string& id, const std::string& name) {
  return fmt::format("<li><a href=\"#{}\">{}</a></li>", escaped(id), escaped(name));
}

std::string framed(const std::string& title, const std::string& device, const std::string& links,
                   const std::string& sections, const std::string& footer) {
  return filled(page_html, {{"TITLE", escaped(title)},
                            {"DEVICE", escaped(device)},
                            {"LINKS", links},
                            {"SECTIONS", sections},
                            {"FOOTER", footer},
                            {"PALETTE", palette_css()},
                            {"PAGE_CSS", std::string(page_css)},
                            {"PAGE_JS", std::string(page_js)}});
}

std::string leaf_name(const std::string& section, const std::string& leaf) {
  return leaf.empty() ? section : section + "." + leaf;
}

// Whole tables of a profile would hide the other differences; what is not known has no value.
std::string shortened(const std::string& value) {
  constexpr std::size_t longest = 90;
  if (value.size() <= longest) {
    return value == "null" ? "" : value;
  }
  const std::string_view begin = std::string_view(value).substr(0, longest);
  return fmt::format("{} ... ({} characters)", begin.substr(0, begin.rfind(' ')), value.size());
}

bool is_anything_known(const DeviceDescription& profile, const std::string& section) {
  return std::ranges::any_of(leaf_values(profile, section),
                             [](const model::LeafValue& value) { return value.text.has_value(); });
}

// Whole sections of which something is known of one device and nothing of the other.
std::string sections_of_one(const std::vector<infer::LeafDifference>& found, const NamedProfile& one,
                            const NamedProfile& other) {
  std::vector<std::string> names;
  for (const infer::LeafDifference& each : found) {
    if (each.leaf.empty() && is_anything_known(*one.profile, each.section) &&
        !is_anything_known(*other.profile, each.section)) {
      names.push_back(each.section);
    }
  }
  return names.empty()
             ? ""
             : "<p>" +
                   escaped(fmt::format("Of {} alone, not of {}: {}.", one.name, other.name, fmt::join(names, ", "))) +
                   "</p>\n";
}

// A table of members in which nothing is amiss has no columns for that.
Table without_empty_columns(const Table& table) {
  Table kept{.head = {}, .rows = std::vector<std::vector<std::string>>(table.rows.size())};
  for (std::size_t column = 0; column < table.head.size(); ++column) {
    const bool is_empty = std::ranges::all_of(table.rows, [&](const auto& row) { return row.at(column).empty(); });
    if (is_empty) {
      continue;
    }
    kept.head.push_back(table.head[column]);
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      kept.rows[row].push_back(table.rows[row][column]);
    }
  }
  return kept;
}

}  // namespace

std::string page_of(const DeviceDescription& profile, const std::string& profile_name,
                    const std::vector<std::string>& targets, const Measurements& measurements,
                    const std::function<void()>& on_section) {
  std::string links = link_to("glance", "At a glance");
  std::string sections =
      glance_html(profile) + overview_html({{.name = profile.device.name, .profile = &profile}}, measurements);
  const std::vector<Section> parts = sections_of(profile, targets);
  std::vector<std::string> drawn(parts.size());
  for_each_index(parts.size(), std::nullopt, [&](std::size_t i) {
    drawn[i] = section_html(parts[i], profile, measurements);
    on_section();
  });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    links += link_to(parts[i].target, parts[i].name);
    sections += drawn[i];
  }
  if (const std::string papers = targets == described_targets(profile, profile_name, {}) ? papers_html(profile) : "";
      !papers.empty()) {
    links += link_to("papers", "Papers");
    sections += papers;
  }
  return framed(profile.device.name, device_line(profile.device), links, sections,
                "<p>" + escaped(sources_text(profile_name, measurements)) + "</p>" + provenance_html(profile.device));
}

std::string comparison_page(const std::vector<NamedProfile>& profiles) {
  std::string links;
  std::string sections;
  std::string title;
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    const std::string id = fmt::format("device-{}", i + 1);
    title += (title.empty() ? "" : " and ") + profiles[i].name;
    links += link_to(id, profiles[i].name);
    sections +=
        fmt::format("<h2 id=\"{}\">{}</h2>\n", id, escaped(profiles[i].name)) + glance_html(*profiles[i].profile);
  }
  // Of two devices the head has the names, of more each cell.
  const bool are_two = profiles.size() == 2;
  Table table{.head = {"what", profiles.front().name, are_two ? profiles.back().name : "other", "verdict", "note"},
              .rows = {}};
  std::string only_of_one;
  for (std::size_t i = 1; i < profiles.size(); ++i) {
    const auto found = infer::differences(*profiles.front().profile, *profiles[i].profile);
    only_of_one +=
        sections_of_one(found, profiles.front(), profiles[i]) + sections_of_one(found, profiles[i], profiles.front());
    for (const infer::LeafDifference& each : found) {
      const bool is_told = each.verdict == infer::Verdict::differs || each.verdict == infer::Verdict::less_certain;
      if (is_told && !each.leaf.empty()) {
        table.rows.push_back({leaf_name(each.section, each.leaf), shortened(each.first),
                              (are_two ? "" : profiles[i].name + ": ") + shortened(each.second),
                              each.verdict == infer::Verdict::differs ? "differs" : "less certain", each.note});
      }
    }
  }
  return framed(title, "side by side", link_to("overview", "Overview") + links + link_to("differences", "Differences"),
                overview_html(profiles, {}) + sections + "<section id=\"differences\">\n<h2>Differences</h2>\n" +
                    html(table, fmt::format("{} leaves that are not the same", table.rows.size())) + only_of_one +
                    "</section>\n",
                "<p>By " + escaped(program_version()) + ".</p>");
}

std::string fleet_page(const survey::Fleet& fleet, const std::vector<std::string>& targets) {
  Table members{.head = {"id", "device", "host", "leaves that deviate", "less certain", "failure"}, .rows = {}};
  Table deviations{.head = {"id", "what", "common", "here", "note"}, .rows = {}};
  std::map<std::string, std::size_t> by_leaf;
  for (const survey::FleetMember& member : fleet.members) {
    members.rows.push_back({member.id, member.name.value_or(member.device), member.host.value_or(""),
                            member.differs.empty() ? "" : std::to_string(member.differs.size()),
                            member.less_certain.empty() ? "" : std::to_string(member.less_certain.size()),
                            member.failure.value_or("")});
    for (const survey::FleetLeaf& leaf : member.differs) {
      const std::string name = leaf_name(leaf.section, leaf.leaf);
      deviations.rows.push_back({member.id, name, shortened(leaf.common), shortened(leaf.here), leaf.note});
      ++by_leaf[name];
    }
  }
  Chart chart{.x = {.title = "what"},
              .y = {.title = "devices that deviate", .at_least_to = static_cast<double>(fleet.members.size())}};
  Series series{.name = "devices", .shape = Series::Shape::bars, .role = Role::miss, .points = {}};
  for (const auto& [name, count] : by_leaf) {
    series.points.push_back({static_cast<double>(chart.categories.size()), static_cast<double>(count)});
    chart.categories.push_back(name);
  }
  chart.series.push_back(std::move(series));
  const auto figure = chart_figure("What deviates", "Devices whose value is not the common one, by leaf.", chart);
  std::string sections = "<section id=\"fleet\">\n<h2>Fleet</h2>\n" +
                         html(without_empty_columns(members), fmt::format("{} devices", members.rows.size())) +
                         html(deviations, fmt::format("{} deviations", deviations.rows.size())) +
                         (figure ? html_of("Fleet", *figure) : "") + "</section>\n";
  std::string links = link_to("fleet", "Fleet");
  if (fleet.common) {
    links += link_to("glance", "Common profile");
    sections += "<h2>Common profile</h2>\n" + glance_html(*fleet.common) +
                overview_html({{.name = fleet.common->device.name, .profile = &*fleet.common}}, {});
    for (const Section& section : sections_of(*fleet.common, targets)) {
      links += link_to(section.target, section.name);
      sections += section_html(section, *fleet.common, {});
    }
  }
  return framed(fleet.common ? fleet.common->device.name : std::string("Fleet"),
                fmt::format("fleet of {} devices", fleet.members.size()), links, sections,
                "<p>Made from " + escaped(fleet.file) + " by " + escaped(program_version()) + ".</p>");
}

}  // namespace gpuinfer::cli::report
