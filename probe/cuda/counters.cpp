// SPDX-FileCopyrightText: The gpuinfer authors
// SPDX-License-Identifier: Apache-2.0
#include "probe/cuda/counters.hpp"

#include <cuda_runtime_api.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "probe/cuda/driver.hpp"

namespace gpuinfer::probe::cuda {
namespace {

// The loader knows one of the first where the toolkit is set up for that; the others are where it is installed.
constexpr std::array library_names{"libcupti.so.13", "libcupti.so", "/usr/local/cuda/lib64/libcupti.so",
                                   "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"};

// In units of sectors and bytes.
enum Metric : std::size_t { plain_sectors, texture_sectors, l2_loaded, l2_stored, dram_loaded, dram_stored };
constexpr std::array metric_names{"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
                                  "l1tex__t_sectors_pipe_tex_mem_texture.sum",
                                  "lts__t_sectors_srcunit_tex_op_read.sum",
                                  "lts__t_sectors_srcunit_tex_op_write.sum",
                                  "dram__bytes_read.sum",
                                  "dram__bytes_write.sum"};

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class Parameters>
Parameters of_size(std::size_t bytes) {
  Parameters parameters{};
  parameters.structSize = bytes;
  return parameters;
}

CUcontext current_context() {
  CUcontext context = nullptr;
  auto* const get = driver_function<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent");
  if (cudaFree(nullptr) != cudaSuccess || get == nullptr || get(&context) != CUDA_SUCCESS) {
    throw Failure("the driver names no context");
  }
  return context;
}

std::uint64_t whole(double value) { return static_cast<std::uint64_t>(std::llround(std::max(value, 0.0))); }

// CUPTI takes lists of names as pointers that it does not write through.
const char** names() { return const_cast<const char**>(metric_names.data()); }  // NOLINT(*-const-cast)

}  // namespace

template <class Parameters>
void Counters::call(const char* function, Parameters& parameters) const {
  using Function = CUptiResult(Parameters*);
  auto* const address = reinterpret_cast<Function*>(dlsym(library_, function));
  if (address == nullptr) {
    throw Failure(std::string("CUPTI has no ") + function);
  }
  const CUptiResult result = address(&parameters);
  if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES) {
    throw Failure("the driver lets only administrators count");
  }
  if (result != CUPTI_SUCCESS) {
    throw Failure(std::string(function) + " of CUPTI fails with " + std::to_string(static_cast<int>(result)));
  }
}

