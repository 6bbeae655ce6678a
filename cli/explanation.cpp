// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/explanation.hpp"

#include <fmt/format.h>

#include <string_view>

#include "cli/leaf_table.hpp"

namespace gpuinfer::cli {

namespace {

std::string hypotheses_text(const model::Inquiry& inquiry) {
  if (!inquiry.hypotheses_before || !inquiry.hypotheses_after) {
    return "";
  }
  return fmt::format(", hypotheses {} -> {}", grouped(*inquiry.hypotheses_before), grouped(*inquiry.hypotheses_after));
}

}  // namespace

std::string explanation(const model::CacheEvidence& evidence, std::size_t columns) {
  std::string text;
  std::size_t number = 0;
  for (const model::Inquiry& inquiry : evidence.inquiries) {
    text += fmt::format("{:>3}. {} accesses in {} questions{}\n", ++number, grouped(inquiry.accesses),
                        grouped(inquiry.questions), hypotheses_text(inquiry));
    const std::string indent(5, ' ');
    text += wrapped("asked: " + inquiry.asked, indent, columns) + wrapped("why: " + inquiry.why, indent, columns);
    text += wrapped("learned: " + (inquiry.learned.empty() ? "nothing, it was cut short" : inquiry.learned), indent,
                    columns);
  }
  return text;
}

}  // namespace gpuinfer::cli
