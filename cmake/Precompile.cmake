# But for debugging, what many files include is read once for all of them; that saves a seventh of what the compiler does.
# Files name what they use all the same.
set(GPUINFER_PRECOMPILED <algorithm> <array> <cmath> <functional> <map> <memory> <numeric> <optional> <span> <string>
                         <utility> <variant> <vector>)
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  file(CONFIGURE OUTPUT headers.cpp CONTENT "")
  add_library(gpuinfer_headers OBJECT "${CMAKE_CURRENT_BINARY_DIR}/headers.cpp")
  gpuinfer_warnings(gpuinfer_headers)
  target_compile_options(gpuinfer_headers PRIVATE $<$<CONFIG:Release>:-O1>)
  target_include_directories(gpuinfer_headers PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(gpuinfer_headers PRIVATE nlohmann_json::nlohmann_json)
  set_target_properties(gpuinfer_headers PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                                    VISIBILITY_INLINES_HIDDEN ON)
  target_precompile_headers(
    gpuinfer_headers PRIVATE ${GPUINFER_PRECOMPILED} <chrono> <filesystem> <set> <unordered_map> <nlohmann/json.hpp>
                             <model/answerer.hpp>)
endif()

# gpuinfer_precompile(TARGET...): these targets get what is read once. All of their code is position-independent and
# compiled with -O1: what gcc 12 has read at one level it cannot optimize at another.
function(gpuinfer_precompile)
  if(TARGET gpuinfer_headers)
    foreach(target ${ARGN})
      target_precompile_headers(${target} REUSE_FROM gpuinfer_headers)
    endforeach()
  endif()
endfunction()