Counters::Counters() {
  // It stays: the driver calls what it has once begun.
  for (const char* const name : library_names) {
    if (library_ == nullptr) {
      library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
  }
  if (library_ == nullptr) {
    why_not_ = "CUPTI is not installed";
    return;
  }
  try {
    choose_metrics();
  } catch (const Failure& failure) {
    why_not_ = failure.what();
  }
}

Counters::~Counters() {
  rest();
  if (metrics_ == nullptr) {
    return;
  }
  try {
    auto end = of_size<CUpti_Profiler_Host_Deinitialize_Params>(CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE);
    end.pHostObject = static_cast<CUpti_Profiler_Host_Object*>(metrics_);
    call("cuptiProfilerHostDeinitialize", end);
  } catch (const Failure&) {
    // The process gives back what CUPTI keeps.
  }
}

void Counters::choose_metrics() {
  auto begin = of_size<CUpti_Profiler_Initialize_Params>(CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
  call("cuptiProfilerInitialize", begin);
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) {
    throw Failure("there is no current GPU");
  }
  auto chip = of_size<CUpti_Device_GetChipName_Params>(CUpti_Device_GetChipName_Params_STRUCT_SIZE);
  chip.deviceIndex = static_cast<std::size_t>(device);
  call("cuptiDeviceGetChipName", chip);
  auto host = of_size<CUpti_Profiler_Host_Initialize_Params>(CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE);
  host.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
  host.pChipName = chip.pChipName;
  call("cuptiProfilerHostInitialize", host);
  metrics_ = host.pHostObject;
  auto add =
      of_size<CUpti_Profiler_Host_ConfigAddMetrics_Params>(CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE);
  add.pHostObject = host.pHostObject;
  add.ppMetricNames = names();
  add.numMetrics = metric_names.size();
  call("cuptiProfilerHostConfigAddMetrics", add);
  auto size =
      of_size<CUpti_Profiler_Host_GetConfigImageSize_Params>(CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE);
  size.pHostObject = host.pHostObject;
  call("cuptiProfilerHostGetConfigImageSize", size);
  configuration_.resize(size.configImageSize);
  auto image =
      of_size<CUpti_Profiler_Host_GetConfigImage_Params>(CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE);
  image.pHostObject = host.pHostObject;
  image.configImageSize = configuration_.size();
  image.pConfigImage = configuration_.data();
  call("cuptiProfilerHostGetConfigImage", image);
}

void Counters::rest() {
  if (profiler_ == nullptr) {
    return;
  }
  auto end = of_size<CUpti_RangeProfiler_Disable_Params>(CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE);
  end.pRangeProfilerObject = profiler_;
  profiler_ = nullptr;
  try {
    call("cuptiRangeProfilerDisable", end);
  } catch (const Failure&) {
    // What was counted is right all the same.
  }
}

std::optional<model::CacheTraffic> Counters::traffic_of(const std::function<void()>& prepare,
                                                        const std::function<void()>& run) {
  if (!why_not_.empty()) {
    return std::nullopt;
  }
  try {
    constexpr std::uint64_t sector_bytes = 32;
    const std::vector<double> counted = count(prepare, run);
    return model::CacheTraffic{.l1_sectors = whole(counted[plain_sectors] + counted[texture_sectors]),
                               .l2_load_bytes = whole(counted[l2_loaded]) * sector_bytes,
                               .l2_store_bytes = whole(counted[l2_stored]) * sector_bytes,
                               .dram_load_bytes = whole(counted[dram_loaded]),
                               .dram_store_bytes = whole(counted[dram_stored])};
  } catch (const Failure& failure) {
    why_not_ = failure.what();
    return std::nullopt;
  }
}

std::vector<double> Counters::count(const std::function<void()>& prepare, const std::function<void()>& run) {
  if (profiler_ == nullptr) {
    auto enable = of_size<CUpti_RangeProfiler_Enable_Params>(CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE);
    enable.ctx = current_context();
    call("cuptiRangeProfilerEnable", enable);
    profiler_ = enable.pRangeProfilerObject;
  }
  std::vector<std::uint8_t> data = room_for_counts();
  configure(data);
  for (bool is_counted = false; !is_counted;) {
    is_counted = count_once(prepare, run);
  }
  auto decode = of_size<CUpti_RangeProfiler_DecodeData_Params>(CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE);
  decode.pRangeProfilerObject = profiler_;
  call("cuptiRangeProfilerDecodeData", decode);
  return values_of(data);
}

std::vector<std::uint8_t> Counters::room_for_counts() const {
  auto size =
      of_size<CUpti_RangeProfiler_GetCounterDataSize_Params>(CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE);
  size.pRangeProfilerObject = profiler_;
  size.pMetricNames = names();
  size.numMetrics = metric_names.size();
  size.maxNumOfRanges = 1;
  size.maxNumRangeTreeNodes = 1;
  call("cuptiRangeProfilerGetCounterDataSize", size);
  std::vector<std::uint8_t> data(size.counterDataSize);
  auto clear = of_size<CUpti_RangeProfiler_CounterDataImage_Initialize_Params>(
      CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE);
  clear.pRangeProfilerObject = profiler_;
  clear.counterDataSize = data.size();
  clear.pCounterData = data.data();
  call("cuptiRangeProfilerCounterDataImageInitialize", clear);
  return data;
}

void Counters::configure(std::vector<std::uint8_t>& data) const {
  auto configure = of_size<CUpti_RangeProfiler_SetConfig_Params>(CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE);
  configure.pRangeProfilerObject = profiler_;
  configure.configSize = configuration_.size();
  configure.pConfig = configuration_.data();
  configure.counterDataImageSize = data.size();
  configure.pCounterDataImage = data.data();
  configure.range = CUPTI_UserRange;
  configure.replayMode = CUPTI_UserReplay;
  configure.maxRangesPerPass = 1;
  configure.numNestingLevels = 1;
  configure.minNestingLevel = 1;
  configure.targetNestingLevel = 1;
  call("cuptiRangeProfilerSetConfig", configure);
}

bool Counters::count_once(const std::function<void()>& prepare, const std::function<void()>& run) const {
  prepare();
  auto start = of_size<CUpti_RangeProfiler_Start_Params>(CUpti_RangeProfiler_Start_Params_STRUCT_SIZE);
  start.pRangeProfilerObject = profiler_;
  call("cuptiRangeProfilerStart", start);
  auto push = of_size<CUpti_RangeProfiler_PushRange_Params>(CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE);
  push.pRangeProfilerObject = profiler_;
  push.pRangeName = "run";
  call("cuptiRangeProfilerPushRange", push);
  run();
  auto pop = of_size<CUpti_RangeProfiler_PopRange_Params>(CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE);
  pop.pRangeProfilerObject = profiler_;
  call("cuptiRangeProfilerPopRange", pop);
  auto stop = of_size<CUpti_RangeProfiler_Stop_Params>(CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE);
  stop.pRangeProfilerObject = profiler_;
  call("cuptiRangeProfilerStop", stop);
  return stop.isAllPassSubmitted != 0;
}

std::vector<double> Counters::values_of(const std::vector<std::uint8_t>& data) const {
  std::vector<double> values(metric_names.size());
  auto evaluate = of_size<CUpti_Profiler_Host_EvaluateToGpuValues_Params>(
      CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE);
  evaluate.pHostObject = static_cast<CUpti_Profiler_Host_Object*>(metrics_);
  evaluate.pCounterDataImage = data.data();
  evaluate.counterDataImageSize = data.size();
  evaluate.ppMetricNames = names();
  evaluate.numMetrics = metric_names.size();
  evaluate.pMetricValues = values.data();
  call("cuptiProfilerHostEvaluateToGpuValues", evaluate);
  return values;
}

}  // namespace gpuinfer::probe::cuda
