# Compilers that come later warn of more, which must not keep users from building.
set(GPUINFER_WARNINGS_ARE_ERRORS ${GPUINFER_TESTS})

# gpuinfer_library(NAME SOURCES...): a static library gpuinfer_NAME, known as gpuinfer::NAME, with the project's warnings.
function(gpuinfer_warnings target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(
    ${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast
                      -Wnon-virtual-dtor>)
  if(GPUINFER_WARNINGS_ARE_ERRORS)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # Warns of overlapping copies in every "text" + std::string (GCC bug 105651).
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  endif()
  if(CMAKE_UNITY_BUILD)
    # Files compiled as one see each other's names; file by file, as in the preset `dev`, these warnings are heard.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
    endif()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Clang holds a local against a name of the namespace around, too.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>)
  endif()
endfunction()

function(gpuinfer_library name)
  add_library(gpuinfer_${name} STATIC ${ARGN})
  add_library(gpuinfer::${name} ALIAS gpuinfer_${name})
  target_include_directories(gpuinfer_${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
                                                   "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/gpuinfer>")
  gpuinfer_warnings(gpuinfer_${name})
endfunction()
