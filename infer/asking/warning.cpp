// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/asking/warning.hpp"

#include "infer/asking/thresholds.hpp"
#include "model/description_yaml.hpp"
#include "model/number_text.hpp"

namespace gpuinfer::infer {

namespace {

std::string sentence(const DeviceFailed& failed) {
  return "the device failed, so what follows is what was known by then: " + failed.failure;
}

std::string sentence(const TooManyMisreads& misreads) {
  return observed(misreads) + " (limit " + model::percent_text(most_misread) +
         "); stop other work on the device and run again";
}

std::string sentence(const OddSms& sms) {
  return std::to_string(sms.other_misses.size() + sms.other_latency.size()) + " of " + std::to_string(sms.asked) +
         " SMs answer otherwise (other misses " + model::to_flow_yaml(numbers_of(sms.other_misses)) +
         ", another latency " + model::to_flow_yaml(numbers_of(sms.other_latency)) +
         "), and none is expected; the profile holds for the others, so run again when the device has no other work";
}

std::string sentence(const WrongPeak& peak) { return peak.kernel + ": " + observed(peak); }

}  // namespace

std::string to_text(const Warning& warning) {
  return std::visit([](const auto& each) { return sentence(each); }, warning);
}

std::string observed(const TooManyMisreads& misreads) {
  constexpr int digits = 3;
  return "hits or misses are misread in " + model::to_text(model::rounded(100 * misreads.share, digits)) +
         " % of the accesses";
}

std::string observed(const WrongPeak& peak) {
  constexpr double giga = 1e9;
  constexpr int digits = 4;
  const auto gigabytes = [](double bytes) { return model::to_text(model::rounded(bytes / giga, digits)); };
  return "it moves " + gigabytes(peak.share * peak.peak_bytes_per_second) + " GB/s through " + peak.level + ", " +
         model::percent_text(peak.share) + " of the " + gigabytes(peak.peak_bytes_per_second) +
         " GB/s that are its peak, so this peak is " +
         (peak.is_sure ? "wrong" : "wrong, or its caches hold more than was assumed") + "; ask for Bandwidth again";
}

}  // namespace gpuinfer::infer
