// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/report/state_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <utility>

#include "cli/leaf_table.hpp"
#include "model/set_machine.hpp"

namespace gpuinfer::cli::report {

namespace {

constexpr double node_radius = 21;

struct Point {
  double x = 0;
  double y = 0;
};

Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
Point operator*(double factor, Point a) { return {factor * a.x, factor * a.y}; }
Point unit(Point a) { return 1 / std::hypot(a.x, a.y) * a; }

// What leads from one state to another one.
struct Edge {
  bool is_miss = false;
  std::vector<std::uint32_t> hits;  // ways
};

using Edges = std::map<std::pair<std::size_t, std::size_t>, Edge>;

// Hits after which the state is the same are left out.
Edges edges_of(const std::vector<SetState>& states) {
  Edges edges;
  for (std::size_t from = 0; from < states.size(); ++from) {
    const SetState& state = states[from];
    if (state.after_miss != from) {
      edges[{from, state.after_miss}].is_miss = true;
    }
    for (std::uint32_t way = 0; way < state.after_hit.size(); ++way) {
      if (state.after_hit[way] != from) {
        edges[{from, state.after_hit[way]}].hits.push_back(way);
      }
    }
  }
  return edges;
}

// Bent to one side, so that the way back lies beside it.
void draw_edge(Drawing& drawing, Point from, Point to, const Edge& edge) {
  constexpr double bend = 0.16;
  constexpr double tip = 8;
  constexpr double label_at = 0.3;  // of the way, where edges of one state are apart
  const Point way = to - from;
  const Point control = 0.5 * (from + to) + bend * Point{way.y, -way.x};
  const Point begin = from + node_radius * unit(control - from);
  const Point end = to + node_radius * unit(control - to);
  const Point forward = unit(end - control);
  const Point aside{forward.y, -forward.x};
  const Point base = end - tip * forward;
  const Colour colour = edge.is_miss ? Colour::bad : Colour::accent;
  drawing.path(
      fmt::format("M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}", begin.x, begin.y, control.x, control.y, base.x, base.y),
      {.stroke = colour, .stroke_width = edge.is_miss ? 2.0 : 1.2});
  const Point left = base + 4 * aside;
  const Point right = base - 4 * aside;
  drawing.path(
      fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}z", end.x, end.y, left.x, left.y, right.x, right.y),
      {.fill = colour});
  if (!edge.hits.empty()) {
    const std::string text = fmt::format("{}", fmt::join(edge.hits, " "));
    const Letters letters{.colour = Colour::accent, .height = 11, .is_bold = true, .anchor = Anchor::middle};
    const Point at = (1 - label_at) * ((1 - label_at) * begin + label_at * control) +
                     label_at * ((1 - label_at) * control + label_at * base);
    const double width = Drawing::text_width(text, letters.height, true) + 2;
    drawing.box(at.x - width / 2, at.y - 7, width, 14, {.fill = Colour::paper}, 3);
    drawing.text(at.x, at.y + 4, text, letters);
  }
}

Drawing graph_of(const std::vector<SetState>& states) {
  constexpr double room = 92;  // of a state on the circle
  constexpr double margin = 8;
  const auto count = static_cast<double>(states.size());
  const double radius = std::max(80.0, count * room / (2 * std::numbers::pi));
  const double middle_at = radius + node_radius + margin;
  std::vector<Point> places;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / count;
    places.push_back({middle_at + radius * std::sin(angle), middle_at - radius * std::cos(angle)});
  }
  Drawing drawing;
  for (const auto& [ends, edge] : edges_of(states)) {
    draw_edge(drawing, places[ends.first], places[ends.second], edge);
  }
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto [x, y] = places[i];
    drawing.box(x - node_radius, y - node_radius, 2 * node_radius, 2 * node_radius,
                {.fill = Colour::fill, .stroke = Colour::faint}, node_radius);
    drawing.text(x, y - 1, std::to_string(i), {.is_bold = true, .anchor = Anchor::middle});
    drawing.text(x, y + 12, fmt::format("way {}", states[i].victim),
                 {.colour = Colour::bad, .height = 10, .anchor = Anchor::middle});
  }
  drawing.reach(2 * middle_at, 2 * middle_at);
  return drawing;
}

}  // namespace

std::optional<std::vector<SetState>> full_set_states(const model::Replacement& replacement, std::uint32_t ways,
                                                     std::size_t most) {
  model::SetMachine machine(replacement, ways);
  while (machine.filled() < ways) {
    machine.miss();
  }
  model::SetAutomaton automaton(machine);
  if (!automaton.complete(most)) {
    return std::nullopt;
  }
  using State = model::SetAutomaton::State;
  std::vector<State> order;
  const auto place_of = [&](State state) {
    return static_cast<std::size_t>(std::ranges::find(order, state) - order.begin());
  };
  const auto add_misses = [&](State state) {
    for (; place_of(state) == order.size(); state = automaton.after_miss(state).next) {
      order.push_back(state);
    }
  };
  add_misses(model::SetAutomaton::start);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::uint32_t way = 0; way < ways; ++way) {
      add_misses(automaton.after_hit(order[i], way));
    }
  }
  std::vector<SetState> states;
  for (const State state : order) {
    const model::SetAutomaton::Miss miss = automaton.after_miss(state);
    SetState& added =
        states.emplace_back(SetState{.victim = miss.way, .after_miss = place_of(miss.next), .after_hit = {}});
    for (std::uint32_t way = 0; way < ways; ++way) {
      added.after_hit.push_back(place_of(automaton.after_hit(state, way)));
    }
  }
  return states;
}

std::optional<Figure> state_figure(const model::CacheDescription& cache) {
  constexpr std::size_t most_listed = 128;
  constexpr std::size_t most_drawn = 16;
  constexpr std::uint32_t most_ways = 16;
  if (!cache.replacement || !cache.ways || !is_deterministic(*cache.replacement) || cache.sweep ||
      cache.ways->front() > most_ways) {
    return std::nullopt;
  }
  const std::uint32_t ways = cache.ways->front();
  const auto states = full_set_states(*cache.replacement, ways, most_listed);
  if (!states || states->size() < 2) {
    return std::nullopt;
  }
  const bool is_drawn = states->size() <= most_drawn;
  Figure figure{.title = "States of a full set",
                .note = fmt::format("{} with {} ways as a machine of {} states, counted from the one of a set filled "
                                    "without hits. In each state the way that a miss evicts",
                                    cache.replacement->policy, ways, states->size()),
                .table = {.head = {"state", "evicts way", "after a miss"}, .rows = {}}};
  figure.note += is_drawn
                     ? "; red: where that leads; blue: where hits of these ways lead. Hits that change nothing are "
                       "left out."
                     : ", and where misses and hits lead.";
  for (std::uint32_t way = 0; way < ways; ++way) {
    figure.table.head.push_back(fmt::format("after a hit of way {}", way));
  }
  for (std::size_t i = 0; i < states->size(); ++i) {
    const SetState& state = states->at(i);
    std::vector<std::string> row{std::to_string(i), std::to_string(state.victim), std::to_string(state.after_miss)};
    for (const std::size_t next : state.after_hit) {
      row.push_back(std::to_string(next));
    }
    figure.table.rows.push_back(std::move(row));
  }
  if (is_drawn) {
    constexpr double half_a_page = 520;
    figure.drawing = graph_of(*states);
    figure.is_narrow = figure.drawing->width() < half_a_page;
  }
  return figure;
}

}  // namespace gpuinfer::cli::report
