# Finds MPI, over which surveys reach other hosts and searches are shared, when GPUINFER_MPI allows it; GPUINFER_HAVE_MPI says so.

set(GPUINFER_HAVE_MPI OFF)
if(NOT GPUINFER_MPI STREQUAL "OFF")
  find_package(MPI QUIET COMPONENTS C)
  if(MPI_C_FOUND)
    set(GPUINFER_HAVE_MPI ON)
  elseif(GPUINFER_MPI STREQUAL "ON")
    message(FATAL_ERROR "GPUINFER_MPI is ON and MPI is not there; install the Debian package libopenmpi-dev.")
  endif()
endif()
message(STATUS "MPI: ${GPUINFER_HAVE_MPI} (GPUINFER_MPI is ${GPUINFER_MPI})")
