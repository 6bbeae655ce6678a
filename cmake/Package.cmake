# What `cpack` makes: a Debian package of each component that was built. `scripts/package` does all of it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME gpuinfer)
set(CPACK_PACKAGE_CONTACT "The gpuinfer authors <gpuinfer@gpuinfer.example>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(about "gpuinfer times single loads of a GPU and concludes from the latencies how
its caches are built: size, line, sectors, sets, index function,
replacement policy. It reports how each value was verified.")

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME gpuinfer)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS libvulkan1)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "finds out how the caches of a GPU are built\n${about}")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libgpuinfer-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "gpuinfer (= ${PROJECT_VERSION}), libhdf5-dev, libsqlite3-dev, libtbb-dev, libyaml-cpp-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "simulator and inference of gpuinfer as C++ libraries\n${about}\n
This package has static libraries, their headers and what CMake needs.")

if(GPUINFER_HAVE_PYTHON)
  math(EXPR next "${Python3_VERSION_MINOR} + 1")
  list(APPEND CPACK_COMPONENTS_ALL python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-gpuinfer)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
      "python3 (>= 3.${Python3_VERSION_MINOR}), python3 (<< 3.${next}), python3-numpy")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "gpuinfer (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS python3-matplotlib)
  set(CPACK_COMPONENT_PYTHON_DESCRIPTION
      "gpuinfer as a Python module\n${about}\n
This package has the module `gpuinfer`.")
endif()

if(GPUINFER_HAVE_MPI)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME gpuinfer-mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "gpuinfer (= ${PROJECT_VERSION}), openmpi-bin")
  set(CPACK_COMPONENT_MPI_DESCRIPTION "finds out how the caches of many GPUs are built, over MPI\n${about}\n
This package has what `gpuinfer survey` loads under mpirun, and `gpuinfer infer --mpi`.")
endif()

# What every Debian package has to have.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(CONFIGURE OUTPUT changelog CONTENT [[gpuinfer (@PROJECT_VERSION@) unstable; urgency=medium

  * Version @PROJECT_VERSION@.

 -- @CPACK_PACKAGE_CONTACT@  @date@
]] @ONLY)
file(ARCHIVE_CREATE OUTPUT "${PROJECT_BINARY_DIR}/changelog.gz" PATHS "${PROJECT_BINARY_DIR}/changelog" FORMAT raw
     COMPRESSION GZip COMPRESSION_LEVEL 9)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  install(
    FILES "${PROJECT_SOURCE_DIR}/cmake/copyright" "${PROJECT_BINARY_DIR}/changelog.gz"
    DESTINATION share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}
    COMPONENT ${component})
endforeach()

include(CPack)
