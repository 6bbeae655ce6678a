# Finds what probe/vulkan is built with when GPUINFER_VULKAN allows it: headers of Vulkan and a compiler of GLSL. The
# library itself is looked for when the program runs. GPUINFER_HAVE_VULKAN says so.

set(GPUINFER_HAVE_VULKAN OFF)
if(NOT GPUINFER_VULKAN STREQUAL "OFF")
  find_path(GPUINFER_VULKAN_INCLUDE vulkan/vulkan_raii.hpp)
  find_program(GPUINFER_GLSLC glslc)
  mark_as_advanced(GPUINFER_VULKAN_INCLUDE GPUINFER_GLSLC)
  if(GPUINFER_VULKAN_INCLUDE AND GPUINFER_GLSLC)
    set(GPUINFER_HAVE_VULKAN ON)
  elseif(GPUINFER_VULKAN STREQUAL "ON")
    message(FATAL_ERROR "GPUINFER_VULKAN is ON and its headers or glslc are not there; "
                        "install the Debian packages libvulkan-dev and glslc.")
  endif()
endif()
message(STATUS "Vulkan probe: ${GPUINFER_HAVE_VULKAN} (GPUINFER_VULKAN is ${GPUINFER_VULKAN})")

# gpuinfer_shader(NAME SOURCE OPTIONS...): NAME.inc, the words of a shader as C++ initializes an array with them.
function(gpuinfer_shader name source)
  add_custom_command(
    OUTPUT ${name}.inc
    COMMAND "${GPUINFER_GLSLC}" --target-env=vulkan1.2 -Werror -mfmt=c ${ARGN} -o ${name}.inc
            "${CMAKE_CURRENT_SOURCE_DIR}/${source}"
    DEPENDS ${source}
    VERBATIM)
endfunction()
