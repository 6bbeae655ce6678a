# What `cmake --install` installs, in three parts (components): `program` with its data, `development` for programs of
# others that link the libraries, `python` for the module.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
set(GPUINFER_CMAKE_DIRECTORY "${CMAKE_INSTALL_LIBDIR}/cmake/gpuinfer")

# gpuinfer_export(NAME): installs gpuinfer::NAME.
function(gpuinfer_export name)
  # They may become part of a shared library, such as the Python module. What is hidden there is called as directly as
  # in a program.
  set_target_properties(gpuinfer_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON
                                                    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  install(TARGETS gpuinfer_${name} EXPORT gpuinferTargets ARCHIVE COMPONENT development)
endfunction()

# gpuinfer_install_headers([EXCEPT PATTERN...]): the headers of this folder, under the path by which they are included.
function(gpuinfer_install_headers)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" EXCEPT)
  foreach(pattern IN LISTS arg_EXCEPT)
    list(APPEND exceptions PATTERN "${pattern}" EXCLUDE)
  endforeach()
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  install(
    DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gpuinfer/${folder}"
    COMPONENT development
    FILES_MATCHING
    PATTERN "*.hpp" ${exceptions})
endfunction()

# gpuinfer_install_config(): what find_package(gpuinfer) reads; after all libraries.
function(gpuinfer_install_config)
  install(
    EXPORT gpuinferTargets
    NAMESPACE gpuinfer::
    DESTINATION "${GPUINFER_CMAKE_DIRECTORY}"
    COMPONENT development)
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/gpuinferConfig.cmake.in" gpuinferConfig.cmake
                                INSTALL_DESTINATION "${GPUINFER_CMAKE_DIRECTORY}")
  write_basic_package_version_file(gpuinferConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(
    FILES "${CMAKE_CURRENT_BINARY_DIR}/gpuinferConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/gpuinferConfigVersion.cmake"
    DESTINATION "${GPUINFER_CMAKE_DIRECTORY}"
    COMPONENT development)
endfunction()
