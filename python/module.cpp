// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
//
// The bridge between gpuinfer/__init__.py, which checks what people hand in, and the libraries. Arrays of addresses and
// offsets are of type uint64 and contiguous.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "infer/cache/infer_cache.hpp"
#include "infer/recordings/infer_traces.hpp"
#include "model/cache_simulator.hpp"
#include "model/description/sections.hpp"
#include "model/description_yaml.hpp"
#include "model/errors.hpp"
#include "model/hierarchy.hpp"
#include "probe/importers.hpp"

namespace py = pybind11;

namespace gpuinfer {

namespace {

template <class Number>
using Array = py::array_t<Number, py::array::c_style>;
using Numbers = Array<std::uint64_t>;

template <class Number>
std::span<const Number> span_of(const Array<Number>& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

template <class Number>
std::vector<Number> vector_of(const Array<Number>& array) {
  return {array.data(), array.data() + array.size()};
}

template <class Sequence>
auto array_of(const Sequence& sequence) {
  using Number = std::remove_cvref_t<decltype(*sequence.data())>;
  return Array<Number>(static_cast<py::ssize_t>(sequence.size()), sequence.data());
}

model::StartState start_state(const std::string& name) {
  const auto state = model::start_state_from(name);
  if (!state) {
    throw InputError("state: `" + name + "` is not known; write clean, invalidated, flooded or keep");
  }
  return *state;
}

// A simulator that is played by one thread at a time, while others run Python.
template <class Simulator>
class Shared {
 public:
  explicit Shared(Simulator simulator) : simulator_(std::move(simulator)) {}

  template <class Work>
  void with(Work&& work) {
    const py::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    work(simulator_);
  }

 private:
  std::mutex mutex_;
  Simulator simulator_;
};

class CacheSimulator {
 public:
  CacheSimulator(const model::DeviceDescription& device, const std::string& cache, std::uint64_t seed)
      : simulator_(model::CacheSimulator::make(device.caches.at(cache), seed)) {}

  void put_into(const std::string& name) {
    const model::StartState state = start_state(name);
    simulator_.with([&](auto& simulator) { simulator->put_into(state); });
  }

  Array<std::uint8_t> play(const Numbers& addresses) {
    static_assert(sizeof(model::Outcome) == sizeof(std::uint8_t));
    Array<std::uint8_t> outcomes(addresses.size());
    auto* const out = reinterpret_cast<model::Outcome*>(outcomes.mutable_data());
    const auto in = span_of(addresses);
    simulator_.with([&](auto& simulator) { simulator->play(in, {out, in.size()}); });
    return outcomes;
  }

 private:
  Shared<std::unique_ptr<model::CacheSimulator>> simulator_;
};

class PathSimulator {
 public:
  PathSimulator(const model::DeviceDescription& device, const std::string& path, std::uint64_t seed)
      : path_(device.paths.at(path)), latencies_(device, path),
        simulator_(model::HierarchySimulator(device, path, seed)) {}

  void put_into(const std::string& name) {
    const model::StartState state = start_state(name);
    simulator_.with([&](auto& simulator) { simulator.put_into(state); });
  }

  // For each access the cache that had the data (as many as there are: memory), the translation, and the latency.
  py::tuple play(const Numbers& addresses) {
    Array<std::uint8_t> caches(addresses.size());
    Array<std::uint8_t> translations(addresses.size());
    Array<double> latency_cycles(addresses.size());
    auto* const cache = caches.mutable_data();
    auto* const translation = translations.mutable_data();
    auto* const cycles = latency_cycles.mutable_data();
    const auto in = span_of(addresses);
    simulator_.with([&](auto& simulator) {
      std::vector<model::AccessClass> classes(in.size());
      simulator.play(in, classes);
      for (std::size_t i = 0; i < classes.size(); ++i) {
        cache[i] = classes[i].cache.value_or(static_cast<std::uint8_t>(path_.caches.size()));
        translation[i] = static_cast<std::uint8_t>(classes[i].translation);
        cycles[i] = latencies_.of(classes[i]).cycles;
      }
    });
    return py::make_tuple(caches, translations, latency_cycles);
  }

 private:
  model::PathDescription path_;
  model::PathLatencies latencies_;
  Shared<model::HierarchySimulator> simulator_;
};

// A Python callable as a device: `answer(state, warm, record)` returns latencies, or a text that says why it cannot.
class CallableDevice final : public model::Answerer {
 public:
  CallableDevice(py::function answer, model::DeviceFacts facts)
      : answer_(std::move(answer)), facts_(std::move(facts)) {}

  [[nodiscard]] const model::DeviceFacts& facts() const override { return facts_; }

  [[nodiscard]] std::vector<model::Answer> ask(std::span<const model::Question> questions) override {
    const py::gil_scoped_acquire acquired;
    std::vector<model::Answer> answers;
    answers.reserve(questions.size());
    for (const model::Question& question : questions) {
      const py::object said =
          answer_(std::string(to_string(question.state)), array_of(question.warm), array_of(question.record));
      if (py::isinstance<py::str>(said)) {
        answers.push_back({.latency_cycles = {}, .refusal = said.cast<std::string>()});
      } else {
        answers.push_back({.latency_cycles = vector_of(said.cast<Array<float>>()), .refusal = {}});
      }
    }
    return answers;
  }

 private:
  py::function answer_;
  model::DeviceFacts facts_;
};

infer::Settings settings_for(std::uint64_t seed, std::optional<std::size_t> budget_accesses,
                             std::optional<double> timeout_seconds) {
  infer::Settings settings{.seed = seed, .budget_accesses = budget_accesses, .deadline = {}};
  if (timeout_seconds) {
    settings.deadline =
        std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                               std::chrono::duration<double>(*timeout_seconds));
  }
  // Ctrl-C is an exception of Python's and ends the inference as such.
  settings.stop_requested = [] {
    const py::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() != 0) {
      throw py::error_already_set();
    }
    return false;
  };
  return settings;
}

py::tuple profile_of(const model::DeviceFacts& facts, const std::string& target, infer::CacheFinding finding) {
  model::DeviceDescription profile;
  profile.device.name = facts.name;
  profile.device.source = facts.source;
  profile.caches[target] = std::move(finding.cache);
  profile.evidence[target] = std::move(finding.evidence);
  std::vector<std::string> warnings;
  std::ranges::transform(finding.warnings, std::back_inserter(warnings), infer::to_text);
  return py::make_tuple(std::move(profile), warnings, finding.ended_early);
}

py::tuple infer_traces(const std::vector<model::Trace>& traces, const model::DeviceFacts& facts,
                       const infer::Settings& settings) {
  infer::CacheFinding finding;
  {
    const py::gil_scoped_release released;
    finding = infer::infer_traces(traces, facts.buffer.address, settings);
  }
  return profile_of(facts, facts.targets.front(), std::move(finding));
}

py::tuple infer_callable(const py::function& answer, const model::DeviceFacts& facts, const infer::Settings& settings) {
  CallableDevice device(answer, facts);
  infer::CacheFinding finding;
  {
    const py::gil_scoped_release released;
    finding = infer::infer_cache(device, facts.targets.front(), settings);
  }
  return profile_of(facts, facts.targets.front(), std::move(finding));
}

// Keys below which parts that are found out stand under names of their own.
std::vector<std::string> named_sections() {
  std::vector<std::string> keys;
  for (const auto& section : model::sections()) {
    if (section.is_named && section.is_found_out()) {
      keys.emplace_back(section.key);
    }
  }
  return keys;
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.attr("version") = GPUINFER_VERSION;
  module.attr("named_sections") = named_sections();
  const auto error = py::register_exception<Error>(module, "Error", PyExc_RuntimeError);
  static_cast<void>(py::register_exception<DeviceError>(module, "DeviceError", error));
  // Both an Error and a ValueError. The last translator that was registered is asked first.
  static_cast<void>(
      py::register_exception<InputError>(module, "InputError", py::make_tuple(error, py::handle(PyExc_ValueError))));

  py::class_<model::DeviceDescription>(module, "Description")
      .def_static("parse",
                  [](const std::string& text, const std::string& file) { return model::parse_description(text, file); })
      .def_static("read", [](const std::string& file) { return model::read_description(file); })
      .def("to_yaml", [](const model::DeviceDescription& self) { return model::to_yaml(self); })
      .def("to_json", [](const model::DeviceDescription& self) { return model::to_json(self); });

  py::class_<CacheSimulator>(module, "CacheSimulator")
      .def(py::init<const model::DeviceDescription&, const std::string&, std::uint64_t>())
      .def("put_into", &CacheSimulator::put_into)
      .def("play", &CacheSimulator::play, py::arg().noconvert());

  py::class_<PathSimulator>(module, "PathSimulator")
      .def(py::init<const model::DeviceDescription&, const std::string&, std::uint64_t>())
      .def("put_into", &PathSimulator::put_into)
      .def("play", &PathSimulator::play, py::arg().noconvert());

  py::class_<model::Trace>(module, "Trace")
      .def(py::init([](std::string name, std::string target, const std::optional<std::string>& state,
                       const Numbers& warm, const Numbers& record, const Array<float>& latency_cycles) {
        return model::Trace{.name = std::move(name),
                            .question = {.target = std::move(target),
                                         .state = start_state(state.value_or("keep")),
                                         .warm = vector_of(warm),
                                         .record = vector_of(record)},
                            .latency_cycles = vector_of(latency_cycles),
                            .start_is_known = state.has_value()};
      }))
      .def_readonly("name", &model::Trace::name)
      .def_property_readonly("target", [](const model::Trace& self) { return self.question.target; })
      .def_property_readonly("state",
                             [](const model::Trace& self) {
                               return self.start_is_known ? std::optional(std::string(to_string(self.question.state)))
                                                          : std::nullopt;
                             })
      .def_property_readonly("warm", [](const model::Trace& self) { return array_of(self.question.warm); })
      .def_property_readonly("record", [](const model::Trace& self) { return array_of(self.question.record); })
      .def_property_readonly("latency_cycles", [](const model::Trace& self) { return array_of(self.latency_cycles); });

  py::class_<model::DeviceFacts>(module, "DeviceFacts")
      .def(py::init([](std::string name, std::string target, std::uint64_t buffer_bytes, std::uint64_t address) {
        return model::DeviceFacts{.name = std::move(name),
                                  .source = "python",
                                  .compute_capability = {},
                                  .sm_count = {},
                                  .targets = {std::move(target)},
                                  .buffer = {.bytes = buffer_bytes, .address = model::Address{address}},
                                  .own_buffers = {},
                                  .warm_targets = {},
                                  .shared_memories_kb = {},
                                  .provenance = {}};
      }));

  py::class_<infer::Settings>(module, "Settings").def(py::init(&settings_for));
  module.def(
      "read_traces", [](const std::string& file) { return probe::read_traces(file); },
      py::call_guard<py::gil_scoped_release>());
  module.def("infer_traces", &infer_traces);
  module.def("infer_callable", &infer_callable);
}

}  // namespace gpuinfer
