# The interpreter for the tests and the module. Debian's own is the one that its packages (numpy, pybind11) are for;
# -D Python3_EXECUTABLE=... names another one. GPUINFER_HAVE_PYTHON says whether the module can be built.

if(NOT DEFINED Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()

set(GPUINFER_HAVE_PYTHON OFF)
if(NOT GPUINFER_PYTHON STREQUAL "OFF")
  find_package(Python3 COMPONENTS Interpreter Development.Module)
  find_package(pybind11 QUIET)
  if(Python3_Development.Module_FOUND AND pybind11_FOUND)
    set(GPUINFER_HAVE_PYTHON ON)
  elseif(GPUINFER_PYTHON STREQUAL "ON")
    message(FATAL_ERROR "GPUINFER_PYTHON is ON and pybind11 or the headers of Python are missing; "
                        "install the Debian packages pybind11-dev and python3-dev.")
  endif()
endif()
message(STATUS "Python module: ${GPUINFER_HAVE_PYTHON} (GPUINFER_PYTHON is ${GPUINFER_PYTHON})")
