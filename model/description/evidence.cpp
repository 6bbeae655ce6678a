// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/description/evidence.hpp"

#include <algorithm>
#include <iterator>

#include "model/description/values.hpp"

namespace gpuinfer::model {

namespace {

using codec::max_count;
using Size = codec::Whole<std::size_t>;

constexpr codec::Real<> probability{.most = 1};
constexpr Size any_count{.most = max_count};

// A value of any kind.
struct AnyValue {
  [[nodiscard]] static FlowYaml read(const Place& place) { return to_flow_yaml(place.node()); }
  [[nodiscard]] static std::string write(const FlowYaml& value) { return value; }
  [[nodiscard]] static std::string text(const FlowYaml& value) { return value; }
  [[nodiscard]] static LeafFacts facts() { return {}; }
};

const codec::Map<DepartureBound>& departure_bound() {
  static const codec::Map<DepartureBound> map{
      .leaves = {leaf("departures_below", &DepartureBound::departures_below, probability,
                      "departures from the value that are more frequent per load are excluded")
                     .needed(),
                 leaf("at", &DepartureBound::at, probability, "with this confidence").needed()},
      .words = [](const DepartureBound& bound) {
        constexpr int digits = 3;
        return words::together({"departures in ", words::rounded(100 * bound.departures_below, digits),
                                " % of the loads or more are excluded at ", to_text(bound.at)});
      }};
  return map;
}

const Leaves<LeafEvidence>& leaf_evidence_leaves() {
  static const Leaves<LeafEvidence> leaves{
      leaf("status", &LeafEvidence::status,
           codec::Words<EvidenceStatus>{.words = {{"resolved", EvidenceStatus::resolved},
                                                  {"ambiguous", EvidenceStatus::ambiguous},
                                                  {"unknown", EvidenceStatus::unknown}},
                                        .refusal = "is not a status"},
           "what the value is worth; see the words below")
          .needed(),
      leaf("confidence", &LeafEvidence::confidence, probability,
           "how sure the value is: by Laplace's rule of succession, from how many trials could have refuted it and did "
           "not. Over random caches, values stated at 0.99 are wrong in fewer than one case in a hundred "
           "(`scripts/bench calibration`)")
          .sparse(),
      leaf("experiments", &LeafEvidence::experiments, any_count, "how many questions bear on it").sparse(),
      leaf("alternatives", &LeafEvidence::alternatives, codec::List<AnyValue>{},
           "values that explain everything that was seen")
          .sparse(),
      leaf("reason", &LeafEvidence::reason, codec::Text{}, "why the value is not resolved").sparse(),
      leaf("decided_by", &LeafEvidence::decided_by, codec::Text{},
           "the experiment that would decide, where only recordings were there")
          .sparse(),
      leaf("bound", &LeafEvidence::bound, departure_bound(),
           "of a policy, an index and sets: how rare a departure must be to be overlooked")
          .sparse(),
  };
  return leaves;
}

const codec::Map<PredictionEvidence>& prediction() {
  static const codec::Map<PredictionEvidence> map{
      .leaves = {leaf("agreement", &PredictionEvidence::agreement, probability),
                 leaf("accesses", &PredictionEvidence::accesses, any_count),
                 leaf("sequences", &PredictionEvidence::sequences, any_count),
                 leaf("outliers", &PredictionEvidence::outliers, any_count),
                 leaf("voted_agreement", &PredictionEvidence::voted_agreement, probability).sparse(),
                 leaf("p_value", &PredictionEvidence::p_value, probability).sparse(),
                 leaf("assuming", &PredictionEvidence::assuming, AnyValue{}).sparse()}};
  return map;
}

const codec::Map<Inquiry>& inquiry() {
  static const codec::Map<Inquiry> map{
      .leaves = {leaf("asked", &Inquiry::asked, codec::Text{}), leaf("why", &Inquiry::why, codec::Text{}),
                 leaf("learned", &Inquiry::learned, codec::Text{}), leaf("questions", &Inquiry::questions, any_count),
                 leaf("accesses", &Inquiry::accesses, any_count),
                 leaf("hypotheses_before", &Inquiry::hypotheses_before, any_count).sparse(),
                 leaf("hypotheses_after", &Inquiry::hypotheses_after, any_count).sparse()}};
  return map;
}

void read_detail(const std::string& name, const Place& place, EvidenceDetails& details) {
  const auto row = std::ranges::find(evidence_detail_leaves(), name, &Leaf<EvidenceDetails>::name);
  if (row == evidence_detail_leaves().end()) {
    details.others.emplace(name, AnyValue::read(place));
  } else if (!place.is_null() || row->may_be_null) {
    row->read(place, details);
  }
}

// By name.
std::vector<std::pair<std::string, std::string>> written_details(const EvidenceDetails& details) {
  auto entries = written_leaves(details, evidence_detail_leaves());
  for (const auto& [name, value] : details.others) {
    entries.emplace_back(to_yaml_scalar(name), value);
  }
  std::ranges::sort(entries);
  return entries;
}

LeafEvidence leaf_evidence_from(const Place& place) {
  const Leaves<LeafEvidence>& leaves = leaf_evidence_leaves();
  LeafEvidence evidence;
  for (const Leaf<LeafEvidence>& each : leaves) {
    if (const auto entry = each.is_needed ? place.need(each.name) : place.find(each.name)) {
      each.read(*entry, evidence);
    }
  }
  for (const auto& [name, value] : place.entries()) {
    if (std::ranges::find(leaves, name, &Leaf<LeafEvidence>::name) == leaves.end()) {
      read_detail(name, value, evidence.details);
    }
  }
  return evidence;
}

std::string leaf_evidence_text(const LeafEvidence& evidence) {
  auto entries = written_leaves(evidence, leaf_evidence_leaves());
  std::ranges::move(written_details(evidence.details), std::back_inserter(entries));
  return flow_map(entries);
}

}  // namespace

std::vector<LeafFacts> evidence_facts() {
  std::vector<LeafFacts> facts = facts_of(leaf_evidence_leaves());
  std::ranges::move(facts_of(evidence_detail_leaves()), std::back_inserter(facts));
  return facts;
}

std::vector<std::pair<std::string, std::string>> details_in_words(const LeafEvidence& evidence) {
  std::vector<std::pair<std::string, std::string>> details;
  if (evidence.bound) {
    details.emplace_back("bound", departure_bound().text(*evidence.bound));
  }
  std::ranges::move(written_details(evidence.details), std::back_inserter(details));
  return details;
}

std::vector<std::pair<std::string_view, schema::Object>> evidence_definitions() {
  schema::Object leaf = schema_of(evidence_facts());
  leaf.back() = {"additionalProperties", "true"};
  return {{"leaf_evidence", leaf},
          {"prediction", schema::or_null(prediction().facts().schema)},
          {"inquiries", schema::list(inquiry().facts().schema)}};
}

schema::Object evidence_schema(std::vector<std::string_view> names) {
  names.insert(names.end(), {"prediction", "inquiries"});
  return {{"type", "object"},
          {"properties", flow_map({{"prediction", schema::text(schema::reference("prediction"))},
                                   {"inquiries", schema::text(schema::reference("inquiries"))}})},
          {"propertyNames", schema::text({{"enum", schema::word_list(names)}})},
          {"additionalProperties", schema::text(schema::reference("leaf_evidence"))}};
}

CacheEvidence evidence_from(const Place& place, std::string_view of_what, Names names) {
  CacheEvidence evidence;
  for (const auto& [name, value] : place.entries()) {
    if (name == "prediction") {
      evidence.prediction = value.is_null() ? std::nullopt : std::optional(prediction().read(value));
    } else if (name == "inquiries") {
      evidence.inquiries = codec::List<codec::Map<Inquiry>>{.item = inquiry()}.read(value);
    } else if (!names.empty() && !contains(names, name)) {
      value.fail("is not a leaf of a " + std::string(of_what) + "; write `" + nearest(name, names) + "` or remove it");
    } else {
      evidence.leaves.emplace(name, leaf_evidence_from(value));
    }
  }
  return evidence;
}

std::string evidence_block(const CacheEvidence& evidence) {
  std::string block;
  for (const auto& [name, leaf] : evidence.leaves) {
    block += "    " + to_yaml_scalar(name) + ": " + leaf_evidence_text(leaf) + "\n";
  }
  if (evidence.prediction) {
    block += "    prediction: " + prediction().write(*evidence.prediction) + "\n";
  }
  if (!evidence.inquiries.empty()) {
    block += "    inquiries:\n";
    for (const Inquiry& each : evidence.inquiries) {
      block += "      - " + inquiry().write(each) + "\n";
    }
  }
  return block;
}

}  // namespace gpuinfer::model
